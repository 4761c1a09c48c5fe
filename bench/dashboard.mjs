// The dashboard in Debian's Chromium: first paint and memory of the page with few and many runs, the cost of
// scrolling, how many updates it shows per second while many runs print, and the gateway's processor time for an open page
// while nothing happens.
//
// Usage: node bench/dashboard.mjs [many runs] [printing runs]
import { mkdtemp, rm } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { chromium } from "playwright-core";
import { createClient } from "../dist/api/client.js";
import { startGateway } from "../dist/gateway/start-in-background.js";
import { gatewaySocketPath } from "../dist/home/state-directory.js";
import { readOperatorToken } from "../dist/sessions/tokens.js";
import { quantile } from "./measure.mjs";

const [many = 1000, printing = 100] = process.argv.slice(2).map(Number);
const FEW = 10;
const LOADS = 5;
const IDLE_MS = 10_000;
const PRINT_MS = 5_000;
/** USER_HZ of Linux. */
const TICK_MS = 10;

const home = await mkdtemp(join(tmpdir(), "hf-"));
const { status } = await startGateway(home);
const client = createClient({ socketPath: gatewaySocketPath(home), token: await readOperatorToken(home) });
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  env: { ...process.env, HOME: home, XDG_CONFIG_HOME: home, XDG_CACHE_HOME: home },
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--enable-precise-memory-info"],
});
try {
  const rows = [];
  await startRuns(FEW, "exec sleep 1000");
  rows.push(...(await loads(FEW)));
  rows.push(await idle());
  rows.push(await updates());
  await startRuns(many - FEW, "exec sleep 1000");
  rows.push(...(await loads(many)));
  rows.push(await scrolling(many));
  console.log(JSON.stringify(rows));
} finally {
  await browser.close();
  await client.stop({ body: { runs: "terminate" } });
  await rm(home, { recursive: true, force: true, maxRetries: 5 });
}

async function startRuns(count, script) {
  const body = { argv: ["sh", "-c", script], background: true };
  const started = [];
  // A request of its own for each run, some at a time.
  for (let begun = 0; begun < count; begun += 20)
    started.push(
      ...(await Promise.all(
        Array.from({ length: Math.min(20, count - begun) }, () => client.exec({ body })),
      )),
    );
  return started.map(({ run }) => run.runId);
}

async function openPage() {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  const { url } = await client.openDashboard({ body: {} });
  await page.goto(url);
  await page.getByRole("list", { name: "Running" }).getByRole("listitem").first().waitFor();
  return { page, context };
}

/** A page that is logged in is loaded again: first paint, all runs listed, and the memory of its scripts. */
async function loads(runs) {
  const { page, context } = await openPage();
  const [paints, listed, heaps] = [[], [], []];
  for (let round = 0; round < LOADS; round++) {
    await page.reload({ waitUntil: "commit" });
    await page.getByRole("list", { name: "Running" }).getByRole("listitem").first().waitFor();
    listed.push(await page.evaluate("performance.now()"));
    const [paint] = await page.evaluate(
      "performance.getEntriesByName('first-contentful-paint').map((entry) => entry.startTime)",
    );
    paints.push(paint);
    heaps.push(await usedHeap(context, page));
  }
  await context.close();
  const cell = (values) => `${quantile(values, 0.5).toFixed(0)} / ${quantile(values, 0.99).toFixed(0)}`;
  return [
    { measured: `first paint of the dashboard with ${runs} runs, ms`, "holdfast p50/p99": cell(paints) },
    { measured: `dashboard with ${runs} runs: all listed, ms`, "holdfast p50/p99": cell(listed) },
    { measured: `script memory of the dashboard with ${runs} runs, MB`, "holdfast p50/p99": cell(heaps) },
  ];
}

/** Processor time of the page's own thread for each frame while its list scrolls. */
async function scrolling(runs) {
  const { page, context } = await openPage();
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const taskMs = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return 1_000 * metrics.find(({ name }) => name === "TaskDuration").value;
  };
  const before = await taskMs();
  const frames = await page.evaluate(`new Promise((resolve) => {
    let frames = 0;
    const began = performance.now();
    const next = (now) => {
      frames++;
      scrollTo(0, (frames * 120) % (document.documentElement.scrollHeight - innerHeight));
      if (now - began < ${PRINT_MS}) requestAnimationFrame(next);
      else resolve(frames);
    };
    requestAnimationFrame(next);
  })`);
  const each = ((await taskMs()) - before) / frames;
  await context.close();
  return {
    measured: `dashboard with ${runs} runs: processor time of the page for a frame of scrolling, ms`,
    "holdfast p50/p99": each.toFixed(1),
  };
}

/** In MB, after a garbage collection. */
async function usedHeap(context, page) {
  const session = await context.newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await session.detach();
  return usedSize / 2 ** 20;
}

/** Processor time of the gateway with an open page, without what it needs anyway. */
async function idle() {
  const alone = await gatewayCpu(IDLE_MS);
  const { context } = await openPage();
  // The reads of the first view have been answered.
  await sleep(2_000);
  const withPage = await gatewayCpu(IDLE_MS);
  await context.close();
  const percent = (Math.max(0, withPage - alone) / IDLE_MS) * 100;
  return {
    measured: "gateway CPU for an open idle page, % of a core",
    "holdfast p50/p99": percent.toFixed(2),
    "gateway alone": ((alone / IDLE_MS) * 100).toFixed(2),
  };
}

async function gatewayCpu(forMs) {
  const before = cpuMs(status.pid);
  await sleep(forMs);
  return cpuMs(status.pid) - before;
}

function cpuMs(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const [user, system] = text
    .slice(text.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 13);
  return (Number(user) + Number(system)) * TICK_MS;
}

/**
 * Changes of the shown document while many runs print, in frames per second that showed one. Each run records every five
 * seconds that it prints, so the runs are started over that time: those that start together also record together.
 */
async function updates() {
  const ids = [];
  for (let begun = 0; begun < printing; begun++) {
    ids.push(...(await startRuns(1, "while :; do echo line; sleep 0.1; done")));
    await sleep(PRINT_MS / printing);
  }
  const { page, context } = await openPage();
  await sleep(PRINT_MS);
  const shown = await page.evaluate(`new Promise((resolve) => {
    let frames = 0;
    let changed = false;
    const observer = new MutationObserver(() => (changed = true));
    observer.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
    const began = performance.now();
    const next = (now) => {
      if (changed) frames++;
      changed = false;
      if (now - began < ${PRINT_MS}) return void requestAnimationFrame(next);
      observer.disconnect();
      resolve((frames * 1000) / (now - began));
    };
    requestAnimationFrame(next);
  })`);
  const cpu = await gatewayCpu(PRINT_MS);
  await context.close();
  await Promise.all(ids.map((runId) => client.kill({ params: { runId } })));
  return {
    measured: `dashboard while ${printing} runs print: updates per second`,
    "holdfast p50/p99": shown.toFixed(1),
    "gateway CPU, % of a core": ((cpu / PRINT_MS) * 100).toFixed(0),
  };
}
