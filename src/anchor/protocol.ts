/** The numbers of `docs/anchor-protocol.md`: which fields each message has, under which tag. */

export const PROTOCOL = 2;

/** Anchors outlive upgrades: a supervisor speaks the version before its own, too. */
export const FORMER_PROTOCOL = 1;

/** Frame length limits, which both sides enforce. START carries a whole environment. */
export const START_MAX_BYTES = 4 * 1024 * 1024;
export const FRAME_MAX_BYTES = 128 * 1024;

/** Processes that one answer names, `anchor inspect` and MEMBERS_ARE alike: where there are as many, there may be more. */
export const PROCESSES_NAMED = 512;

/** `int`: safe integer. `id`: 64 bits as a decimal string, because inodes may exceed 2^53. `flag`: absent is false. */
export type FieldKind = "int" | "id" | "text" | "bytes" | "flag";
export type Presence = "one" | "maybe" | "list";

export interface Field<K extends FieldKind = FieldKind, P extends Presence = Presence> {
  readonly tag: number;
  readonly kind: K;
  readonly presence: P;
}

function one<K extends FieldKind>(kind: K, tag: number): Field<K, "one"> {
  return { tag, kind, presence: "one" };
}

function maybe<K extends FieldKind>(field: Field<K, "one">): Field<K, "maybe"> {
  return { ...field, presence: "maybe" };
}

function list<K extends FieldKind>(field: Field<K, "one">): Field<K, "list"> {
  return { ...field, presence: "list" };
}

const protocol = one("int", 1);
const runId = one("text", 2);
const instanceId = one("text", 3);
const incarnation = one("text", 4);
const epoch = one("int", 5);
const key = one("text", 6);
const rootPid = one("int", 8);
const rootStart = one("int", 9);
const rootUnique = maybe(one("id", 10));
const anchorPid = one("int", 11);
const stream = one("int", 18);
const offset = one("int", 19);
const closed = one("flag", 24);
const limit = one("int", 26);
const reason = one("text", 27);
const actor = one("text", 28);
const requestId = one("text", 29);
const graceMs = one("int", 30);
const code = one("int", 31);
const signal = one("int", 32);
const message = one("text", 35);
const json = one("text", 37);
const rows = one("int", 38);
const cols = one("int", 39);
const kind = one("int", 55);
const onEscape = one("int", 56);
const overallMs = one("int", 60);
const noOutputMs = one("int", 61);
const ownerLossMs = one("int", 62);
/** JSON text that the anchor keeps in `anchor.json` and does not read; an older anchor skips it. */
const scope = maybe(one("text", 90));

const identity = {
  anchorPid,
  anchorStart: one("int", 12),
  anchorUnique: maybe(one("id", 13)),
} as const;

const status = { code: maybe(code), signal: maybe(signal) } as const;

/** Fields are written in this order; the launcher needs RUN_ID to be the first of START. */
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
      args: list(one("text", 48)),
      env: list(one("text", 49)),
      cwd: one("text", 50),
      umask: maybe(one("int", 51)),
      pty: one("int", 52),
      merge: one("int", 53),
      stdin: one("int", 54),
      rows,
      cols,
      kind,
      onEscape,
      graceMs,
      settleMs: one("int", 57),
      drainMs: one("int", 58),
      killReportMs: one("int", 59),
      overallMs,
      noOutputMs,
      ownerLossMs,
      backstopMs: one("int", 63),
      outBound: one("int", 64),
      outPolicy: one("int", 65),
      errBound: one("int", 66),
      errPolicy: one("int", 67),
      memoryBytes: maybe(one("int", 84)),
      pids: maybe(one("int", 85)),
      milliCpus: maybe(one("int", 86)),
      scope,
    },
  },
  hello: { type: 3, fields: { protocol, runId, instanceId, incarnation, epoch, key } },
  go: { type: 4, fields: {} },
  stop: { type: 5, fields: { reason, actor, requestId, graceMs: maybe(graceMs) } },
  write: { type: 6, fields: { offset, data: one("bytes", 25) } },
  closeStdin: { type: 7, fields: { offset } },
  resize: { type: 8, fields: { rows, cols } },
  ack: { type: 9, fields: { stream, offset } },
  policy: {
    type: 10,
    fields: {
      overallMs: maybe(overallMs),
      noOutputMs: maybe(noOutputMs),
      ownerLossMs: maybe(ownerLossMs),
      kind: maybe(kind),
      onEscape: maybe(onEscape),
      graceMs: maybe(graceMs),
    },
  },
  heartbeat: { type: 11, fields: {} },
  status: { type: 12, fields: {} },
  abandon: { type: 13, fields: { actor, requestId } },
  adopt: { type: 14, fields: { runId, key, rootPid, rootStart, rootUnique, graceMs, scope } },
  signal: { type: 15, fields: { signal, members: list(one("bytes", 87)) } },
  members: { type: 16, fields: { requestId } },

  welcome: {
    type: 64,
    fields: {
      protocol,
      epoch,
      phase: one("int", 7),
      rootPid,
      rootStart,
      rootUnique,
      ...identity,
      tier: one("text", 14),
      tierNote: maybe(one("text", 15)),
      cgroup: maybe(one("text", 16)),
      cgroupInode: maybe(one("id", 17)),
      outStart: one("int", 70),
      outEnd: one("int", 71),
      outAcked: one("int", 72),
      outDropped: one("int", 73),
      outClosed: one("flag", 78),
      outWithheld: one("flag", 81),
      errWithheld: one("flag", 82),
      errStart: one("int", 74),
      errEnd: one("int", 75),
      errAcked: one("int", 76),
      errDropped: one("int", 77),
      errClosed: one("flag", 79),
      offset,
      limit,
      closed,
      reason: maybe(reason),
      actor: maybe(actor),
      requestId: maybe(requestId),
      kind: maybe(kind),
      elapsedMs: maybe(one("int", 83)),
      ...status,
    },
  },
  started: { type: 65, fields: {} },
  failed: { type: 66, fields: { errno: one("int", 33), step: one("text", 34), message } },
  output: {
    type: 67,
    fields: {
      stream,
      start: one("int", 21),
      end: one("int", 22),
      dropped: one("int", 23),
      lost: maybe(one("int", 92)),
      closed,
      withheld: one("flag", 80),
    },
  },
  stdin: { type: 68, fields: { offset, limit, closed } },
  leader: { type: 69, fields: status },
  stopping: { type: 70, fields: { reason, actor, requestId } },
  survivors: { type: 71, fields: { json } },
  exited: { type: 72, fields: { json } },
  refused: {
    type: 73,
    fields: { codeName: one("text", 36), message, protocol: maybe(protocol), epoch: maybe(epoch) },
  },
  launcher: {
    type: 74,
    fields: { protocol, ...identity, cgroup: maybe(one("text", 16)), tierNote: maybe(one("text", 15)) },
  },
  anchorLost: { type: 75, fields: { runId, anchorPid, ...status } },
  adopted: { type: 76, fields: { runId } },
  signalled: { type: 77, fields: { count: one("int", 88) } },
  membersAre: { type: 78, fields: { requestId, processes: list(one("bytes", 89)) } },
} as const satisfies Record<string, { type: number; fields: Readonly<Record<string, Field>> }>;

export function maxFrameBytes(type: number): number {
  return type === messages.start.type ? START_MAX_BYTES : FRAME_MAX_BYTES;
}
