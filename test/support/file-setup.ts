import { chmodSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { afterAll, beforeEach, vi } from "vitest";
import { findByPath, signalProcess } from "./live-processes.js";
import { waitFor } from "./wait-for.js";

/**
 * Separates the test files that share a worker process. Each has a temporary directory of its own; at its end the
 * processes that name this directory are killed and the directory is removed, also after a test that timed out.
 * Environment, working directory, timers and stubs are restored. Modules stay loaded: a module in test/support must not
 * register hooks or create files when it is imported.
 */
// A short name: the path of a socket has at most 107 bytes.
const directory = join(process.env["SUITE_TMPDIR"] ?? "", String(process.pid));
const before = { env: { ...process.env }, cwd: process.cwd() };
// A file whose tests are all skipped has not removed it.
rmSync(directory, { recursive: true, force: true });
mkdirSync(directory);
chmodSync(directory, 0o1777);
process.env["TMPDIR"] = directory;

/** A warning of Node (a listener leak, a deprecated call, a timer overflow) fails the file in which it appears. */
const warnings: Error[] = [];
const onWarning = (warning: Error): number => warnings.push(warning);
process.on("warning", onWarning);

let failed = false;
beforeEach(({ onTestFailed }) => {
  onTestFailed(() => {
    failed = true;
  });
});

afterAll(async () => {
  // Warnings are emitted on the next tick.
  await setImmediate();
  process.off("warning", onWarning);
  process.chdir(before.cwd);
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.unstubAllEnvs();
  const left = await endProcesses();
  for (const name of Object.keys(process.env)) if (!(name in before.env)) delete process.env[name];
  Object.assign(process.env, before.env);
  rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  if (warnings.length > 0)
    throw new AggregateError(
      warnings,
      warnings.map((warning) => `${warning.name}: ${warning.message}`).join("\n"),
    );
  if (left.length > 0 && !failed) throw new Error(`still alive after this file:\n${left.join("\n")}`);
});

/** Returns the command lines of the processes that had to be killed. */
async function endProcesses(): Promise<string[]> {
  const areGone = (): boolean => findByPath(directory).length === 0;
  if (await waitFor(areGone, 3_000).catch(() => false)) return [];
  const left = findByPath(directory).map(({ pid, argv }) => `${pid} ${argv.join(" ")}`);
  await waitFor("killed processes are gone", () => {
    for (const one of findByPath(directory)) signalProcess(one, "SIGKILL");
    return areGone();
  });
  return left;
}
