// Installs the packages in each way, runs a command, and removes them: inside a clean root, for its Node. Executed by
// scripts/release/install-matrix.mjs. Prints one row of the table for each way.

import { chownSync, cpSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { execute, expectEqual, seconds } from "./steps.mjs";

const tarballs = readdirSync("/packages")
  .filter((name) => name.endsWith(".tgz"))
  .map((name) => `/packages/${name}`);
const USERS = { root: undefined, user: { uid: 1000, gid: 1000 } };

for (const user of Object.keys(USERS))
  for (const scripts of [true, false])
    for (const offline of [false, true]) installAndRun(user, scripts, offline);

function installAndRun(name, scripts, offline) {
  const user = USERS[name];
  const home = "/tmp/home";
  mkdirSync(home);
  if (user !== undefined) chownSync(home, user.uid, user.gid);
  // A cache of its own: empty, or with everything that is needed.
  if (offline) fillCache(`${home}/.npm`, user);
  const env = {
    ...{ HOME: home, npm_config_prefix: `${home}/prefix`, npm_config_update_notifier: "false" },
    PATH: `${home}/prefix/bin:${process.env.PATH}`,
  };
  const way = [...(scripts ? [] : ["--ignore-scripts"]), ...(offline ? ["--offline"] : [])];
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
  const holdfast = (args, allowed = [0]) => execute(["holdfast", ...args], { user, env, allowed });
  let problem = "";
  const from = performance.now();
  let installed = "";
  let ran = "";
  try {
    execute(["npm", "install", "--global", ...way, ...quiet, ...tarballs], { user, env });
    installed = seconds(from);
    const beforeRun = performance.now();
    expectEqual("the output", holdfast(["run", "--", "echo", "hello"]).stdout, "hello\n");
    ran = seconds(beforeRun);
    expectEqual("the status", holdfast(["run", "--", "sh", "-c", "exit 7"], [7]).status, 7);
    holdfast(["run", "--in-process", "--pty", "--", "sh", "-c", "exit 0"]);
    const { checks } = JSON.parse(holdfast(["doctor", "--json"]).stdout);
    expectEqual(
      "what cannot work",
      checks.filter(({ state }) => state === "bad"),
      [],
    );
    holdfast(["gateway", "stop"]);
    execute(["npm", "uninstall", "--global", ...quiet, "holdfast", "@holdfast/anchor-linux-x64"], {
      user,
      env,
    });
    expectEqual("the programs left", readdirSync(`${home}/prefix/bin`), []);
  } catch (error) {
    problem = error.message;
  }
  const row = [process.version, name, scripts ? "" : "yes", offline ? "yes" : "", installed, ran];
  console.log(`| ${row.join(" | ")} | ${problem === "" ? "passed" : "FAILED"} |`);
  rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  if (problem === "") return;
  console.error(problem);
  process.exit(1);
}

function fillCache(directory, user) {
  mkdirSync(directory);
  cpSync("/npm-cache", directory, { recursive: true });
  if (user !== undefined) execute(["/bin/chown", "-R", `${user.uid}:${user.gid}`, directory]);
}
