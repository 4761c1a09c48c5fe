// Measures the gateway: spawn to exit of /bin/true by API exec, in-process and by bare child_process.spawn; `holdfast
// run` through the gateway, with --in-process and `node -e 0`; requests per second, with a connection for each request
// and with kept connections, against a Node server that does nothing but answer; many runs from several concurrent
// clients, of which none may be lost, against as many bare spawns; CPU time and memory of the gateway.
//
// Usage: node bench/gateway.mjs [samples] [runs]
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { createClient } from "../dist/api/client.js";
import { gatewaySocketPath } from "../dist/home/state-directory.js";
import { readOperatorToken } from "../dist/sessions/tokens.js";
import { startGateway } from "../dist/gateway/start-in-background.js";
import { openSupervisor } from "../dist/index.js";
import { compare, inTurns } from "./measure.mjs";

const count = Number(process.argv[2] ?? 200);
const runs = Number(process.argv[3] ?? 1_000);
const CLIENTS = 5;
const main = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));

const home = await mkdtemp(join(tmpdir(), "hf-"));
const { status } = await startGateway(home);
const idleMb = await residentMb(status.pid);
const [bareMb, serverMb] = [
  await residentOf("setInterval(() => {}, 1e9); console.log();"),
  await residentOf(`const { DatabaseSync } = require("@photostructure/sqlite");
    const db = new DatabaseSync(":memory:");
    db.exec("create table t (a)");
    require("node:http").createServer(() => {}).listen(0, "127.0.0.1", () => console.log());`),
];
const token = await readOperatorToken(home);
const connect = () => createClient({ socketPath: gatewaySocketPath(home), token });
const client = connect();
const supervisor = await openSupervisor({ home });
const env = { ...process.env, HOLDFAST_HOME: home };

const command = (file, args) =>
  new Promise((resolve, reject) => {
    const child = spawn(file, args, { stdio: ["ignore", "ignore", "inherit"], env });
    child.on("error", reject);
    child.on("close", resolve);
  });
const bare = () => command("/bin/true", []);
const inProcess = async () => (await supervisor.spawn({ io: "pipe", argv: ["/bin/true"] })).wait();
const exec = () => client.exec({ body: { argv: ["/bin/true"], maxChars: 0 } });
const run = (...options) => command(process.execPath, [main, "run", ...options, "--", "/bin/true"]);

try {
  const [execMs, inProcessMs, bareMs] = await inTurns(count, exec, inProcess, bare);
  const [calledMs, aloneMs, nodeMs] = await inTurns(
    Math.ceil(count / 10),
    () => run(),
    () => run("--in-process"),
    () => command(process.execPath, ["-e", "0"]),
  );
  const { run: ended } = await exec();
  const params = { runId: ended.runId };
  const cpuPerExec = await cpuOf(count, exec);
  const keptPolls = await perSecond(() => client.poll({ params }), 5_000);
  const keptLists = await perSecond(() => client.listRuns(), 5_000);
  const polls = await perSecond(() => connect().poll({ params }));
  const lists = await perSecond(() => connect().listRuns());
  const floor = await emptyServer(JSON.stringify(await client.poll({ params })).length);
  const many = await fromSeveral();
  const manyBare = await bareFromSeveral();
  const rate = (measured, value, against, floorValue) => ({
    measured,
    "holdfast p50/p99": value.toFixed(0),
    against,
    "its p50/p99": floorValue.toFixed(0),
    "ratio p50": (value / floorValue).toFixed(2),
  });
  console.log(
    JSON.stringify([
      compare("exec over the API to its end, ms", execMs, "bare spawn", bareMs),
      compare("the same", execMs, "in-process", inProcessMs),
      compare("`holdfast run`, ms", calledMs, "`node -e 0`", nodeMs),
      compare("the same", calledMs, "`run --in-process`", aloneMs),
      rate("poll of an ended run, requests/s", polls, "empty Node handler", floor.connecting),
      rate("list of open runs, requests/s", lists, "empty Node handler", floor.connecting),
      rate("the same on kept connections: poll", keptPolls, "empty Node handler", floor.kept),
      rate("the same on kept connections: list", keptLists, "empty Node handler", floor.kept),
      rate(
        `${runs} runs from ${CLIENTS} clients, runs/s (none lost)`,
        many,
        `bare spawns, ${CLIENTS} at once`,
        manyBare,
      ),
      { measured: "gateway CPU per exec, ms", "holdfast p50/p99": cpuPerExec.toFixed(2) },
      { measured: "gateway after its start, MB resident", "holdfast p50/p99": idleMb.toFixed(0) },
      { measured: "floor: Node with a timer, MB resident", "holdfast p50/p99": bareMb.toFixed(0) },
      { measured: "floor: Node with HTTP and SQLite, MB resident", "holdfast p50/p99": serverMb.toFixed(0) },
    ]),
  );
} finally {
  await supervisor.close();
  await client.stop({ body: { runs: "terminate" } });
  await rm(home, { recursive: true, force: true, maxRetries: 5 });
}

/** Several clients, each waiting for its answer, below the request rate limit. */
async function perSecond(call, asked = 900) {
  let left = asked;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (left-- > 0) await call();
    }),
  );
  return (asked / (performance.now() - began)) * 1000;
}

/** CPU time of all threads of the gateway per call, in milliseconds. */
async function cpuOf(times, call) {
  const cpuMs = async () => {
    const stat = await readFile(`/proc/${status.pid}/stat`, "utf8");
    const [user, system] = stat.slice(stat.lastIndexOf(")")).split(" ").slice(12);
    // In ticks of 10 ms.
    return (Number(user) + Number(system)) * 10;
  };
  const before = await cpuMs();
  for (let at = 0; at < times; at++) await call();
  return ((await cpuMs()) - before) / times;
}

async function residentMb(pid) {
  const found = /^VmRSS:\s+(\d+)/m.exec(await readFile(`/proc/${pid}/status`, "utf8"));
  return Number(found?.[1] ?? 0) / 1024;
}

/** Of a Node process that executes this script, which prints a line when it is ready. */
async function residentOf(script) {
  const child = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    await once(child.stdout, "data");
    return await residentMb(child.pid);
  } finally {
    child.kill();
  }
}

/** Requests per second to a Node server in its own process that answers with so many bytes, as an upper bound. */
async function emptyServer(bytes) {
  const path = join(home, "empty.sock");
  const script = `const body = JSON.stringify("x".repeat(${bytes - 2}));
    require("node:http").createServer((_, response) => {
      response.writeHead(200, { "content-type": "application/json", "content-length": body.length });
      response.end(body);
    }).listen(${JSON.stringify(path)}, () => console.log("listens"));`;
  const server = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    await once(server.stdout, "data");
    const ask = async (agent) => {
      const asking = request({ socketPath: path, path: "/", agent }).end();
      const [response] = await once(asking, "response");
      JSON.parse(await text(response));
    };
    const agent = new Agent({ keepAlive: true });
    const kept = await perSecond(() => ask(agent), 5_000);
    agent.destroy();
    return { kept, connecting: await perSecond(() => ask(false)) };
  } finally {
    server.kill();
  }
}

/** As many bare spawns from as many callers at once, per second. */
async function bareFromSeveral() {
  let left = runs;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (left-- > 0) await bare();
    }),
  );
  return (runs / (performance.now() - began)) * 1000;
}

async function fromSeveral() {
  let left = runs;
  const ids = new Set();
  const began = performance.now();
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      const mine = connect();
      while (left-- > 0) {
        const { run: record } = await mine.exec({ body: { argv: ["/bin/true"], labels: { many: "1" } } });
        if (record.exit?.code !== 0) throw new Error(`${record.runId}: ${JSON.stringify(record.exit)}`);
        ids.add(record.runId);
      }
    }),
  );
  const seconds = (performance.now() - began) / 1000;
  const recorded = await supervisor.listRuns({ labels: { many: "1" }, states: ["exited"] });
  if (ids.size !== runs || recorded.length !== runs) throw new Error("some were lost");
  return runs / seconds;
}
