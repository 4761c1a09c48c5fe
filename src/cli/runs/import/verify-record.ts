import { posix } from "node:path";
import type { ProcessEvidence } from "../../../anchor/host-interface.js";
import type { ImportedFacts } from "../../../model/run.js";
import { compareImported } from "../../../supervisor/reconcile/evidence.js";
import { commandHash } from "../../../text/redact.js";
import type { ForeignCommand, ForeignRecord } from "./foreign-records.js";

export interface ForeignEvidence {
  /** The live process with the recorded pid; null: it could not be inspected. */
  readonly live: ProcessEvidence | null;
  /** The live process with the recorded pid of the owner; null: none is recorded, or it could not be inspected. */
  readonly owner: ProcessEvidence | null;
  /** When the machine was started, on the wall clock. */
  readonly bootedAt: number;
  /** Clock ticks of start times per second. */
  readonly ticksPerSecond: number;
  readonly uid: number;
  /** Process 1 is that of the system, not of a container. */
  readonly wholeMachine: boolean;
  /** The operator says that the tool does not run any more. */
  readonly ownerGone: boolean;
}

/** `facts`: what a later check must find again. */
export type ForeignVerdict =
  | { readonly verified: true; readonly facts: ImportedFacts; readonly argv: readonly string[] }
  | { readonly verified: false; readonly why: string };

/** The tools record the start before or after it happened, on the wall clock, which may have been set meanwhile. */
const START_TOLERANCE_MS = 5_000;

/**
 * Compares a record of another tool with the live process. Fails closed: what is not proven is left alone. A pid alone
 * proves nothing; start time and command must match, and the owner must be gone.
 */
export function verifyRecord(record: ForeignRecord, evidence: ForeignEvidence): ForeignVerdict {
  const { live } = evidence;
  if (record.ended) return notVerified("the tool recorded that it has ended");
  if (live === null) return notVerified("its process cannot be inspected");
  if (!live.alive) return notVerified("the process is gone");
  const why =
    foreignIdentity(record, live, evidence) ??
    commandDiffers(record.command, live) ??
    ownerMayLive(record, live, evidence);
  if (why !== null) return notVerified(why);
  const facts: ImportedFacts = {
    pid: record.pid,
    commandHash: commandHash(live.argv),
    wrapperRoot: rootOf(record.command) ?? "",
    startTime: live.identity.startTime,
  };
  const seen = compareImported(facts, live);
  if (seen.kind === "matches") return { verified: true, facts, argv: live.argv };
  return notVerified(seen.kind === "gone" ? "the process is gone" : seen.why);
}

function notVerified(why: string): ForeignVerdict {
  return { verified: false, why };
}

/** Null: the process has the identity of the record. */
function foreignIdentity(
  { pid, startedAt }: ForeignRecord,
  { uid, runId, identity }: ProcessEvidence,
  { uid: ownUid, bootedAt, ticksPerSecond }: ForeignEvidence,
): string | null {
  if (runId !== null) return `process ${pid} belongs to run ${runId}`;
  if (uid !== ownUid) return `process ${pid} belongs to another user`;
  if (startedAt === null) return "the tool recorded no start time, and a pid alone proves nothing";
  const liveStart = bootedAt + (identity.startTime * 1_000) / ticksPerSecond;
  return Math.abs(liveStart - startedAt) <= START_TOLERANCE_MS
    ? null
    : `process ${pid} was started at another time`;
}

const LEASE_OPTION = "--openclaw-acpx-lease-id";
const GATEWAY_OPTION = "--openclaw-gateway-instance-id";

/** Null: the process runs the recorded command. */
function commandDiffers(command: ForeignCommand, { identity, argv }: ProcessEvidence): string | null {
  const { pid } = identity;
  if (argv.length === 0) return `the command of process ${pid} cannot be read`;
  if (command.kind === "argv") {
    if (rootOf(command) === null)
      return "the recorded command names no program by its absolute path, so the process cannot be told from others";
    return JSON.stringify(argv) === JSON.stringify(command.argv)
      ? null
      : `process ${pid} runs another command`;
  }
  const { wrapperRoot, wrapperPath, leaseId, gatewayInstanceId } = command;
  if (!isBelow(wrapperRoot, wrapperPath)) return "the recorded wrapper is not below its recorded root";
  if (!argv.includes(wrapperPath)) return `process ${pid} does not run the recorded wrapper`;
  return valueOf(argv, LEASE_OPTION) === leaseId && valueOf(argv, GATEWAY_OPTION) === gatewayInstanceId
    ? null
    : `process ${pid} does not have the recorded lease`;
}

function valueOf(argv: readonly string[], option: string): string | undefined {
  const at = argv.indexOf(option);
  return at < 0 ? undefined : argv[at + 1];
}

function isBelow(root: string, path: string): boolean {
  return posix.isAbsolute(root) && posix.resolve(path).startsWith(`${posix.resolve(root)}/`);
}

/** The directory of the program or, of an interpreter, of its script. Null: it is not named by an absolute path. */
function rootOf(command: ForeignCommand): string | null {
  if (command.kind === "wrapper") return command.wrapperRoot;
  const [program = "", ...args] = command.argv;
  const script = args.find((word) => !word.startsWith("-"));
  const path = [script, program].find((word) => word !== undefined && posix.isAbsolute(word));
  return path === undefined ? null : posix.dirname(posix.resolve(path));
}

/** Null: its owner is gone. A process whose owner may live is managed by its tool. */
function ownerMayLive(
  { ownerPid }: ForeignRecord,
  { identity, parentPid }: ProcessEvidence,
  { owner, wholeMachine, ownerGone }: ForeignEvidence,
): string | null {
  if (ownerPid !== null) {
    if (owner === null) return `its owner, process ${ownerPid}, cannot be inspected`;
    // An owner is older than the process that it started.
    const lives = owner.alive && owner.identity.startTime <= identity.startTime;
    return lives ? `its owner, process ${ownerPid}, is alive: use the tool to end it` : null;
  }
  if (ownerGone) return null;
  if (parentPid === 1 && wholeMachine) return null;
  return parentPid === 1
    ? "its parent is process 1, which in a container may be its owner; --owner-gone imports it"
    : `its parent, process ${parentPid}, may be its owner; --owner-gone imports it`;
}
