/** The message types and field tags of `docs/reference/anchor-protocol.md`. */

export const PROTOCOL = 2;

/** Anchors outlive upgrades, so a supervisor also supports the previous version. */
export const PREVIOUS_PROTOCOL = 1;

/** Frame length limits, which both sides enforce. START carries a whole environment. */
export const START_MAX_BYTES = 4 * 1024 * 1024;
export const FRAME_MAX_BYTES = 128 * 1024;

/**
 * Maximal number of processes in one answer of `anchor inspect` or MEMBERS_ARE. An answer with as many may be
 * incomplete.
 */
export const MAX_LISTED_PROCESSES = 512;

/** `int`: safe integer. `id`: 64 bits as a decimal string, because inodes may exceed 2^53. `flag`: absent is false. */
export type FieldKind = "int" | "id" | "text" | "bytes" | "flag";
type Cardinality = "one" | "maybe" | "list";

export interface MessageField<K extends FieldKind = FieldKind, P extends Cardinality = Cardinality> {
  readonly tag: number;
  readonly kind: K;
  readonly cardinality: P;
}

function required<K extends FieldKind>(kind: K, tag: number): MessageField<K, "one"> {
  return { tag, kind, cardinality: "one" };
}

function optional<K extends FieldKind>(field: MessageField<K, "one">): MessageField<K, "maybe"> {
  return { ...field, cardinality: "maybe" };
}

function list<K extends FieldKind>(field: MessageField<K, "one">): MessageField<K, "list"> {
  return { ...field, cardinality: "list" };
}

const protocol = required("int", 1);
const runId = required("text", 2);
const instanceId = required("text", 3);
const incarnation = required("text", 4);
const epoch = required("int", 5);
const key = required("text", 6);
const rootPid = required("int", 8);
const rootStart = required("int", 9);
const rootUnique = optional(required("id", 10));
const anchorPid = required("int", 11);
const stream = required("int", 18);
const offset = required("int", 19);
const closed = required("flag", 24);
const limit = required("int", 26);
const reason = required("text", 27);
const actor = required("text", 28);
const requestId = required("text", 29);
const graceMs = required("int", 30);
const code = required("int", 31);
const signal = required("int", 32);
const message = required("text", 35);
const json = required("text", 37);
const rows = required("int", 38);
const cols = required("int", 39);
const kind = required("int", 55);
const onEscape = required("int", 56);
const overallMs = required("int", 60);
const noOutputMs = required("int", 61);
const ownerLossMs = required("int", 62);
/** JSON text that the anchor stores in `anchor.json` without reading it; an older anchor skips it. */
const scope = optional(required("text", 90));

const identity = {
  anchorPid,
  anchorStart: required("int", 12),
  anchorUnique: optional(required("id", 13)),
} as const;

const status = { code: optional(code), signal: optional(signal) } as const;

/** Fields are written in this order. The launcher requires RUN_ID as the first field of START. */
export const messages = {
  hold: { type: 1, fields: {} },
  start: {
    type: 2,
    fields: {
      runId,
      protocol,
      instanceId,
      incarnation,
      epoch,
      key,
      args: list(required("text", 48)),
      verbatim: required("flag", 93),
      env: list(required("text", 49)),
      cwd: required("text", 50),
      umask: optional(required("int", 51)),
      pty: required("int", 52),
      merge: required("int", 53),
      stdin: required("int", 54),
      rows,
      cols,
      kind,
      onEscape,
      graceMs,
      settleMs: required("int", 57),
      drainMs: required("int", 58),
      killReportMs: required("int", 59),
      overallMs,
      noOutputMs,
      ownerLossMs,
      backstopMs: required("int", 63),
      outBound: required("int", 64),
      outPolicy: required("int", 65),
      errBound: required("int", 66),
      errPolicy: required("int", 67),
      memoryBytes: optional(required("int", 84)),
      pids: optional(required("int", 85)),
      milliCpus: optional(required("int", 86)),
      scope,
    },
  },
  hello: { type: 3, fields: { protocol, runId, instanceId, incarnation, epoch, key } },
  go: { type: 4, fields: {} },
  stop: { type: 5, fields: { reason, actor, requestId, graceMs: optional(graceMs) } },
  write: { type: 6, fields: { offset, data: required("bytes", 25) } },
  closeStdin: { type: 7, fields: { offset } },
  resize: { type: 8, fields: { rows, cols } },
  ack: { type: 9, fields: { stream, offset } },
  policy: {
    type: 10,
    fields: {
      overallMs: optional(overallMs),
      noOutputMs: optional(noOutputMs),
      ownerLossMs: optional(ownerLossMs),
      kind: optional(kind),
      onEscape: optional(onEscape),
      graceMs: optional(graceMs),
    },
  },
  heartbeat: { type: 11, fields: {} },
  status: { type: 12, fields: {} },
  abandon: { type: 13, fields: { actor, requestId } },
  adopt: { type: 14, fields: { runId, key, rootPid, rootStart, rootUnique, graceMs, scope } },
  signal: { type: 15, fields: { signal, members: list(required("bytes", 87)) } },
  members: { type: 16, fields: { requestId } },
  /** RUN_ID is the first field, as in START. */
  warm: { type: 18, fields: { runId, protocol, instanceId, incarnation, key } },

  welcome: {
    type: 64,
    fields: {
      protocol,
      epoch,
      phase: required("int", 7),
      rootPid,
      rootStart,
      rootUnique,
      ...identity,
      tier: required("text", 14),
      tierNote: optional(required("text", 15)),
      cgroup: optional(required("text", 16)),
      cgroupInode: optional(required("id", 17)),
      outStart: required("int", 70),
      outEnd: required("int", 71),
      outAcked: required("int", 72),
      outDropped: required("int", 73),
      outClosed: required("flag", 78),
      outWithheld: required("flag", 81),
      errWithheld: required("flag", 82),
      errStart: required("int", 74),
      errEnd: required("int", 75),
      errAcked: required("int", 76),
      errDropped: required("int", 77),
      errClosed: required("flag", 79),
      offset,
      limit,
      closed,
      /** A foreground client is connected to the anchor itself. */
      caller: required("flag", 94),
      reason: optional(reason),
      actor: optional(actor),
      requestId: optional(requestId),
      kind: optional(kind),
      elapsedMs: optional(required("int", 83)),
      ...status,
    },
  },
  started: { type: 65, fields: {} },
  failed: { type: 66, fields: { errno: required("int", 33), step: required("text", 34), message } },
  output: {
    type: 67,
    fields: {
      stream,
      start: required("int", 21),
      end: required("int", 22),
      dropped: required("int", 23),
      /** Only while a caller is connected to the anchor. */
      acked: optional(required("int", 72)),
      lost: optional(required("int", 92)),
      closed,
      withheld: required("flag", 80),
    },
  },
  stdin: { type: 68, fields: { offset, limit, closed } },
  leader: { type: 69, fields: status },
  stopping: { type: 70, fields: { reason, actor, requestId } },
  survivors: { type: 71, fields: { json } },
  exited: { type: 72, fields: { json } },
  refused: {
    type: 73,
    fields: { codeName: required("text", 36), message, protocol: optional(protocol), epoch: optional(epoch) },
  },
  launcher: {
    type: 74,
    fields: {
      protocol,
      ...identity,
      cgroup: optional(required("text", 16)),
      tierNote: optional(required("text", 15)),
      /** True if the launcher accepts WARM. */
      warm: required("flag", 95),
    },
  },
  anchorLost: { type: 75, fields: { runId, anchorPid, ...status } },
  adopted: { type: 76, fields: { runId } },
  signalled: { type: 77, fields: { count: required("int", 88) } },
  callerIs: { type: 79, fields: { count: required("int", 88) } },
  membersAre: { type: 78, fields: { requestId, processes: list(required("bytes", 89)) } },
} as const satisfies Record<string, { type: number; fields: Readonly<Record<string, MessageField>> }>;

export function maxFrameBytes(type: number): number {
  return type === messages.start.type ? START_MAX_BYTES : FRAME_MAX_BYTES;
}
