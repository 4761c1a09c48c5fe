// Requests to signal processes that must never be signalled: node refusals.mjs <helper>. Prints the result.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, rmdirSync, statSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { openHost, temporaryHome } from "./parts.mjs";

/** A refusal is immediate. */
const PATIENCE_MS = 3_000;

const LEASE = "lease_refused";
process.env.HOLDFAST_LEASE_ID = LEASE;

const [, , helper] = process.argv;
const home = await temporaryHome();
const host = await openHost(home);
const answers = {
  "PID 1": await ask(await evidence(1)),
  "no number": await ask(["--pid", "0"]),
  "a negative number": await ask(["--pid", "-1", "--start", "1"]),
  "every process": await ask(["--pid", "-1", "--start", "1"]),
  "a group": await ask(["--pid", String(-process.pid), "--start", "1"]),
  "a number out of range": await ask(["--pid", "18446744073709551615", "--start", "1"]),
  "no evidence at all": await ask(["--pid", String(process.pid)]),
  ourselves: await askAboutItself(),
  "our parent": await askInFamily("parent"),
  "our own group": await askInFamily("group"),
  "our own cgroup": await askInCgroup(),
};
await host[Symbol.asyncDispose]();
await rm(home, { recursive: true, force: true });
console.log(JSON.stringify(answers));
process.exit(0);

async function soon(line) {
  const late = new Promise((resolve) => setTimeout(resolve, PATIENCE_MS, { value: undefined }));
  return (await Promise.race([line, late])).value;
}

/** The arguments with which `reap` verifies a process. */
async function evidence(pid) {
  const [{ identity }] = await host.inspectProcesses([pid]);
  const unique = identity.uniqueId === null ? [] : ["--unique", identity.uniqueId];
  return ["--pid", String(pid), "--start", String(identity.startTime), ...unique, ...["--lease", LEASE]];
}

async function ask(args) {
  const child = spawn(host.anchorPath, ["reap", ...args, "--grace", "0"], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  return answerOf(child);
}

async function answerOf(child) {
  let stdout = "";
  child.stdout.on("data", (text) => (stdout += text));
  const late = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  const [code, signal] = await once(child, "close");
  clearTimeout(late);
  return { code, signal, result: stdout === "" ? null : JSON.parse(stdout), bystanders: [] };
}

/** A shell that executes `anchor reap` with its own pid. */
async function askAboutItself() {
  const child = spawn("sh", ["-c", 'IFS= read -r line; exec "$0" reap $line', host.anchorPath], {
    stdio: ["pipe", "pipe", "inherit"],
    detached: true,
  });
  child.stdin.end(`${(await evidence(child.pid)).join(" ")} --grace 0\n`);
  return answerOf(child);
}

/** A shell with two children: a bystander, and `anchor reap` for the shell or the bystander. */
async function askInFamily(whom) {
  const separate = whom === "parent" ? "--setsid" : "";
  const family = await startFamily(separate, null);
  const args = await evidence(whom === "parent" ? family.pid : family.bystander.pid);
  return family.ask(args);
}

async function askInCgroup() {
  const mount = readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .find((line) => line.includes(" - cgroup2 "));
  if (mount === undefined) return null;
  const directory = join(mount.split(" ")[4], `holdfast-self-${process.pid}-${Date.now()}`);
  try {
    mkdirSync(directory);
  } catch {
    return null;
  }
  const family = await startFamily("--setsid", directory);
  const args = [
    "--cgroup",
    directory.slice(directory.lastIndexOf("/holdfast-self-")),
    "--cgroup-inode",
    String(statSync(directory).ino),
  ];
  const answer = await family.ask(args);
  try {
    rmdirSync(directory);
  } catch {
    // `reap` removed it.
  }
  return answer;
}

async function startFamily(separate, cgroup) {
  const script = `
    ${cgroup === null ? "" : `echo 0 > '${cgroup}/cgroup.procs'`}
    "$1" hold ${separate} <&3 >&4 &
    IFS= read -r line
    "$0" reap $line
    echo "the shell is alive"
    IFS= read -r line
    exit 0`;
  const child = spawn("sh", ["-c", script, host.anchorPath, helper], {
    stdio: ["pipe", "pipe", "inherit", "pipe", "pipe"],
    detached: true,
  });
  // Not `close`: a process that does not end keeps the streams open.
  const gone = once(child, "exit");
  const helperLines = createInterface({ input: child.stdio[4] })[Symbol.asyncIterator]();
  const shellLines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const bystander = JSON.parse((await helperLines.next()).value);
  for (const stream of child.stdio) stream?.on("error", () => {});
  const askThere = async (args) => {
    child.stdin.write(`${args.join(" ")} --grace 0\n`);
    const result = await soon(shellLines.next());
    const shell = result !== undefined && (await soon(shellLines.next())) === "the shell is alive";
    child.stdio[3].end();
    const fate = await soon(helperLines.next());
    child.stdin.end("\n");
    if (!shell) child.kill("SIGKILL");
    const [code, signal] = await gone;
    const bystanders = [fate === undefined ? { alive: false } : JSON.parse(fate)];
    return { code, signal, result: result?.startsWith("{") ? JSON.parse(result) : null, shell, bystanders };
  };
  return { pid: child.pid, bystander, ask: askThere };
}
