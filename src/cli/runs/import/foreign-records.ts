import { z } from "zod";
import type { FOREIGN_TOOLS } from "../../../model/enums.js";
import { splitShellWords } from "../../../text/shell-words.js";

export type ForeignTool = (typeof FOREIGN_TOOLS)[number];

/** A process that another tool recorded. The record is a claim; `verifyRecord` compares it with the live process. */
export interface ForeignRecord {
  /** The session that the process belongs to, in the words of the tool. */
  readonly sessionKey: string;
  readonly pid: number;
  /** Wall-clock milliseconds; null: not recorded. */
  readonly startedAt: number | null;
  /** The tool recorded that the process has ended. */
  readonly ended: boolean;
  /** The pid of the process that owned it; null: not recorded. */
  readonly ownerPid: number | null;
  readonly command: ForeignCommand;
}

/** How the tool's record identifies the command of the process. */
export type ForeignCommand =
  /** A wrapper of the tool, with the lease in its arguments. */
  | {
      readonly kind: "wrapper";
      readonly wrapperRoot: string;
      readonly wrapperPath: string;
      readonly leaseId: string;
      readonly gatewayInstanceId: string;
    }
  /** An agent that was started without a wrapper. */
  | { readonly kind: "argv"; readonly argv: readonly string[] };

/** A file that is no record of the tool, or of a version that is not known. */
export type Unreadable = { readonly unreadable: string };

const pid = z.int().min(2);

/** A session of acpx 0.1 to 0.19, `~/.acpx/sessions/*.json`. An agent that was given as a command has no `agent_argv`. */
const acpxSessionSchema = z.object({
  schema: z.literal("acpx.session.v1"),
  acpx_record_id: z.string().min(1),
  agent_command: z.string(),
  agent_argv: z.array(z.string()).min(1).nullish(),
  name: z.string().nullish(),
  closed: z.boolean().nullish(),
  pid: pid.nullish(),
  agent_started_at: z.string().nullish(),
  last_agent_exit_at: z.string().nullish(),
});

/** A session of openclaw before it used the records of acpx. */
const legacySessionSchema = z
  .object({
    schema: z.literal("openclaw.acpx.session.v1"),
    acpxRecordId: z.string().min(1),
    agentCommand: z.string(),
    name: z.string().nullish(),
    closed: z.boolean().nullish(),
    pid: pid.nullish(),
    agentStartedAt: z.string().nullish(),
    lastAgentExitAt: z.string().nullish(),
  })
  .transform(({ acpxRecordId, agentCommand, agentStartedAt, lastAgentExitAt, ...rest }) => ({
    ...rest,
    acpx_record_id: acpxRecordId,
    agent_command: agentCommand,
    agent_argv: null,
    agent_started_at: agentStartedAt,
    last_agent_exit_at: lastAgentExitAt,
  }));

const sessionSchema = z.union([acpxSessionSchema, legacySessionSchema]);

/** Null: a session without a process. */
export function parseAcpxSession(
  raw: unknown,
  owners: ReadonlyMap<string, number>,
): ForeignRecord | Unreadable | null {
  const parsed = sessionSchema.safeParse(raw);
  if (!parsed.success) return { unreadable: "it is not a session record of acpx (acpx.session.v1)" };
  const session = parsed.data;
  if (session.pid === null || session.pid === undefined) return null;
  const startedAt = wallTime(session.agent_started_at);
  const exitedAt = wallTime(session.last_agent_exit_at);
  return {
    sessionKey: session.name ?? session.acpx_record_id,
    pid: session.pid,
    startedAt,
    ended: session.closed === true || (exitedAt !== null && startedAt !== null && exitedAt >= startedAt),
    ownerPid: owners.get(session.acpx_record_id) ?? null,
    command: {
      kind: "argv",
      argv: session.agent_argv ?? splitShellWords(session.agent_command) ?? [session.agent_command],
    },
  };
}

function wallTime(text: string | null | undefined): number | null {
  const at = text === null || text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(at) ? null : at;
}

/** The lock file of the process that owns a session of acpx, `~/.acpx/queues/*.lock`. Null: it is none. */
export function parseAcpxLock(raw: unknown): { readonly sessionId: string; readonly pid: number } | null {
  const parsed = z.object({ pid, sessionId: z.string().min(1) }).safeParse(raw);
  return parsed.success ? parsed.data : null;
}

/** A lease of openclaw's plugin acpx, in `process-leases.json` or in its state database. */
const openclawLeaseSchema = z.object({
  leaseId: z.string().min(1),
  gatewayInstanceId: z.string().min(1),
  sessionKey: z.string(),
  wrapperRoot: z.string(),
  wrapperPath: z.string(),
  rootPid: z.int(),
  startedAt: z.number(),
  state: z.enum(["open", "closing", "closed", "lost"]),
});

/** Null: a lease without a process. */
export function parseOpenclawLease(raw: unknown): ForeignRecord | Unreadable | null {
  const parsed = openclawLeaseSchema.safeParse(raw);
  if (!parsed.success) return { unreadable: "it is not a process lease of openclaw" };
  const { sessionKey, rootPid, startedAt, state, ...rest } = parsed.data;
  // The pid is 0 until the process is started.
  if (rootPid < 2) return null;
  const { wrapperRoot, wrapperPath, leaseId, gatewayInstanceId } = rest;
  return {
    sessionKey,
    pid: rootPid,
    startedAt,
    ended: state === "closed",
    ownerPid: null,
    command: { kind: "wrapper", wrapperRoot, wrapperPath, leaseId, gatewayInstanceId },
  };
}

/** The leases of a `process-leases.json`. */
export function leasesOfFile(raw: unknown): readonly unknown[] | Unreadable {
  const parsed = z.object({ version: z.literal(1), leases: z.array(z.unknown()) }).safeParse(raw);
  return parsed.success
    ? parsed.data.leases
    : { unreadable: "it is not a lease file of openclaw, version 1" };
}
