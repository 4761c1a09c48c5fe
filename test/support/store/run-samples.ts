import { randomBytes } from "node:crypto";
import type { NewRunEvent } from "../../../src/model/run-event.js";
import { NO_LIMITS, type RunExit, type RunRecord } from "../../../src/model/run.js";
import type { Lease, LeaseRequest, NewRun, RunChange } from "../../../src/store/runs/contract.js";

export const LEASE_MS = 30_000;

export const THIS_HOST = { hostId: "host", bootId: "boot", stateId: "state" };

/** A run with every field filled in, so that a column that gets lost is noticed. */
export function newRun(change: Partial<NewRun> = {}): NewRun {
  const runId = change.runId ?? `run_${randomBytes(8).toString("hex")}`;
  return {
    runId,
    leaseId: `lease-of-${runId}`,
    sessionKey: "session-1",
    sessionId: "ses_1",
    backendId: "codex",
    agentId: "agent-1",
    labels: { project: "holdfast", 'a "quoted" näme': "välue" },
    kind: "task",
    io: "pipe",
    command: "sh -c 'sleep 1'",
    commandHash: "hash",
    cwd: "/tmp",
    ...THIS_HOST,
    pidNamespace: "pid:[1]",
    timeNamespace: "time:[1]",
    anchorPath: "/bin/anchor",
    originInstanceId: "owner-a",
    ownerInstanceId: "owner-a",
    leaseEpoch: 1,
    deadlines: { overallMs: 60_000, noOutputMs: null },
    policy: {
      graceMs: 5_000,
      settleMs: 100,
      drainMs: 2_000,
      killReportMs: 2_000,
      ownerLossMs: 120_000,
      onEscape: "fail",
      onOrphan: "adopt",
      callerBound: false,
    },
    limits: { memoryBytes: 67_108_864, pids: 20, cpus: 1.5 },
    createdAt: 1_700_000_000_000,
    service: null,
    imported: { pid: 4, commandHash: "hash", wrapperRoot: "/opt/x", startTime: null },
    ...change,
  };
}

export const GATED = {
  to: "gated",
  anchor: { pid: 100, startTime: 5_000, uniqueId: "77" },
  root: { pid: 101, startTime: 5_001, uniqueId: null },
  processGroupId: 101,
  boundary: { cgroup: "/sys/fs/cgroup/x", cgroupInode: "9", note: null },
  tier: "cgroup",
} as const satisfies RunChange;

export const RUNNING = { to: "running", at: 1_700_000_000_100 } as const satisfies RunChange;
export const EXITING = { to: "exiting", at: 1_700_000_000_300 } as const satisfies RunChange;

export const EXITED = {
  to: "exited",
  at: 1_700_000_000_400,
  exit: {
    reason: "exit",
    actor: "",
    code: 3,
    signal: null,
    source: "anchor",
    detail: "a sentence",
    errno: null,
    limitHit: "memory",
  },
  residue: [{ pid: 102, startTime: 5_002, kind: "background", command: "sleep" }],
  residueCount: 1,
  usage: {
    cpuMs: 10,
    peakKb: 2_048,
    processes: 2,
    peakTasks: 5,
    source: { cpu: "cgroup", memory: "reaped" },
  },
  emptiness: "proven",
} as const satisfies RunChange;

export function newRunEvent(runId: string, at = 1_700_000_000_000): NewRunEvent {
  return {
    type: "spawn",
    runId,
    at,
    rootPid: 101,
    descendants: 2,
    data: { tier: "cgroup", command: "sleep 1" },
  };
}

/** An owner's next claim on what it holds itself. */
export function ownClaim({ runId, ownerInstanceId, epoch }: Lease): LeaseRequest {
  const from = { ownerInstanceId, epoch };
  return { runId, from, ownerInstanceId, epoch: epoch + 1, leaseMs: LEASE_MS, expiredForMs: null };
}

/** A claim of another instance. */
export function stealClaim(of: Lease, thief: string, expiredForMs: number | null = 0): LeaseRequest {
  return { ...ownClaim(of), ownerInstanceId: thief, expiredForMs };
}

/** The columns of an ended run that no statement may change. `different`: the columns, each with another value for it. */
export function forbiddenUpdates(different: ReadonlyMap<string, string>): string[] {
  return [
    "exit_code = 9",
    "hidden_at = null",
    ...[...different].flatMap(([name, value]) =>
      name === "hidden_at" ? [] : [`hidden_at = 1, ${name} = ${value}`],
    ),
  ];
}

export const sampleRunExit: RunExit = {
  reason: "exit",
  actor: "",
  code: 0,
  signal: null,
  source: "anchor",
  detail: null,
  errno: null,
  limitHit: null,
};

/** A run that has ended well, but for what the test says of it. */
export function sampleRunRecord(facts: Partial<RunRecord> = {}): RunRecord {
  return {
    runId: "run_0123456789ab",
    leaseId: "lease_0123456789abcdef",
    sessionKey: null,
    sessionId: null,
    backendId: null,
    agentId: null,
    labels: {},
    kind: "task",
    io: "pipe",
    command: "npm test",
    commandHash: "00",
    cwd: "/tmp",
    hostId: "host",
    bootId: "boot",
    pidNamespace: "pid:[1]",
    timeNamespace: null,
    stateId: null,
    anchorPath: "/state/bin/anchor-0",
    anchor: { pid: 100, startTime: 5, uniqueId: "1" },
    root: { pid: 101, startTime: 6, uniqueId: null },
    processGroupId: 101,
    boundary: { cgroup: null, cgroupInode: null, note: "no cgroup" },
    tier: "subreaper+launcher+unique",
    state: "exited",
    originInstanceId: "in_1",
    ownerInstanceId: "in_1",
    leaseEpoch: 1,
    leaseExpiresAt: 0,
    deadlines: { overallMs: null, noOutputMs: null },
    policy: {
      graceMs: 5_000,
      settleMs: 100,
      drainMs: 2_000,
      killReportMs: 2_000,
      ownerLossMs: 2_000,
      onEscape: "fail",
      onOrphan: "adopt",
      callerBound: false,
    },
    limits: NO_LIMITS,
    createdAt: 1_000,
    startedAt: 2_000,
    lastOutputAt: null,
    updatedAt: 4_000,
    endedAt: 4_000,
    exit: sampleRunExit,
    residue: [],
    residueCount: 0,
    usage: null,
    emptiness: "proven",
    service: null,
    imported: null,
    hiddenAt: null,
    ...facts,
  };
}
