import type { AnchorExit, FirstStop, LeaderStatus, StartSpec, Welcome } from "../../../src/anchor/host.js";
import { REAPED_USAGE } from "../../../src/model/run.js";
import type { Residue, ProcessIdentity } from "../../../src/model/process.js";
import type { SimulatedCgroup } from "./machine.js";

export const STDIN_LIMIT = 1_000_000;

/** What an anchor knows of its run, to be told. */
export interface AnchorState {
  readonly runId: string;
  readonly spec: StartSpec;
  readonly executed: boolean;
  readonly firstStop: FirstStop | null;
  readonly highestEpoch: number;
  readonly elapsedMs: number;
  readonly cgroup: SimulatedCgroup | null;
  readonly root: ProcessIdentity;
  readonly anchor: ProcessIdentity;
  readonly leader: LeaderStatus | null;
  readonly residue: readonly Residue[];
  readonly escaped: boolean;
  readonly output: number;
  readonly stdin: number;
  readonly tier: string;
  readonly wall: number;
}

/** The content of `exit.json`. */
export function exitMessage(facts: AnchorState): AnchorExit {
  const { firstStop, residue, executed, cgroup } = facts;
  return {
    runId: facts.runId,
    executed,
    reason: firstStop?.reason ?? ownReason(facts),
    actor: firstStop?.actor ?? "",
    requestId: firstStop?.requestId ?? "",
    leader: executed ? facts.leader : null,
    spawnError: facts.spec.argv.includes("missing") ? NO_SUCH_COMMAND : null,
    residue,
    residueCount: residue.length,
    killMode: residue.length === 0 ? "none" : cgroup === null ? "pid" : "cgroup",
    tier: facts.tier,
    tierNote: null,
    emptiness: "proven",
    stdout: { start: 0, end: facts.output, dropped: 0 },
    stderr: { start: 0, end: 0, dropped: 0 },
    processes: 1,
    usage: { ...REAPED_USAGE, cpuMs: 1, peakKb: 1 },
    limitHit: null,
    durationMs: facts.elapsedMs,
    endedAt: facts.wall,
  };
}

export const NO_SUCH_COMMAND = { errno: 2, step: "exec", message: "no such command" } as const;

function ownReason({ executed, escaped, spec, leader }: AnchorState): string {
  if (!executed) return "spawn-error";
  if (escaped && spec.policy.onEscape === "fail") return "ownership-escape";
  return leader === null || leader.signal === null ? "exit" : "signal";
}

/** The answer to HELLO and START. */
export function welcomeMessage(facts: AnchorState): Welcome {
  const { executed, firstStop, leader, cgroup, tier } = facts;
  const stdout = { start: 0, end: facts.output, acked: 0, dropped: 0, closed: false };
  const exiting = firstStop !== null || leader !== null;
  return {
    protocol: 1,
    highestEpoch: facts.highestEpoch,
    phase: executed ? (exiting ? "exiting" : "running") : "gated",
    root: facts.root,
    anchor: facts.anchor,
    boundary: { tier, tierNote: null, cgroup: cgroup?.path ?? null, cgroupInode: cgroup?.inode ?? null },
    stdout,
    stderr: { ...stdout, end: 0 },
    stdinAccepted: facts.stdin,
    stdinLimit: STDIN_LIMIT,
    stdinClosed: false,
    firstStop,
    leader: executed ? leader : null,
    kind: facts.spec.policy.kind,
    elapsedMs: executed ? facts.elapsedMs : null,
  };
}
