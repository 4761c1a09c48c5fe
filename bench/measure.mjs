import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSupervisor } from "../dist/index.js";

export function quantile(values, q) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}

/** Runs `work` with a supervisor in its own state directory. */
export async function withSupervisor(work, options = {}) {
  const home = await mkdtemp(join(tmpdir(), "hf-"));
  const supervisor = await openSupervisor({ home, ...options });
  try {
    return await work(supervisor);
  } finally {
    await supervisor.close();
    await rm(home, { recursive: true, force: true });
  }
}

/** Calls of `ours` and `theirs` alternate, so that noise affects both. Milliseconds per call. */
export async function sideBySide(count, ours, theirs) {
  const samples = { ours: [], theirs: [], oursLoop: [], theirsLoop: [] };
  for (let i = 0; i < count; i++) {
    await sample(ours, samples.ours, samples.oursLoop);
    await sample(theirs, samples.theirs, samples.theirsLoop);
  }
  return samples;
}

/** Elapsed time, and the busy time of the event loop. */
async function sample(call, times, busy) {
  await new Promise(setImmediate);
  const before = performance.eventLoopUtilization();
  const began = performance.now();
  await call();
  times.push(performance.now() - began);
  busy.push(performance.eventLoopUtilization(before).active);
}

export function row(name, ours, theirs, digits = 2) {
  const cell = (values) =>
    `${quantile(values, 0.5).toFixed(digits)} / ${quantile(values, 0.99).toFixed(digits)}`;
  return {
    measured: name,
    "holdfast p50/p99": cell(ours),
    "bare p50/p99": cell(theirs),
    "ratio p50": (quantile(ours, 0.5) / quantile(theirs, 0.5)).toFixed(2),
  };
}
