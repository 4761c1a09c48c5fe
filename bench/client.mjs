// The cost of `holdfast run` for its caller, with the native command and with the one in Node: start to end of `true` against
// `node -e 0` and against task-spooler (`tsp` + `tsp -w`), memory while it waits, and output through it against `cmd | cat`.
//
// Usage: node bench/client.mjs [samples] [MB of output] [rounds of output]
import { execFileSync, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { mkdtemp, readFile, rm, stat, truncate } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { createClient } from "../dist/api/client.js";
import { startGateway } from "../dist/gateway/start-in-background.js";
import { gatewaySocketPath } from "../dist/home/state-directory.js";
import { readOperatorToken } from "../dist/sessions/tokens.js";
import { compare, inTurns, quantile } from "./measure.mjs";
import { programsDirectory, unpackDebian } from "./support/programs.mjs";

const [samples = 100, megabytes = 512, rounds = 5] = process.argv.slice(2).map(Number);
const main = fileURLToPath(new URL("../dist/bundle/main.cjs", import.meta.url));
const home = await mkdtemp(join(tmpdir(), "hf-"));
const env = { ...process.env, HOLDFAST_HOME: home, TMPDIR: home, TS_SOCKET: join(home, "tsp.sock") };
const programs = await programsDirectory();

await startGateway(home);
const client = createClient({ socketPath: gatewaySocketPath(home), token: await readOperatorToken(home) });
execFileSync(process.execPath, [main, "shellenv"], { env });
const native = [join(home, "native/bin/holdfast"), "run", "--"];
const inNode = [process.execPath, main, "run", "--"];
const tsp = await findTaskSpooler();
try {
  console.log(JSON.stringify([...(await startToEnd()), ...(await memory()), ...(await output())]));
} finally {
  if (tsp !== null) await call([tsp, "-K"]);
  await client.stop({ body: { runs: "terminate" } });
  await rm(home, { recursive: true, force: true, maxRetries: 5 });
  await programs.dispose();
}

async function startToEnd() {
  const empty = [process.execPath, "-e", "0"];
  const spooled = async () => call([tsp, "-w", (await printed([tsp, "true"])).trim()]);
  const [nativeMs, emptyMs, spoolerMs = null] = await inTurns(
    samples,
    () => call([...native, "true"]),
    () => call(empty),
    ...(tsp === null ? [] : [spooled]),
  );
  const few = Math.ceil(samples / 5);
  const [nodeMs, emptyToo] = await inTurns(
    few,
    () => call([...inNode, "true"]),
    () => call(empty),
  );
  return [
    compare("`holdfast run -- true`, native, ms", nativeMs, "`node -e 0`", emptyMs),
    spoolerMs === null
      ? { measured: "the native command against `tsp` and `tsp -w`: not measured, task-spooler is missing" }
      : compare("the native command against `tsp` and `tsp -w`, ms", nativeMs, "`tsp`, `tsp -w`", spoolerMs),
    compare("the command in Node, ms", nodeMs, "`node -e 0`", emptyToo),
  ];
}

/** Memory of a command that waits for the end of its run, in MB: resident (and of it, private). */
async function memory() {
  const rows = [];
  for (const [name, words] of Object.entries({ native, "in Node": inNode })) {
    const waiting = spawn(words[0], [...words.slice(1), "sleep", "1000"], { stdio: "ignore", env });
    const ended = new Promise((resolve) => waiting.on("close", resolve));
    let open = [];
    while (open.length === 0)
      open = (await client.listRuns()).runs.filter(({ state }) => state === "running");
    // The command has followed the run for a while.
    await new Promise((resolve) => setTimeout(resolve, 300));
    const resident = kilobytes(await readFile(`/proc/${waiting.pid}/status`, "utf8"), "VmRSS");
    const rollup = await readFile(`/proc/${waiting.pid}/smaps_rollup`, "utf8");
    const own = kilobytes(rollup, "Private_Dirty") + kilobytes(rollup, "Private_Clean");
    rows.push({
      measured: `memory of a waiting \`holdfast run\`, ${name}, MB resident (private)`,
      "holdfast p50/p99": `${(resident / 1024).toFixed(2)} (${(own / 1024).toFixed(2)})`,
    });
    await client.kill({ params: { runId: open[0].runId }, body: { graceMs: 0 } });
    await ended;
  }
  return rows;
}

/** The throughput from a command that writes zeros into a file, through the caller's stdout. */
async function output() {
  const size = megabytes * 1024 * 1024;
  const path = join(home, "output");
  const script = `head -c ${size} /dev/zero`;
  const writers = {
    native: [...native, "sh", "-c", script],
    "in Node": [...inNode, "sh", "-c", script],
    plain: ["sh", "-c", `${script} | cat`],
  };
  const rates = { native: [], "in Node": [], plain: [] };
  for (let round = 0; round < rounds; round++)
    for (const [name, words] of Object.entries(writers)) {
      const file = openSync(path, "w");
      const began = performance.now();
      await call(words, file);
      rates[name].push(megabytes / ((performance.now() - began) / 1000));
      closeSync(file);
      if ((await stat(path)).size !== size) throw new Error(`${name}: not all of the output arrived`);
      await truncate(path);
    }
  const plain = quantile(rates.plain, 0.5);
  return ["native", "in Node"].map((name) => ({
    measured: `output, MB/s (foreground caller, ${name}, into a file)`,
    "holdfast p50/p99": quantile(rates[name], 0.5).toFixed(0),
    against: "`cmd | cat`",
    "its p50/p99": plain.toFixed(0),
    "ratio p50": (quantile(rates[name], 0.5) / plain).toFixed(2),
  }));
}

async function findTaskSpooler() {
  try {
    return join(await unpackDebian(programs.prefix, ["task-spooler"]), "usr/bin/tsp");
  } catch (error) {
    console.error(`task-spooler is not compared: it cannot be downloaded (${error.message.split("\n")[0]})`);
    return null;
  }
}

function kilobytes(status, name) {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0);
}

async function call([program, ...words], stdout = "ignore") {
  const child = spawn(program, words, { stdio: ["ignore", stdout, "inherit"], env });
  const code = await new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  if (code !== 0) throw new Error(`${program} ${words.join(" ")}: exit code ${code}`);
}

async function printed([program, ...words]) {
  const child = spawn(program, words, { stdio: ["ignore", "pipe", "inherit"], env });
  return text(child.stdout);
}
