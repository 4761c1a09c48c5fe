import type { AnchorExit, Welcome } from "../../../src/anchor/host-interface.js";
import { REAPED_USAGE } from "../../../src/model/run.js";
import type { SimulatedAnchor } from "./anchor.js";

export const STDIN_LIMIT = 1_000_000;

/** The content of `exit.json`. */
export function exitMessage(anchor: SimulatedAnchor): AnchorExit {
  const { firstStop, executed, cgroup } = anchor;
  const { residue } = anchor.termination;
  return {
    runId: anchor.runId,
    executed,
    reason: firstStop?.reason ?? ownReason(anchor),
    actor: firstStop?.actor ?? "",
    requestId: firstStop?.requestId ?? "",
    leader: executed ? anchor.leader : null,
    spawnError: anchor.spec.argv.includes("missing") ? NO_SUCH_COMMAND : null,
    residue,
    residueCount: residue.length,
    killMode: residue.length === 0 ? "none" : cgroup === null ? "pid" : "cgroup",
    tier: anchor.tier,
    tierNote: null,
    emptiness: "proven",
    stdout: { start: 0, end: anchor.outputBytes, dropped: 0 },
    stderr: { start: 0, end: 0, dropped: 0 },
    processes: 1,
    usage: { ...REAPED_USAGE, cpuMs: 1, peakKb: 1 },
    limitHit: null,
    durationMs: anchor.elapsedMs,
    endedAt: anchor.place.machine.wall,
  };
}

export const NO_SUCH_COMMAND = { errno: 2, step: "exec", message: "no such command" } as const;

function ownReason({ executed, termination, spec, leader }: SimulatedAnchor): string {
  if (!executed) return "spawn-error";
  if (termination.escaped && spec.policy.onEscape === "fail") return "ownership-escape";
  return leader === null || leader.signal === null ? "exit" : "signal";
}

/** The answer to HELLO and START. */
export function welcomeMessage(anchor: SimulatedAnchor): Welcome {
  const { executed, firstStop, leader, cgroup, tier } = anchor;
  const stdout = { start: 0, end: anchor.outputBytes, acked: 0, dropped: 0, closed: false };
  const exiting = firstStop !== null || leader !== null;
  return {
    protocol: 1,
    highestEpoch: anchor.highestEpoch,
    phase: executed ? (exiting ? "exiting" : "running") : "gated",
    root: anchor.root.identity,
    anchor: anchor.process.identity,
    boundary: { tier, tierNote: null, cgroup: cgroup?.path ?? null, cgroupInode: cgroup?.inode ?? null },
    stdout,
    stderr: { ...stdout, end: 0 },
    stdinAccepted: anchor.stdinBytes,
    stdinLimit: STDIN_LIMIT,
    stdinClosed: false,
    firstStop,
    leader: executed ? leader : null,
    kind: anchor.spec.policy.kind,
    elapsedMs: executed ? anchor.elapsedMs : null,
  };
}
