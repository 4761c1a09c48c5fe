// Runs as a child of PID 1 in its own namespace: node reconcile-after-pid-reuse.mjs <helper>. Prints the result.
//
// Runs whose supervisor, launcher, anchor and processes are dead, and whose pids are reused: first by bystanders, then
// by the live run of another supervisor.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DatabaseSync } from "@photostructure/sqlite";
import { everything, openSupervisor, supervisorPath, temporaryHome } from "./parts.mjs";
import { Bystander } from "./bystander.mjs";

const [, , helper] = process.argv;
const TRIES = 200;
const home = await temporaryHome();
const victim = fileURLToPath(new URL("../../../support/supervisor/children/supervise.mjs", import.meta.url));

const byBystanders = await reusedByBystanders();
const byARun = await reusedByARun();
await rm(home, { recursive: true, force: true });
console.log(JSON.stringify({ byBystanders, byARun }));
process.exit(0);

async function reusedByBystanders() {
  const { runId, pids } = await deadRun("in_first");
  const bystanders = [];
  for (const pid of pids) bystanders.push(await Bystander.make(helper, "place", String(pid)));
  const next = await openSupervisor({ home, instanceId: "in_next" });
  const decided = await decideTwice(next, runId);
  const fates = [];
  for (const bystander of bystanders) fates.push(await bystander.fate());
  await next.close();
  return { ...decided, fates };
}

async function reusedByARun() {
  const { runId, pids } = await deadRun("in_second");
  const [root] = pids;
  const other = await openSupervisor({ home, instanceId: "in_other" });
  const run = await runOn(other, root);
  const record = await other.getRun(run.runId);
  const next = await openSupervisor({ home, instanceId: "in_next" });
  const decided = await decideTwice(next, runId);
  // The other run is unaffected.
  await run.write("on\n");
  const { exit, leaseEpoch } = await run.wait();
  await Promise.all([next.close(), other.close()]);
  return { ...decided, sameNumber: record.root.pid === root, exit, leaseEpoch };
}

/** Starts runs until the root has the wanted pid; how many pids an anchor uses before it is found out by trying. */
async function runOn(supervisor, wanted) {
  let ahead = 1;
  for (let tries = 0; tries < TRIES; tries++) {
    writeFileSync("/proc/sys/kernel/ns_last_pid", String(wanted - 1 - ahead));
    const run = await supervisor.spawn({ io: "pipe", argv: ["/bin/sh", "-c", "read a; exit 9"] });
    const { root } = await supervisor.getRun(run.runId);
    if (root.pid === wanted) return run;
    await run.cancel({ graceMs: 0 });
    await run.wait();
    ahead = Math.max(0, ahead + (root.pid - wanted));
    if (ahead > 20) ahead = tries % 5;
  }
  throw new Error(`no run got pid ${wanted}`);
}

/** Kills all processes of a run. The launcher is stopped and killed first, because it would clean up. */
async function deadRun(instanceId) {
  const child = spawn(process.execPath, [victim, supervisorPath, home, instanceId, "sleep 3077; :"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = await once(child.stdout, "data");
  const runId = line.toString().trim();
  const path = join(home, "instances", instanceId, "runs", runId, "anchor.json");
  const { anchor, root } = JSON.parse(readFileSync(path, "utf8"));
  const launcher = parentOf(anchor.pid);
  child.kill("SIGKILL");
  await once(child, "close");
  for (const [pid, signal] of [
    [launcher, "SIGSTOP"],
    [launcher, "SIGKILL"],
    [anchor.pid, "SIGSTOP"],
  ])
    process.kill(pid, signal);
  const below = readFileSync(`/proc/${root.pid}/task/${root.pid}/children`, "utf8").trim().split(" ");
  for (const pid of [anchor.pid, root.pid, ...below.map(Number)]) if (pid > 1) process.kill(pid, "SIGKILL");
  const db = new DatabaseSync(join(home, "store.sqlite"), { timeout: 5000 });
  db.prepare("update runs set lease_expires_at = 1 where run_id = ?").run(runId);
  db.close();
  return { runId, pids: [root.pid, anchor.pid, launcher] };
}

async function decideTwice(supervisor, runId) {
  const { decisions } = await supervisor.reconcile();
  const after = await everything(supervisor);
  await supervisor.reconcile();
  const unchanged = after === (await everything(supervisor));
  const { state, exit, emptiness } = await supervisor.getRun(runId);
  const events = await supervisor.listEvents({ runId });
  const count = events.filter(({ type }) => type === "reconcile").length;
  return { decisions, runId, unchanged, state, reason: exit?.reason, emptiness, reconcileEvents: count };
}

function parentOf(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}
