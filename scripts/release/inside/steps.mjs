// Functions of the drivers that run inside a clean root. They use only Node.

import { spawn, spawnSync } from "node:child_process";

/** Executes a command as a user, and returns what it printed. */
export function execute(argv, { user, env = {}, cwd = "/tmp", allowed = [0] } = {}) {
  const [program, ...args] = argv;
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    ...{ cwd, encoding: "utf8", timeout: 600_000, maxBuffer: 2 ** 26 },
    ...(user !== undefined && { uid: user.uid, gid: user.gid }),
    env: { ...process.env, ...env },
  });
  if (error || !allowed.includes(status))
    throw new Error(
      `${argv.join(" ")}: status ${status}${error ? `, ${error.message}` : ""}\n${stdout}${stderr}`,
    );
  return { status, stdout, stderr };
}

export function start(argv, { env = {}, cwd = "/tmp" } = {}) {
  const [program, ...args] = argv;
  const child = spawn(program, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"]) child[stream].on("data", (data) => (output[stream] += data));
  const ended = new Promise((resolve) => child.once("close", (code) => resolve({ code, ...output })));
  return { child, output, ended };
}

export function expectEqual(what, actual, expected) {
  if (JSON.stringify(actual) !== JSON.stringify(expected))
    throw new Error(`${what} is ${JSON.stringify(actual)}, not ${JSON.stringify(expected)}`);
}

/** Executes named steps in order, and prints the time of each. Rejects with the first failure. */
export async function inOrder(steps) {
  const started = performance.now();
  for (const [name, step] of steps) {
    const from = performance.now();
    try {
      const note = (await step()) ?? "";
      console.log(`| ${name} | ${seconds(from)} | ${note} |`);
    } catch (error) {
      console.log(`| ${name} | ${seconds(from)} | FAILED |`);
      throw error;
    }
  }
  console.log(`| all steps | ${seconds(started)} | |`);
}

export function seconds(from) {
  return `${((performance.now() - from) / 1000).toFixed(1)} s`;
}
