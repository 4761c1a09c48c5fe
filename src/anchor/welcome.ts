import { MalformedFrame } from "./protocol/frame-decoder.js";
import type { LeaderStatus, Welcome } from "./host.js";
import type { MessageFields } from "./protocol/message-codec.js";

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
    firstStop:
      fields.reason === null
        ? null
        : { reason: fields.reason, actor: fields.actor ?? "", requestId: fields.requestId ?? "" },
    leader: decodeLeaderStatus(fields),
    ...(fields.kind === null ? {} : { kind: fields.kind === 1 ? "service" : "task" }),
    elapsedMs: fields.elapsedMs,
  };
}

/** Null: it has not ended. */
export function decodeLeaderStatus(fields: {
  code: number | null;
  signal: number | null;
}): LeaderStatus | null {
  if (fields.signal !== null) return { code: null, signal: fields.signal };
  if (fields.code !== null) return { code: fields.code, signal: null };
  return null;
}

/** No inode is 0: where the kernel has none, zero may stand for it. */
function knownId(id: string | null): string | null {
  return id === "0" ? null : id;
}
