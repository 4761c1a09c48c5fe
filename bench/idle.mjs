// 500 concurrent idle runs: the time to start and to end them, and the memory of each besides its command.
import { readdir, readFile } from "node:fs/promises";
import { withSupervisor } from "./measure.mjs";

const count = Number(process.argv[2] ?? 500);

/** Proportional set size and private memory, in kB, of every anchor of this instance. */
async function anchorMemory(instanceId) {
  const sums = { anchors: 0, pss: 0, private: 0 };
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const words = (await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")).split("\0");
    if (words[1] !== "run" || !words.some((word) => word.includes(instanceId))) continue;
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "utf8").catch(() => "");
    const kb = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(rollup)?.[1] ?? 0);
    sums.anchors++;
    sums.pss += kb("Pss");
    sums.private += kb("Private_Dirty") + kb("Private_Clean");
  }
  return sums;
}

await withSupervisor(async (supervisor) => {
  const before = process.memoryUsage().rss;
  let began = performance.now();
  const runs = await Promise.all(
    Array.from({ length: count }, () => supervisor.spawn({ io: "pipe", argv: ["/bin/sleep", "1000"] })),
  );
  const startMs = performance.now() - began;
  const memory = await anchorMemory(supervisor.instanceId);
  const nodeKb = (process.memoryUsage().rss - before) / 1024;
  began = performance.now();
  await Promise.all(runs.map((run) => run.cancel()));
  const records = await Promise.all(runs.map((run) => run.wait()));
  const stopMs = performance.now() - began;
  if (memory.anchors !== count || records.some(({ emptiness }) => emptiness !== "proven"))
    throw new Error("not all runs were there, or gone");
  console.log(
    JSON.stringify([
      { measured: `${count} concurrent runs: start all, ms`, "holdfast p50/p99": startMs.toFixed(0) },
      {
        measured: `${count} concurrent runs: cancel all to last record, ms`,
        "holdfast p50/p99": stopMs.toFixed(0),
      },
      {
        measured: "anchor per idle run, kB (proportional)",
        "holdfast p50/p99": (memory.pss / count).toFixed(0),
      },
      {
        measured: "anchor per idle run, kB (private)",
        "holdfast p50/p99": (memory.private / count).toFixed(0),
      },
      {
        measured: "supervisor per idle run, kB (growth of Node)",
        "holdfast p50/p99": (nodeKb / count).toFixed(0),
      },
    ]),
  );
});
