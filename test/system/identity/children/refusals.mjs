// Identities that nobody may ever signal, each verified and each asked for: node refusals.mjs <helper>. Prints what happened.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, rmdirSync, statSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { openHost, temporaryHome } from "./parts.mjs";

/** A refusal needs no time. */
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
  "a number beyond numbers": await ask(["--pid", "18446744073709551615", "--start", "1"]),
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

/** What `reap` needs to be sure of a process. */
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
  let said = "";
  child.stdout.on("data", (text) => (said += text));
  const late = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  const [code, signal] = await once(child, "close");
  clearTimeout(late);
  return { code, signal, result: said === "" ? null : JSON.parse(said), bystanders: [] };
}

/** A shell that becomes `anchor reap` of its own number. */
async function askAboutItself() {
  const child = spawn("sh", ["-c", 'IFS= read -r line; exec "$0" reap $line', host.anchorPath], {
    stdio: ["pipe", "pipe", "inherit"],
    detached: true,
  });
  child.stdin.end(`${(await evidence(child.pid)).join(" ")} --grace 0\n`);
  return answerOf(child);
}

/** A shell, a stranger below it, and `anchor reap` beside the stranger, asked to end the shell or the stranger. */
async function askInFamily(whom) {
  const separate = whom === "parent" ? "--setsid" : "";
  const family = await startFamily(separate, null);
  const args = await evidence(whom === "parent" ? family.pid : family.stranger.pid);
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
    // Removed as the run's that it was taken for.
  }
  return answer;
}

async function startFamily(separate, cgroup) {
  const script = `
    ${cgroup === null ? "" : `echo 0 > '${cgroup}/cgroup.procs'`}
    "$1" hold ${separate} <&3 >&4 &
    IFS= read -r line
    "$0" reap $line
    echo "the shell lives"
    IFS= read -r line
    exit 0`;
  const child = spawn("sh", ["-c", script, host.anchorPath, helper], {
    stdio: ["pipe", "pipe", "inherit", "pipe", "pipe"],
    detached: true,
  });
  // Not `close`: one that does not come to an end holds the streams.
  const gone = once(child, "exit");
  const told = createInterface({ input: child.stdio[4] })[Symbol.asyncIterator]();
  const said = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const stranger = JSON.parse((await told.next()).value);
  for (const stream of child.stdio) stream?.on("error", () => {});
  const askThere = async (args) => {
    child.stdin.write(`${args.join(" ")} --grace 0\n`);
    const result = await soon(said.next());
    const shell = result !== undefined && (await soon(said.next())) === "the shell lives";
    child.stdio[3].end();
    const fate = await soon(told.next());
    child.stdin.end("\n");
    if (!shell) child.kill("SIGKILL");
    const [code, signal] = await gone;
    const bystanders = [fate === undefined ? { alive: false } : JSON.parse(fate)];
    return { code, signal, result: result?.startsWith("{") ? JSON.parse(result) : null, shell, bystanders };
  };
  return { pid: child.pid, stranger, ask: askThere };
}
