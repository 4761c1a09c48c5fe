/** Minimal records that a store accepts. */
const base = {
  leaseId: "",
  sessionKey: null,
  backendId: null,
  agentId: null,
  labels: {},
  kind: "task",
  io: "pipe",
  command: "sleep 1",
  commandHash: "",
  cwd: "/",
  hostId: "h",
  bootId: "b",
  pidNamespace: "n",
  stateId: "s",
  anchorPath: "",
  leaseEpoch: 1,
  deadlines: { overallMs: null, noOutputMs: null },
  policy: {
    graceMs: 0,
    settleMs: 0,
    drainMs: 0,
    killReportMs: 0,
    ownerLossMs: 0,
    onEscape: "fail",
    onOrphan: "adopt",
  },
  createdAt: 0,
  imported: null,
};

export function runOf(name, owner) {
  return { ...base, runId: `run_${name}`, originInstanceId: owner, ownerInstanceId: owner };
}

export function eventOf(runId, epoch = 2) {
  return {
    runId,
    at: 0,
    rootPid: null,
    descendants: 0,
    type: "reconcile",
    data: { row: "anchor-alive", action: "adopt", why: "bench", by: "thief", from: "victim", epoch },
  };
}

/** The first claim of an expired lease. */
export function claimOf(runId, ownerInstanceId) {
  const from = { ownerInstanceId, epoch: 1 };
  return { runId, from, ownerInstanceId: "thief", epoch: 2, leaseMs: 30_000, expiredForMs: 0 };
}
