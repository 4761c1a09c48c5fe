// Ends of a tree of processes that try to leave their run.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isAlive, Launcher, until } from "./client.mjs";
import { ending, program, temporary, treeProgram } from "./commands-to-run.mjs";

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

  async anchorDies() {
    return withTree(async ({ launcher, link, pids }) => {
      process.kill(link.welcome.anchorPid, "SIGKILL");
      await gone(pids);
      const lost = await launcher.holding.receive("anchorLost");
      const swept = await until(
        () => launcher.runFile("run_tree", "swept.json"),
        "the launcher has recorded it",
      );
      return { lost: { runId: lost.runId, code: lost.code }, swept };
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
