// Runs as a child of PID 1 in its own namespace: node pid-reuse.mjs <helper> <rounds>. Prints the result.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, rmdirSync, statSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { everything, openHost, openSupervisor, recordRuns, supervisorPath, temporaryHome } from "./parts.mjs";
import { Bystander } from "./bystander.mjs";

const [, , helper, rounds] = process.argv;
const weaken = process.env.HOLDFAST_ANCHOR_WEAKEN ?? "";
/** An anchor of a weaker tier has no unique id to record. */
const unique = !/inode|pidfd/.test(weaken);
const home = await temporaryHome();
const host = await openHost(home);
const cgroups = findCgroups();
const effort = { tries: 0, sameNumber: 0, collisions: 0 };

const kinds = [
  { name: "without a marker", args: [] },
  {
    name: "with another lease in its environment",
    args: ["HOLDFAST_LEASE_ID=lease_other", "HOLDFAST_RUN_ID=run_other"],
  },
  { name: "with a lease that begins like the recorded one", args: ["HOLDFAST_LEASE_ID=lease_recorded2"] },
  { name: "that leads its own session", args: ["--setsid", "PATH=/bin"] },
  { name: "that leads its own session and has no environment", args: ["--setsid"] },
  ...(cgroups === null
    ? []
    : [
        { name: "outside the recorded cgroup", args: [], cgroup: "other" },
        { name: "in a new cgroup at the recorded path", args: [], cgroup: "anew" },
      ]),
];

const reaped = [];
const recorded = [];
for (let round = 0; round < Number(rounds); round++)
  for (const kind of kinds) {
    reaped.push(await reapCollided(kind));
    recorded.push(await collided(kind));
  }
const recovered = await recoverCollided(recorded);
const [restarted, control] = [await recoverRestarted(), await reapOurs()];
await host[Symbol.asyncDispose]();
if (cgroups !== null) rmdirSync(cgroups);
await rm(home, { recursive: true, force: true });
console.log(
  JSON.stringify({ kinds: kinds.map(({ name }) => name), effort, reaped, recovered, restarted, control }),
);

async function collided(kind) {
  const cgroup = kind.cgroup === undefined ? null : makeCgroup(kind.cgroup);
  const place = kind.cgroup === "anew" ? ["--cgroup", cgroup.directory] : [];
  const bystander = await Bystander.make(helper, "collide", ...place, ...kind.args);
  effort.tries += bystander.effort.tries;
  effort.sameNumber += bystander.effort.sameNumber;
  effort.collisions += 1;
  const root = unique ? bystander.recorded : { ...bystander.recorded, uniqueId: null };
  return { kind, bystander, root, cgroup };
}

/** The same request as that of a recovering supervisor. */
async function reapCollided(kind) {
  const { bystander, root, cgroup } = await collided(kind);
  const [evidence] = await host.inspectProcesses([bystander.recorded]);
  const asked = { root, cgroup, leaseId: "lease_recorded", graceMs: 20 };
  const result = await host.reap(asked);
  const fate = await bystander.fate();
  cgroup?.remove();
  return { kind: kind.name, alive: evidence.alive, matches: evidence.matches, result, fate };
}

async function recoverCollided(all) {
  const gone = await Bystander.make(helper, "hold");
  await gone.fate();
  const runs = all.map(({ root, cgroup }, at) => ({
    root,
    cgroup,
    // Every second record has the bystander's pid for its anchor, too.
    anchor: at % 2 === 0 ? gone.identity : unique ? root : gone.identity,
  }));
  const ids = await recordRuns(home, "in_lost", runs);
  const supervisor = await openSupervisor({ home, instanceId: "in_lost" });
  const { live, unchanged } = await recoverTwice(supervisor);
  const ends = [];
  for (const [at, { kind, bystander, cgroup }] of all.entries()) {
    const { state, exit, emptiness } = await supervisor.getRun(ids[at]);
    ends.push({
      kind: kind.name,
      state,
      reason: exit?.reason,
      detail: exit?.detail,
      emptiness,
      fate: await bystander.fate(),
    });
    cgroup?.remove();
  }
  await supervisor.close();
  return { live, unchanged, ends };
}

async function recoverTwice(supervisor) {
  // A machine that cannot fork may postpone a decision.
  await Promise.all((await supervisor.recover()).map((run) => run.wait()));
  const after = await everything(supervisor);
  const live = await supervisor.recover();
  return { live: live.length, unchanged: after === (await everything(supervisor)) };
}

/** A run whose supervisor, launcher, anchor and root are killed, and whose pids are reused. */
async function recoverRestarted() {
  const script = fileURLToPath(
    new URL("../../../support/supervisor/children/supervise.mjs", import.meta.url),
  );
  const victim = spawn(process.execPath, [script, supervisorPath, home, "in_real", "sleep 3077; :"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = await once(victim.stdout, "data");
  const runId = line.toString().trim();
  const { anchor, root } = JSON.parse(
    readFileSync(join(home, "instances/in_real/runs", runId, "anchor.json"), "utf8"),
  );
  const launcher = parentOf(anchor.pid);
  victim.kill("SIGKILL");
  await once(victim, "close");
  // The launcher is stopped and killed first, because it would clean up.
  for (const [pid, signal] of [
    [launcher, "SIGSTOP"],
    [launcher, "SIGKILL"],
    [anchor.pid, "SIGSTOP"],
  ])
    process.kill(pid, signal);
  const children = readFileSync(`/proc/${root.pid}/task/${root.pid}/children`, "utf8")
    .trim()
    .split(" ")
    .map(Number);
  for (const pid of [anchor.pid, root.pid, ...children]) if (pid > 1) process.kill(pid, "SIGKILL");
  const bystanders = [];
  for (const pid of [root.pid, anchor.pid, launcher])
    bystanders.push(await Bystander.make(helper, "place", String(pid)));
  const supervisor = await openSupervisor({ home, instanceId: "in_real" });
  const { live, unchanged } = await recoverTwice(supervisor);
  const { state, exit, emptiness } = await supervisor.getRun(runId);
  const fates = [];
  for (const bystander of bystanders) fates.push(await bystander.fate());
  await supervisor.close();
  return { live, unchanged, state, reason: exit?.reason, emptiness, fates };
}

/** Control: a process of the run is killed. */
async function reapOurs() {
  const ours = await Bystander.make(helper, "hold", "--setsid", "HOLDFAST_LEASE_ID=lease_recorded");
  const root = unique ? ours.identity : { ...ours.identity, uniqueId: null };
  const [evidence] = await host.inspectProcesses([root]);
  const result = await host.reap({
    root,
    cgroup: null,
    leaseId: "lease_recorded",
    graceMs: 0,
  });
  return { matches: evidence.matches, result, fate: await ours.fate() };
}

function parentOf(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}

/** A new cgroup directory; null: none can be created. */
function findCgroups() {
  const mount = readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .find((line) => line.includes(" - cgroup2 "));
  if (mount === undefined || /cgroup/.test(weaken)) return null;
  const directory = join(mount.split(" ")[4], `holdfast-reuse-${process.pid}-${Date.now()}`);
  try {
    mkdirSync(directory);
    return directory;
  } catch {
    return null;
  }
}

function makeCgroup(which) {
  const name = `run_${Math.random().toString(36).slice(2)}`;
  const directory = join(cgroups, name);
  mkdirSync(directory);
  const inode = String(statSync(directory).ino);
  if (which === "anew") {
    rmdirSync(directory);
    mkdirSync(directory);
  }
  const path = directory.slice(directory.indexOf("/holdfast-reuse-"));
  // `reap` removes an empty cgroup that matches.
  return { path, inode, directory, remove: () => existsSync(directory) && rmdirSync(directory) };
}
