// Gateways that end while their run continues.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isAlive, Launcher, until } from "./client.mjs";
import { ending, node, program, temporary, treeProgram } from "./commands-to-run.mjs";

const main = fileURLToPath(new URL("main.mjs", import.meta.url));
const STDIO = { stdio: ["ignore", "ignore", "inherit"] };

function inJob(may, state) {
  return spawn(treeProgram, ["caller", may, `"${node}" "${main}" asGateway "${state}"`], STDIO);
}

/** The gateway's answer when its run is running. */
function stateOf(gateway, state) {
  return until(
    () => {
      if (gateway.exitCode !== null) throw new Error(`the gateway ended with ${gateway.exitCode}`);
      return existsSync(state) && JSON.parse(readFileSync(state, "utf8"));
    },
    "the gateway has a run",
    40_000,
  );
}

/** Ends the process that `start` returns when its run is running, and takes the run over. */
async function survive(start) {
  const directory = temporary();
  const state = join(directory, "state.json");
  const gateway = start(state);
  const known = await stateOf(gateway, state);
  gateway.kill("SIGKILL");
  await new Promise((resolve) => gateway.on("exit", resolve));
  const launcher = new Launcher(known.directory, null);
  launcher.holding = await launcher.hold();
  const link = await launcher.attach("run_long", 2, known.key);
  const alive = isAlive(known.rootPid);
  writeFileSync(join(directory, "go"), "");
  const end = ending(await link.receive("exited"));
  launcher.holding.close();
  return { alive, ...end, output: launcher.output("run_long").toString() };
}

export const gateways = {
  /** The gateway is another process, which is killed. */
  async gatewayDies() {
    return survive((state) => spawn(node, [main, "asGateway", state], STDIO));
  },

  /** The gateway is in a job, which ends when the process is killed that has its handle. */
  async callersJob() {
    return survive((state) => inJob("leave", state));
  },

  async callersJobHolds() {
    const state = join(temporary(), "state.json");
    const caller = inJob("stay", state);
    const { note } = await stateOf(caller, state);
    caller.kill("SIGKILL");
    return { note };
  },

  async asGateway(state) {
    const launcher = await Launcher.start();
    const source = `const fs = require("fs"), go = ${JSON.stringify(join(state, "..", "go"))};
      console.log("before"); const t = setInterval(() => { if (!fs.existsSync(go)) return; clearInterval(t); console.log("after"); process.exitCode = 5; }, 50);`;
    const link = await launcher.run("run_long", program(source), { ownerLossMs: 60_000 });
    await until(() => launcher.output("run_long").length > 0, "its first output");
    const { rootPid, tierNote: note } = link.welcome;
    const known = { directory: launcher.directory, key: launcher.keys.get("run_long"), rootPid, note };
    writeFileSync(`${state}.new`, JSON.stringify(known));
    renameSync(`${state}.new`, state);
    await new Promise(() => setInterval(() => {}, 1000));
  },
};
