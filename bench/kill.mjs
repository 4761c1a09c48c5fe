// KILL to terminal record, for trees of 1, 100 and 1000 processes; per process in the last column.
import { quantile, withSupervisor } from "./measure.mjs";

const rounds = { 1: 30, 100: 10, 1000: 5 };

async function untilPrinted(run, text) {
  let seen = "";
  for await (const { bytes } of run.follow()) {
    seen += Buffer.from(bytes).toString();
    if (seen.includes(text)) return;
  }
}

async function killTimes(supervisor, size, times) {
  const script = `i=1; while [ $i -lt ${size} ]; do sleep 1000 & i=$((i+1)); done; echo ready; exec sleep 1000`;
  for (let i = 0; i < rounds[size]; i++) {
    const run = await supervisor.spawn({ io: "pipe", argv: ["/bin/sh", "-c", script] });
    await untilPrinted(run, "ready");
    const began = performance.now();
    await run.cancel({ graceMs: 0 });
    await run.wait();
    times.push(performance.now() - began);
  }
}

const rows = [];
for (const weaken of ["", "cgroup"]) {
  process.env.HOLDFAST_ANCHOR_WEAKEN = weaken;
  await withSupervisor(async (supervisor) => {
    for (const size of [1, 100, 1000]) {
      const times = [];
      await killTimes(supervisor, size, times);
      const p50 = quantile(times, 0.5);
      rows.push({
        measured: `KILL to terminal record, ms (${size} processes, ${weaken === "" ? "best tier" : "no cgroup"})`,
        "holdfast p50/p99": `${p50.toFixed(2)} / ${quantile(times, 0.99).toFixed(2)}`,
        "per process, ms": (p50 / size).toFixed(3),
      });
    }
  });
}
console.log(JSON.stringify(rows));
