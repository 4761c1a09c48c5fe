// 1,000 concurrent runs under one gateway: the time to start and to stop them through the API, the delay of the gateway's
// event loop meanwhile and while they run, and the memory of gateway and anchor per run.
//
// Usage: node bench/concurrent.mjs [runs] [idle ms]
import { readdir, readFile, mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "../dist/api/client.js";
import { environmentOutsideRuns, startGateway } from "../dist/gateway/start-in-background.js";
import { gatewaySocketPath } from "../dist/home/state-directory.js";
import { readOperatorToken } from "../dist/sessions/tokens.js";

const runs = Number(process.argv[2] ?? 1_000);
const idleMs = Number(process.argv[3] ?? 10_000);
const CLIENTS = 5;

const home = await mkdtemp(join(tmpdir(), "hf-"));
const probe = join(home, "probe.sock");
const { status } = await startGateway(home, undefined, undefined, {
  ...environmentOutsideRuns(),
  NODE_OPTIONS: `--import=${new URL("gateway-probe.mjs", import.meta.url).href}`,
  HOLDFAST_BENCH_PROBE: probe,
});
const token = await readOperatorToken(home);
const connection = () => createClient({ socketPath: gatewaySocketPath(home), token });
const clients = Array.from({ length: CLIENTS }, connection);

/** Event loop and CPU of the gateway since the last call. */
const sinceLast = async () => JSON.parse(await text(connect(probe)));

/** Proportional set size of the anchors of this gateway, in kB. */
async function anchorsKb() {
  let kb = 0;
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const words = (await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")).split("\0");
    if (words[1] !== "run" || !words.some((word) => word.includes(status.instanceId))) continue;
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "utf8").catch(() => "");
    kb += Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0);
  }
  return kb;
}

/** Calls from several clients at once; milliseconds. */
async function fromAll(inputs, call) {
  const left = [...inputs];
  const began = performance.now();
  await Promise.all(
    clients.map(async (client) => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) await call(client, next);
    }),
  );
  return performance.now() - began;
}

try {
  // Warms up: code that was never executed is compiled.
  await fromAll(Array(50).keys(), (client) => client.exec({ body: { argv: ["/bin/true"] } }));
  const before = await sinceLast();
  const started = [];
  const startMs = await fromAll(Array(runs).keys(), async (client) => {
    const { run } = await client.exec({ body: { argv: ["/bin/sleep", "1000"], background: true } });
    started.push(run.runId);
  });
  const starting = await sinceLast();
  await sleep(idleMs);
  const idle = await sinceLast();
  const kb = await anchorsKb();
  const { runs: listed } = await clients[0].listRuns({ query: { limit: 1_000 } });
  await sinceLast();
  const stopMs = await fromAll(started, async (client, runId) => {
    const { outcome } = await client.kill({ params: { runId }, body: { graceMs: 0 } });
    if (outcome !== "gone") throw new Error(`${runId}: ${outcome}`);
  });
  const stopping = await sinceLast();
  if (listed.length !== Math.min(runs, 1_000)) throw new Error(`only ${listed.length} of ${runs} were there`);
  const loop = ({ loopMs: { p50, p99, max } }) => `${p50.toFixed(1)} / ${p99.toFixed(1)} / ${max.toFixed(0)}`;
  const rows = [
    ["start all, ms (per second)", `${startMs.toFixed(0)} (${((runs / startMs) * 1_000).toFixed(0)})`],
    [
      "stop all to proven ends, ms (per second)",
      `${stopMs.toFixed(0)} (${((runs / stopMs) * 1_000).toFixed(0)})`,
    ],
    ["event-loop delay while starting, p50/p99/max ms", loop(starting)],
    ["event-loop delay while they run, p50/p99/max ms", loop(idle)],
    ["event-loop delay while stopping, p50/p99/max ms", loop(stopping)],
    [
      "gateway CPU per start / per stop, ms",
      `${(starting.cpuMs / runs).toFixed(2)} / ${(stopping.cpuMs / runs).toFixed(2)}`,
    ],
    ["gateway CPU while they run, % of a core", ((idle.cpuMs / idleMs) * 100).toFixed(1)],
    [
      "gateway per run, kB (heap / RSS)",
      `${((idle.heapUsed - before.heapUsed) / 1024 / runs).toFixed(0)} / ${((idle.rss - before.rss) / 1024 / runs).toFixed(0)}`,
    ],
    ["anchor per run, kB (proportional)", (kb / runs).toFixed(0)],
  ];
  console.log(
    JSON.stringify(
      rows.map(([measured, value]) => ({
        measured: `${runs} runs under one gateway: ${measured}`,
        "holdfast p50/p99": value,
      })),
    ),
  );
} finally {
  await clients[0].stop({ body: { runs: "terminate" } });
  await rm(home, { recursive: true, force: true, maxRetries: 5 });
}
