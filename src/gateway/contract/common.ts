import { z } from "zod";

/** Why the end of a run is not on record yet: the store cannot be written. Null: it is, or the run has not ended. */
export const recordPending = z.string().nullable();

export const nothing = z.object({});
export const runId = z.string().regex(/^[a-z0-9][a-z0-9_-]{0,62}$/, "is no run id");
export const runParams = z.object({ runId });

/** Query strings carry text only. */
export const flag = z.enum(["0", "1", "false", "true"]).transform((text) => text === "1" || text === "true");
export const count = z.coerce.number().int().min(0);
export const stream = z.enum(["stdout", "stderr"]);

/** A piece of one stream's output, as text. */
export const outputPiece = z.object({
  stream,
  /** Of the first byte of `text`. */
  offset: z.int(),
  /** Ask from here for what comes next. */
  nextOffset: z.int(),
  text: z.string(),
  /** Bytes before `offset` that were not kept, or not returned because of the limit. */
  skipped: z.int(),
  /** Bytes among these that are missing because a spool file was truncated or removed. */
  lost: z.int(),
  /** No byte comes after `nextOffset`. */
  ended: z.boolean(),
});

export const survivor = z.object({
  pid: z.int(),
  startTime: z.int(),
  kind: z.string(),
  command: z.string(),
});
