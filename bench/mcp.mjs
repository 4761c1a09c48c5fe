// An MCP server that starts through `holdfast run`, as `holdfast mcp wrap` writes it, against the same server without it:
// from its start to its first answer, and the memory of the processes that are added. And Holdfast's own server: `exec true`
// as a call of a tool, against a server that uses child_process.
//
// Usage: node bench/mcp.mjs [samples]
import { spawn } from "node:child_process";
import { readFile, mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { createClient } from "../dist/api/client.js";
import { wrappingWords } from "../dist/cli/mcp/wrapped-command.js";
import { makeNativeCommand } from "../dist/cli/shellenv/native-command.js";
import { startGateway } from "../dist/gateway/start-in-background.js";
import { gatewaySocketPath } from "../dist/home/state-directory.js";
import { readOperatorToken } from "../dist/sessions/tokens.js";
import { compare, inTurns, quantile } from "./measure.mjs";

const [samples = 40] = process.argv.slice(2).map(Number);
const resolve = (name) =>
  createRequire(import.meta.url).resolve(`@modelcontextprotocol/server-${name}/dist/index.js`);
const home = await mkdtemp(join(tmpdir(), "hf-"));
const env = { ...process.env, HOLDFAST_HOME: home };

await startGateway(home);
const client = createClient({ socketPath: gatewaySocketPath(home), token: await readOperatorToken(home) });
const holdfast = [join(await makeNativeCommand(home), "holdfast")];
const bare = [process.execPath, resolve("memory")];
const wrapped = [...wrappingWords("claude", "memory", true, holdfast), ...bare];
try {
  console.log(JSON.stringify([...(await startUp()), ...(await memory()), ...(await calls())]));
} finally {
  await client.stop({ body: { runs: "terminate" } });
  await rm(home, { recursive: true, force: true, maxRetries: 5 });
}

/** Each server has ended before the next one starts, and its end is not measured. */
async function startUp() {
  const [ours, theirs] = [[], []];
  for (let round = 0; round < samples; round++)
    for (const [words, times] of [
      [wrapped, ours],
      [bare, theirs],
    ]) {
      const began = performance.now();
      const server = await startServer(words);
      times.push(performance.now() - began);
      server.child.stdin.end();
      await server.ended;
    }
  return [compare("wrapped MCP server, start to first answer, ms", ours, "the server alone", theirs)];
}

/** The processes that are added to a server: `holdfast run` in front of it, and the anchor beside it. */
async function memory() {
  const totals = { proportional: [], resident: [] };
  for (let round = 0; round < 5; round++) {
    const server = await startServer(wrapped);
    const { runs } = await client.listRuns();
    const run = runs.find(({ state }) => state === "running");
    // It has followed the run for a while.
    await new Promise((done) => setTimeout(done, 300));
    const pids = [server.child.pid, run.anchor.pid];
    const rollups = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/smaps_rollup`, "utf8")));
    const sum = (name) => rollups.reduce((total, text) => total + kilobytes(text, name), 0) / 1024;
    totals.proportional.push(sum("Pss"));
    totals.resident.push(sum("Rss"));
    server.child.stdin.end();
    await server.ended;
    while ((await client.listRuns()).runs.length > 0) await new Promise((done) => setTimeout(done, 20));
  }
  const [proportional, resident] = [totals.proportional, totals.resident].map((each) =>
    quantile(each, 0.5).toFixed(2),
  );
  return [
    {
      measured: "memory that wrapping adds to an MCP server, MB proportional (resident)",
      "holdfast p50/p99": `${proportional} (${resident})`,
    },
  ];
}

/** `exec true`, from the request of a client to the answer. */
async function calls() {
  const naive = await startServer([
    process.execPath,
    fileURLToPath(new URL("support/naive-mcp-server.mjs", import.meta.url)),
  ]);
  const own = await startServer([...holdfast, "mcp", "--allow", "*"]);
  const call = (server) => server.request("tools/call", { name: "exec", arguments: { argv: ["true"] } });
  const [ours, theirs] = await inTurns(
    samples * 5,
    () => call(own),
    () => call(naive),
  );
  for (const server of [own, naive]) {
    server.child.stdin.end();
    await server.ended;
  }
  return [compare("`exec true` as a call of a tool, ms", ours, "a server with child_process", theirs)];
}

/** Resolves when the server has answered `initialize`. */
async function startServer([program, ...words]) {
  const child = spawn(program, words, { stdio: ["pipe", "pipe", "ignore"], env });
  const ended = new Promise((done) => child.on("close", done));
  const waiting = new Map();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, result, error } = JSON.parse(line);
    const { done, fail } = waiting.get(id) ?? {};
    waiting.delete(id);
    if (error !== undefined || result?.isError === true) fail?.(new Error(line));
    else done?.(result);
  });
  child.once("close", (code) => {
    for (const { fail } of waiting.values())
      fail(new Error(`${program} ended with ${code} before it answered`));
  });
  let last = 0;
  const request = (method, params) =>
    new Promise((done, fail) => {
      waiting.set(++last, { done, fail });
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: last, method, params })}\n`);
    });
  const params = {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo: { name: "bench", version: "0" },
  };
  await request("initialize", params);
  child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
  return { child, ended, request };
}

function kilobytes(text, name) {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(text)?.[1] ?? 0);
}
