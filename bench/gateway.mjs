// Measures the gateway: spawn to exit of /bin/true by API exec, in-process and by bare child_process.spawn; `holdfast
// run` through the gateway, with --in-process and `node -e 0`; requests per second; and many runs from several
// concurrent clients, of which none may be lost.
//
// Usage: node bench/gateway.mjs [samples] [runs]
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClient } from "../dist/api/client.js";
import { gatewaySocketPath } from "../dist/home/state-directory.js";
import { readOperatorToken } from "../dist/sessions/requester.js";
import { startGateway } from "../dist/gateway/start.js";
import { openSupervisor } from "../dist/index.js";
import { quantile } from "./measure.mjs";

const count = Number(process.argv[2] ?? 200);
const runs = Number(process.argv[3] ?? 1_000);
const CLIENTS = 5;
const main = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));

const home = await mkdtemp(join(tmpdir(), "hf-"));
await startGateway(home);
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
  const polls = await perSecond(() => connect().poll({ params }));
  const lists = await perSecond(() => connect().listRuns());
  const many = await fromSeveral();
  console.log(
    JSON.stringify([
      compare("exec over the API to its end, ms", execMs, "bare spawn", bareMs),
      compare("the same", execMs, "in-process", inProcessMs),
      compare("`holdfast run`, ms", calledMs, "`node -e 0`", nodeMs),
      compare("the same", calledMs, "`run --in-process`", aloneMs),
      { measured: "poll of an ended run, requests/s", "holdfast p50/p99": polls.toFixed(0) },
      { measured: "list of open runs, requests/s", "holdfast p50/p99": lists.toFixed(0) },
      {
        measured: `${runs} runs from ${CLIENTS} clients, runs/s (none lost)`,
        "holdfast p50/p99": many.toFixed(0),
      },
    ]),
  );
} finally {
  await supervisor.close();
  await client.stop({ body: { runs: "terminate" } });
  await rm(home, { recursive: true, force: true, maxRetries: 5 });
}

/** The calls alternate, so that noise affects all of them. Milliseconds. */
async function inTurns(times, ...calls) {
  const samples = calls.map(() => []);
  for (const call of calls) for (let warm = 0; warm < 3; warm++) await call();
  for (let i = 0; i < times; i++)
    for (const [index, call] of calls.entries()) {
      const began = performance.now();
      await call();
      samples[index].push(performance.now() - began);
    }
  return samples;
}

/** Several clients, each waiting for its answer, below the request rate limit. */
async function perSecond(request) {
  const asked = 900;
  let left = asked;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (left-- > 0) await request();
    }),
  );
  return (asked / (performance.now() - began)) * 1000;
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

function compare(measured, ours, against, theirs) {
  const cell = (values) => `${quantile(values, 0.5).toFixed(2)} / ${quantile(values, 0.99).toFixed(2)}`;
  return {
    measured,
    "holdfast p50/p99": cell(ours),
    against,
    "its p50/p99": cell(theirs),
    "ratio p50": (quantile(ours, 0.5) / quantile(theirs, 0.5)).toFixed(2),
  };
}
