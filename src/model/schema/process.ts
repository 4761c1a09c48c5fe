import { z } from "zod";

export const processIdentitySchema = z.object({
  pid: z.int(),
  /** Clock ticks since boot, as shown in the time namespace of the process that read it. */
  startTime: z.int(),
  /** The pidfd inode, unique per boot; null where the kernel has none. */
  uniqueId: z.string().nullable(),
});

export const survivorSchema = z.object({
  pid: z.int(),
  startTime: z.int(),
  kind: z.string(),
  command: z.string(),
});

export const residueSchema = z.object({
  /** 0: a process that no list names. */
  pid: z.int(),
  startTime: z.int(),
  /** `hidden`: the process exists, and /proc does not show it (hidepid). */
  kind: z.enum(["background", "detached", "migrated", "foreign-uid", "hidden", "unkillable"]),
  /** Empty: hidden. */
  command: z.string(),
});

/** A process that a turn started and that was alive after the turn. */
export const leftoverProcessSchema = processIdentitySchema.extend({ command: z.string() });
