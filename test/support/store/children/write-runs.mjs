// Writes runs from start to end without end, and sends each state after its commit.
import { pathToFileURL } from "node:url";

const [dist, path, name] = process.argv.slice(2);
const { openSqliteStore } = await import(pathToFileURL(`${dist}/store/sqlite/open.js`));
const opened = await openSqliteStore({ path });
const exit = {
  reason: "exit",
  actor: "",
  code: 0,
  signal: null,
  source: "anchor",
  detail: null,
  errno: null,
};
const identity = { pid: 5, startTime: 6, uniqueId: "7" };

for (let count = 0; ; count += 1) {
  const runId = `${name}-${count}`;
  const note = (data) => [
    { type: "cleanup", runId, at: count, rootPid: 1, descendants: 0, data: { state: data } },
  ];
  const text = "x".repeat(200);
  const lease = await opened.insertRun(
    {
      runId,
      leaseId: text,
      sessionKey: null,
      backendId: null,
      agentId: null,
      labels: {},
      kind: "task",
      io: "pipe",
      command: text,
      commandHash: text,
      cwd: "/",
      hostId: "h",
      bootId: "b",
      pidNamespace: "n",
      timeNamespace: null,
      anchorPath: "/a",
      ownerInstanceId: name,
      leaseEpoch: 1,
      deadlines: { overallMs: null, noOutputMs: null },
      policy: {},
      createdAt: count,
    },
    30_000,
    note("starting"),
  );
  process.send({ runId, state: "starting" });
  await opened.saveRun(lease, {
    to: "gated",
    anchor: identity,
    root: identity,
    processGroupId: 5,
    boundary: {},
    tier: "t",
  });
  await opened.saveRun(lease, { to: "running", at: count }, note("running"));
  process.send({ runId, state: "running" });
  await opened.saveRun(
    lease,
    { to: "exited", at: count, exit, residue: [], residueCount: 0, usage: null, emptiness: "proven" },
    note("exited"),
  );
  process.send({ runId, state: "exited" });
  // Sends the messages now: messages that are still queued at the kill would prove nothing.
  await new Promise(setImmediate);
}
