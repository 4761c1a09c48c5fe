// Ends of a tree of processes that try to leave their run.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ask, isAlive, Launcher, until } from "./client.mjs";
import { ending, node, program, shell, temporary, treeProgram } from "./commands-to-run.mjs";

const main = fileURLToPath(new URL("main.mjs", import.meta.url));
/** Longer than the test may take. */
const GRACE_THAT_IS_NOT_WAITED_MS = 300_000;
const ROLES = ["leader", "detached", "breakaway", "grandchild", "consoleless", "ignoring", "background"];

/** Starts the tree as a run, and a process with the command line of one of its members outside it. */
async function withTree(act, change = {}, words = []) {
  const launcher = await Launcher.start();
  const directory = temporary();
  const outside = spawn(treeProgram, ["ignoring", directory], { stdio: "ignore" });
  await until(() => existsSync(join(directory, "ignoring")), "the bystander has started");
  rmSync(join(directory, "ignoring"));
  const link = await launcher.run("run_tree", [treeProgram, "leader", directory, ...words], {
    graceMs: 300,
    ...change,
  });
  const pids = await treePids(directory);
  const result = await act({ launcher, link, pids, directory });
  const left = ROLES.filter((role) => isAlive(pids[role]));
  const bystander = isAlive(outside.pid) && outside.exitCode === null;
  outside.kill("SIGKILL");
  launcher.holding.close();
  link.close();
  return { ...result, left, bystander, roles: Object.keys(pids).length };
}

async function treePids(directory) {
  await until(
    () => ROLES.every((role) => existsSync(join(directory, role))),
    `each of ${ROLES.join()} has started`,
  );
  return Object.fromEntries(ROLES.map((role) => [role, Number(readFileSync(join(directory, role), "utf8"))]));
}

/** `suspend` and `resume` a process by its pid; `deny` and `allow` to open a job by its name. */
async function treeTool(act, what) {
  const child = spawn(treeProgram, [act, String(what)], { stdio: "ignore" });
  const code = await new Promise((resolve) => child.on("exit", resolve));
  if (code !== 0) throw new Error(`${act} ended with ${code}`);
}

/** Ends a run without its anchor, and returns the answer. */
async function reap(welcome, graceMs, withJob = true) {
  const root = ["--pid", welcome.rootPid, "--start", welcome.rootStart, "--unique", welcome.rootUnique];
  const anchor = [
    ...["--anchor-pid", welcome.anchorPid, "--anchor-start", welcome.anchorStart],
    ...["--anchor-unique", welcome.anchorUnique],
  ];
  const job = withJob ? ["--cgroup", welcome.cgroup, "--cgroup-inode", welcome.cgroupInode] : [];
  const [answer] = await ask(["reap", ...root, ...anchor, ...job, "--grace", graceMs].map(String), []);
  return answer;
}

async function gone(pids) {
  await until(() => ROLES.every((role) => !isAlive(pids[role])), "the tree is gone");
}

export const trees = {
  async stop() {
    return withTree(async ({ link }) => {
      link.send("stop", { reason: "manual-cancel", actor: "test", requestId: "r1", graceMs: null });
      await link.receive("stopping");
      return ending(await link.receive("exited"));
    });
  },

  async timeout() {
    return withTree(async ({ link }) => ending(await link.receive("exited")), {
      overallMs: 6000,
      backstopMs: 0,
    });
  },

  async leaderExits() {
    return withTree(async ({ link }) => ending(await link.receive("exited")), {}, ["4000"]);
  },

  async ownerLeaves() {
    return withTree(
      async ({ launcher, link }) => {
        link.close();
        const exit = await until(() => launcher.runFile("run_tree", "exit.json"), "the run has ended");
        return ending({ json: JSON.stringify(exit) });
      },
      { ownerLossMs: 500 },
    );
  },

  /** The owner is another process, which is killed. */
  async gatewayDiesForGood() {
    return withTree(
      async ({ launcher, directory }) => {
        const known = {
          directory: launcher.directory,
          key: launcher.keys.get("run_tree"),
          owned: join(directory, "owned"),
        };
        const gateway = spawn(node, [main, "asOwner", JSON.stringify(known)], { stdio: "ignore" });
        await until(() => existsSync(known.owned), "the gateway owns the run");
        gateway.kill("SIGKILL");
        const exit = await until(() => launcher.runFile("run_tree", "exit.json"), "the run has ended");
        return ending({ json: JSON.stringify(exit) });
      },
      { ownerLossMs: 500 },
    );
  },

  async asOwner(text) {
    const { directory, key, owned } = JSON.parse(text);
    await new Launcher(directory, null).attach("run_tree", 2, key);
    writeFileSync(owned, "");
    await new Promise(() => setInterval(() => {}, 1000));
  },

  async anchorDies() {
    return withTree(async ({ launcher, link, pids }) => {
      process.kill(link.welcome.anchorPid, "SIGKILL");
      await gone(pids);
      const lost = await launcher.holding.receive("anchorLost");
      const swept = await until(
        () => launcher.runFile("run_tree", "swept.json"),
        "the launcher has recorded it",
      );
      return { lost: { runId: lost.runId, code: lost.code }, swept, killed: swept.killed };
    });
  },

  /** The launcher has the only handle of the job then. */
  async anchorDiesUnseen() {
    return withTree(async ({ launcher, link, pids }) => {
      const { anchorPid: launcherPid } = launcher.holding.launcher;
      await treeTool("suspend", launcherPid);
      process.kill(link.welcome.anchorPid, "SIGKILL");
      await until(() => !isAlive(link.welcome.anchorPid), "the anchor is gone");
      const sweptEarly = launcher.runFile("run_tree", "swept.json");
      await treeTool("resume", launcherPid);
      await gone(pids);
      const swept = await until(
        () => launcher.runFile("run_tree", "swept.json"),
        "the launcher has recorded it",
      );
      return { sweptEarly, swept, killed: swept.killed };
    });
  },

  /** The launcher tries again. */
  async anchorDiesBehindClosedJob() {
    return withTree(async ({ launcher, link, pids }) => {
      await treeTool("deny", link.welcome.cgroup);
      process.kill(link.welcome.anchorPid, "SIGKILL");
      await launcher.holding.receive("anchorLost");
      // The launcher has looked for the first job when it has served another run.
      await (await launcher.run("run_other", shell("exit 0"), { verbatim: true })).receive("exited");
      const sweptEarly = launcher.runFile("run_tree", "swept.json");
      const alive = ROLES.filter((role) => isAlive(pids[role])).length;
      await treeTool("allow", link.welcome.cgroup);
      await gone(pids);
      const swept = await until(
        () => launcher.runFile("run_tree", "swept.json"),
        "the launcher has recorded it",
      );
      return { sweptEarly, alive, swept, killed: swept.killed };
    });
  },

  /** Ended from outside, while its anchor is suspended: nothing there can ask the processes to end. */
  async reaped() {
    return withTree(async ({ launcher, link, pids }) => {
      const answer = await reap(link.welcome, GRACE_THAT_IS_NOT_WAITED_MS);
      await gone(pids);
      launcher.holding.close();
      return { answer, residue: answer.residue.map(({ command }) => command) };
    });
  },

  /** A run whose orphans only the job still contains. */
  async reapedWithoutJob() {
    return withTree(async ({ launcher, link, pids }) => {
      const answer = await reap(link.welcome, 0, false);
      const alive = ROLES.filter((role) => isAlive(pids[role])).length;
      await link.receive("exited");
      await gone(pids);
      launcher.holding.close();
      return { answer, orphans: alive > 0 };
    });
  },

  async reapedBehindClosedJob() {
    return withTree(async ({ launcher, link, pids }) => {
      const { cgroup, ...known } = link.welcome;
      await treeTool("deny", cgroup);
      const answer = await reap(link.welcome, 0);
      const alive = ROLES.filter((role) => isAlive(pids[role])).length;
      await treeTool("allow", cgroup);
      if (isAlive(known.anchorPid)) await link.receive("exited");
      await gone(pids);
      launcher.holding.close();
      return { answer, orphans: alive > 0 };
    });
  },

  async anchorAndLauncherDie() {
    return withTree(async ({ launcher, link, pids }) => {
      process.kill(launcher.holding.launcher.anchorPid, "SIGKILL");
      process.kill(link.welcome.anchorPid, "SIGKILL");
      await gone(pids);
      return { swept: launcher.runFile("run_tree", "swept.json") };
    });
  },

  async launcherDies() {
    return withTree(async ({ launcher, link, pids }) => {
      process.kill(launcher.holding.launcher.anchorPid, "SIGKILL");
      await until(() => launcher.holding.closed, "the launcher is gone");
      const alive = ROLES.filter((role) => isAlive(pids[role])).length;
      link.send("stop", { reason: "manual-cancel", actor: "test", requestId: "r1", graceMs: null });
      return { alive, ...ending(await link.receive("exited")) };
    });
  },

  /** A stop of a suspended command, which ends by itself when it sees the file. */
  async stopOfSuspended() {
    const launcher = await Launcher.start();
    const go = join(temporary(), "go");
    const source = `process.on("SIGBREAK", () => {}); console.log("ready");
      setInterval(() => require("fs").existsSync(${JSON.stringify(go)}) && process.exit(4), 20);`;
    const link = await launcher.run("run_suspended", program(source), { graceMs: 10_000 });
    await until(() => launcher.output("run_suspended").includes("ready"), "the command is ready");
    const { rootPid } = link.welcome;
    const state = async () => (await ask(["inspect", "--brief"], [String(rootPid)]))[0].state;
    const before = await state();
    await treeTool("suspend", rootPid);
    const suspended = await state();
    writeFileSync(go, "");
    link.send("stop", { reason: "manual-cancel", actor: "test", requestId: "r1", graceMs: null });
    const end = ending(await link.receive("exited"));
    launcher.holding.close();
    return { ...end, states: [before, suspended] };
  },

  /** Every process that shares the anchor's console gets Ctrl-Break. */
  async controlBreak() {
    const source = `process.on("SIGBREAK", () => { console.log("asked"); process.exit(4); }); console.log("ready"); setInterval(() => {}, 1000);`;
    const launcher = await Launcher.start();
    const link = await launcher.run("run_break", program(source), { graceMs: 20_000 });
    await until(() => launcher.output("run_break").includes("ready"), "the command is ready");
    link.send("stop", { reason: "manual-cancel", actor: "test", requestId: "r1", graceMs: null });
    const end = ending(await link.receive("exited"));
    launcher.holding.close();
    return { ...end, output: launcher.output("run_break").toString() };
  },
};
