import type { ProcessEvidence } from "../inspect/evidence-types.js";
import { parseExit, parseSurvivors } from "../run-dir/parse-run-files.js";
import type { LeaderStatus, StreamName } from "../run-dir/run-file-types.js";
import { describeSpawnFailure, type StartAttempt } from "./errors.js";
import { MalformedFrame } from "./frame.js";
import type { AnchorMessage, AnchorMessageName, MessageFields } from "./message-codec.js";
import type { AnchorEvent, Welcome } from "./link-contract.js";

/** pid, start time, unique id, parent, session, CPU time and memory, 8 bytes each; then one byte for the state. */
const MEMBER_NUMBERS = 7;
const MEMBER_HEADER_BYTES = 8 * MEMBER_NUMBERS + 1;

/** Decodes a process of a MEMBERS_ARE message. */
export function decodeMember(field: Uint8Array): ProcessEvidence["descendants"][number] {
  const bytes = Buffer.from(field.buffer, field.byteOffset, field.length);
  if (bytes.length < MEMBER_HEADER_BYTES) throw new MalformedFrame("a truncated process");
  const number = (at: number) => bytes.readBigUInt64LE(8 * at);
  const unique = number(2);
  return {
    identity: {
      pid: Number(number(0)),
      startTime: Number(number(1)),
      uniqueId: unique === 0n ? null : String(unique),
    },
    parentPid: Number(number(3)),
    sessionId: Number(number(4)),
    cpuMs: Number(number(5)),
    rssKb: Number(number(6)),
    state: bytes.toString("latin1", MEMBER_HEADER_BYTES - 1, MEMBER_HEADER_BYTES),
    command: bytes.toString("utf8", MEMBER_HEADER_BYTES),
    ports: [],
  };
}

const PHASES: readonly (Welcome["phase"] | undefined)[] = [undefined, "gated", "running", "exiting"];

export function decodeWelcome(fields: MessageFields<"welcome">): Welcome {
  const phase = PHASES[fields.phase];
  if (phase === undefined) throw new MalformedFrame(`an unknown phase (${fields.phase})`);
  return {
    protocol: fields.protocol,
    highestEpoch: fields.epoch,
    phase,
    root: { pid: fields.rootPid, startTime: fields.rootStart, uniqueId: knownId(fields.rootUnique) },
    anchor: { pid: fields.anchorPid, startTime: fields.anchorStart, uniqueId: knownId(fields.anchorUnique) },
    boundary: {
      tier: fields.tier,
      tierNote: fields.tierNote,
      cgroup: fields.cgroup,
      cgroupInode: knownId(fields.cgroupInode),
    },
    stdout: {
      start: fields.outStart,
      end: fields.outEnd,
      acked: fields.outAcked,
      dropped: fields.outDropped,
      closed: fields.outClosed,
      withheld: fields.outWithheld,
    },
    stderr: {
      start: fields.errStart,
      end: fields.errEnd,
      acked: fields.errAcked,
      dropped: fields.errDropped,
      closed: fields.errClosed,
      withheld: fields.errWithheld,
    },
    stdinAccepted: fields.offset,
    stdinLimit: fields.limit,
    stdinClosed: fields.closed,
    hasCaller: fields.caller,
    firstStop:
      fields.reason === null
        ? null
        : { reason: fields.reason, actor: fields.actor ?? "", requestId: fields.requestId ?? "" },
    leader: decodeLeaderStatus(fields),
    ...(fields.kind === null ? {} : { kind: fields.kind === 1 ? "service" : "task" }),
    elapsedMs: fields.elapsedMs,
  };
}

/** Null if the leader has not ended. */
export function decodeLeaderStatus(fields: {
  code: number | null;
  signal: number | null;
}): LeaderStatus | null {
  if (fields.signal !== null) return { code: null, signal: fields.signal };
  if (fields.code !== null) return { code: fields.code, signal: null };
  return null;
}

/** 0 stands for a missing id, because no inode is 0. */
function knownId(id: string | null): string | null {
  return id === "0" ? null : id;
}

type EventDecoders = {
  readonly [N in AnchorMessageName]?: (
    message: MessageFields<N>,
    attempt: StartAttempt | null,
  ) => AnchorEvent;
};

/** The messages that only supervisors and launchers exchange, and those that an anchor receives, are no events. */
const eventDecoders: EventDecoders = {
  started: () => ({ type: "started" }),
  failed: (message, attempt) => ({
    type: "failed",
    failure: {
      errno: message.errno,
      step: message.step,
      message: describeSpawnFailure(message, attempt),
    },
  }),
  output: ({ stream, start, end, dropped, acked, lost, closed, withheld }) => ({
    type: "output",
    stream: streamName(stream),
    start,
    end,
    dropped,
    ...(acked === null ? {} : { acked }),
    ...(lost === null ? {} : { lost }),
    closed,
    withheld,
  }),
  stdin: ({ offset, limit, closed }) => ({ type: "stdin", accepted: offset, limit, closed }),
  leader: (message) => ({
    type: "leader",
    status: requirePresent(decodeLeaderStatus(message), "a leader message without a status"),
  }),
  stopping: ({ reason, actor, requestId }) => ({ type: "stopping", stop: { reason, actor, requestId } }),
  survivors: ({ json }) => ({
    type: "survivors",
    survivors: requirePresent(parseSurvivors(json), "a list of survivors that cannot be parsed"),
  }),
  exited: ({ json }) => ({
    type: "exited",
    exit: requirePresent(parseExit(json), "an exit that cannot be parsed"),
  }),
  refused: ({ codeName, message, epoch }) => ({ type: "refused", code: codeName, message, epoch }),
  adopted: ({ runId }) => ({ type: "adopted", runId }),
  signalled: ({ count }) => ({ type: "signalled", count }),
  callerIs: ({ count }) => ({ type: "caller", connected: count > 0 }),
  membersAre: ({ requestId, processes }) => ({
    type: "members",
    requestId,
    processes: processes.map(decodeMember),
  }),
  welcome: (message) => ({ type: "status", welcome: decodeWelcome(message) }),
};

/** Converts a message from an anchor to an event of the run, or null if it is no event. */
export function decodeEvent(message: AnchorMessage, attempt: StartAttempt | null): AnchorEvent | null {
  return eventDecoders[message.name]?.(message as never, attempt) ?? null;
}

function streamName(stream: number): StreamName {
  if (stream === 1) return "stdout";
  if (stream === 2) return "stderr";
  throw new MalformedFrame(`an unknown stream (${stream})`);
}

export function streamNumber(stream: StreamName): number {
  return stream === "stdout" ? 1 : 2;
}

function requirePresent<T>(value: T | null, what: string): T {
  if (value === null) throw new MalformedFrame(what);
  return value;
}
