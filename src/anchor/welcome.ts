import { MalformedFrame } from "./frame.js";
import type { LeaderStatus, Welcome } from "./host.js";
import type { Content } from "./message.js";

const PHASES: readonly (Welcome["phase"] | undefined)[] = [undefined, "gated", "running", "exiting"];

export function toWelcome(wire: Content<"welcome">): Welcome {
  const phase = PHASES[wire.phase];
  if (phase === undefined) throw new MalformedFrame(`an unknown phase (${wire.phase})`);
  return {
    protocol: wire.protocol,
    highestEpoch: wire.epoch,
    phase,
    root: { pid: wire.rootPid, startTime: wire.rootStart, uniqueId: known(wire.rootUnique) },
    anchor: { pid: wire.anchorPid, startTime: wire.anchorStart, uniqueId: known(wire.anchorUnique) },
    boundary: {
      tier: wire.tier,
      tierNote: wire.tierNote,
      cgroup: wire.cgroup,
      cgroupInode: known(wire.cgroupInode),
    },
    stdout: {
      start: wire.outStart,
      end: wire.outEnd,
      acked: wire.outAcked,
      dropped: wire.outDropped,
      closed: wire.outClosed,
      withheld: wire.outWithheld,
    },
    stderr: {
      start: wire.errStart,
      end: wire.errEnd,
      acked: wire.errAcked,
      dropped: wire.errDropped,
      closed: wire.errClosed,
      withheld: wire.errWithheld,
    },
    stdinAccepted: wire.offset,
    stdinLimit: wire.limit,
    stdinClosed: wire.closed,
    firstStop:
      wire.reason === null
        ? null
        : { reason: wire.reason, actor: wire.actor ?? "", requestId: wire.requestId ?? "" },
    leader: toLeaderStatus(wire),
    ...(wire.kind === null ? {} : { kind: wire.kind === 1 ? "service" : "task" }),
    elapsedMs: wire.elapsedMs,
  };
}

/** Null: it has not ended. */
export function toLeaderStatus(wire: { code: number | null; signal: number | null }): LeaderStatus | null {
  if (wire.signal !== null) return { code: null, signal: wire.signal };
  if (wire.code !== null) return { code: wire.code, signal: null };
  return null;
}

/** No inode is 0: where the kernel has none, zero may stand for it. */
function known(id: string | null): string | null {
  return id === "0" ? null : id;
}
