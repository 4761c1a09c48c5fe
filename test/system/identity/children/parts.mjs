// Shared by the drivers in the namespace: the built library, and records of runs that have ended.
import { randomBytes } from "node:crypto";
import { mkdtemp, mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const dist = new URL("../../../../dist/", import.meta.url);
const load = (path) => import(new URL(path, dist).href);

export const { openSupervisor } = await load("index.js");
export const { openNativeHost } = await load("anchor/native-host.js");
export const { encodeMessage, decodeMessage } = await load("anchor/protocol/message-codec.js");
export const { FrameDecoder } = await load("anchor/protocol/frame.js");
const { readMachineIdentity } = await load("home/machine-identity.js");
const { openSqliteStore } = await load("store/sqlite/open.js");
const { openStateDirectory } = await load("store/open-state-directory.js");
export const supervisorPath = new URL("supervisor/open.js", dist).href;

/** Short, because the recovery of a run waits for it. */
const graceMs = 50;

export async function temporaryHome() {
  return mkdtemp(join(tmpdir(), "hf-"));
}

export async function openHost(home) {
  const instanceDir = join(home, "instances", "in_probe");
  await mkdir(instanceDir, { recursive: true });
  const machine = await readMachineIdentity(home);
  return openNativeHost({ home, instanceId: "in_probe", incarnation: "probe", instanceDir, machine });
}

/** Inserts records of running runs, as a killed supervisor leaves them. */
export async function recordRuns(home, instanceId, runs) {
  const { storePath } = await openStateDirectory(home);
  const machine = await readMachineIdentity(home);
  const store = await openSqliteStore({ path: storePath, eventsKept: 1000, busyMs: 5000 });
  const policy = {
    graceMs,
    settleMs: 50,
    drainMs: 100,
    killReportMs: 100,
    ownerLossMs: 1000,
    onEscape: "fail",
    onOrphan: "adopt",
  };
  const ids = [];
  for (const { root, anchor, cgroup = null, leaseId = "lease_recorded" } of runs) {
    const runId = `run_${randomBytes(8).toString("hex")}`;
    const lease = await store.insertRun(
      {
        ...machine,
        runId,
        leaseId,
        sessionKey: null,
        backendId: null,
        agentId: null,
        labels: {},
        kind: "task",
        io: "pipe",
        command: "sleep 3077",
        commandHash: "",
        cwd: "/",
        anchorPath: "",
        originInstanceId: instanceId,
        ownerInstanceId: instanceId,
        leaseEpoch: 1,
        deadlines: { overallMs: null, noOutputMs: null },
        policy,
        createdAt: Date.now(),
        service: null,
        imported: null,
      },
      30_000,
    );
    const boundary = { cgroup: cgroup?.path ?? null, cgroupInode: cgroup?.inode ?? null, note: null };
    const gated = { to: "gated", anchor, root, processGroupId: root.pid, boundary, tier: "test" };
    await store.saveRun(lease, gated);
    await store.saveRun(lease, { to: "running", at: Date.now() });
    ids.push(runId);
  }
  await store[Symbol.asyncDispose]();
  return ids;
}

/** All records and events, to find changes. */
export async function everything(supervisor) {
  return JSON.stringify([await supervisor.listRuns(), await supervisor.listEvents()]);
}
