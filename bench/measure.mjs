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

/** The calls alternate, so that noise affects all of them. Milliseconds of each. */
export async function inTurns(times, ...calls) {
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

export function compare(measured, ours, against, theirs) {
  const cell = (values) => `${quantile(values, 0.5).toFixed(2)} / ${quantile(values, 0.99).toFixed(2)}`;
  return {
    measured,
    "holdfast p50/p99": cell(ours),
    against,
    "its p50/p99": cell(theirs),
    "ratio p50": (quantile(ours, 0.5) / quantile(theirs, 0.5)).toFixed(2),
  };
}

/** A table of objects with text: a column for each field that one of them has. */
export function formatRows(rows) {
  const columns = [...new Set(rows.flatMap((each) => Object.keys(each)))];
  const lines = [columns, ...rows.map((each) => columns.map((column) => String(each[column] ?? "")))];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => line[at].length)));
  const format = (line) =>
    line
      .map((cell, at) => cell.padEnd(widths[at]))
      .join("  ")
      .trimEnd();
  return lines.map(format).join("\n");
}

/** Calls `work` with each number below `count`, 32 at a time. */
export async function atOnce(count, work) {
  let next = 0;
  const worker = async () => {
    for (let n = next++; n < count; n = next++) await work(n);
  };
  await Promise.all(Array.from({ length: 32 }, worker));
}
