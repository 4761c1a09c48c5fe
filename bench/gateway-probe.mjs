// Loaded into a gateway with NODE_OPTIONS=--import: answers each connection to the socket HOLDFAST_BENCH_PROBE with
// event-loop delay and CPU time since the connection before, and the memory now.
import { createServer } from "node:net";
import { monitorEventLoopDelay } from "node:perf_hooks";

const path = process.env.HOLDFAST_BENCH_PROBE;
// Only in the gateway: its runs inherit its environment.
delete process.env.HOLDFAST_BENCH_PROBE;
delete process.env.NODE_OPTIONS;

if (path !== undefined) {
  const resolutionMs = 1;
  const delay = monitorEventLoopDelay({ resolution: resolutionMs });
  delay.enable();
  let cpu = process.cpuUsage();
  createServer((socket) => {
    const used = process.cpuUsage(cpu);
    cpu = process.cpuUsage();
    // The histogram has the timer's interval in each value.
    const ms = (value) => Math.max(0, value / 1e6 - resolutionMs);
    const loopMs = { p50: ms(delay.percentile(50)), p99: ms(delay.percentile(99)), max: ms(delay.max) };
    delay.reset();
    const { rss, heapUsed } = process.memoryUsage();
    socket.on("error", () => undefined);
    socket.end(JSON.stringify({ loopMs, cpuMs: (used.user + used.system) / 1_000, rss, heapUsed }));
  })
    .listen(path)
    .unref();
}
