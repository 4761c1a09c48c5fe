// `npm test`: build, check, then vitest, where possible in a PID namespace of its own, so that /proc shows every process
// that outlives the suite.
//
// Usage: npm test [-- <vitest arguments>]     e.g. npm test -- test/store
//        npm run test:fast                    type check, lint, unit and contract tests, without a build
//        npm run test:soak                    the same with HOLDFAST_SOAK=1: larger counts
//
// A run fails if it leaves a process, a temporary directory, or a file in the checkout.
// The last line is always "N passed, N failed, N skipped".

import { spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { commandInNamespace, findNamespace } from "./namespace.mjs";
import { npm } from "./npm.mjs";

/** A launcher ends within milliseconds of its last anchor and supervisor; this is for a loaded machine. */
const settleMs = 3_000;

const script = fileURLToPath(import.meta.url);
const given = process.argv.slice(2);
const inside = given[0] === "--inside";
const soak = given.includes("--soak");
const fast = given.includes("--fast");
const vitestArguments = given.filter((argument) => !["--inside", "--soak", "--fast"].includes(argument));
if (fast && !inside) vitestArguments.push("--project=unit");

process.chdir(join(script, "../.."));
process.exitCode = inside ? await runVitest() : await buildCheckAndTest();

async function buildCheckAndTest() {
  for (const step of fast ? ["check"] : ["build", "check"]) {
    const { status } = npm(["run", "--silent", step]);
    if (status !== 0)
      return report({ passed: 0, failed: 0, skipped: 0 }, [`npm run ${step} failed; no test was run`]);
  }
  const namespace = findNamespace();
  const env = { ...process.env };
  // The suite may itself be run under Holdfast, or by someone with a state directory of their own.
  for (const name of Object.keys(env))
    if (/^HOLDFAST_(?!SOAK$|SIM_SEED$|ANCHOR_WEAKEN$)/.test(name)) delete env[name];
  env.HOLDFAST_TEST_NAMESPACE = namespace.name;
  env.SUITE_MARKER = randomUUID();
  if (soak) env.HOLDFAST_SOAK = "1";
  // Unit tests compute: a worker for each core.
  if (fast) env.SUITE_WORKERS = String(availableParallelism());
  const inner = [process.execPath, script, "--inside", ...vitestArguments];
  const [command, ...rest] = commandInNamespace(namespace, inner);
  if (namespace.unshare === null)
    console.log("no PID namespace is available: survivors are found by an environment marker instead");
  const child = spawn(command, rest, { stdio: "inherit", env });
  // Ctrl-C reaches the whole group; vitest stops by itself and the count is still printed. unshare ignores SIGTERM, and
  // ends everything in its namespace when it is killed.
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => child.kill(namespace.unshare === null ? "SIGTERM" : "SIGKILL"));
  const { promise, resolve } = withResolvers();
  child.on("error", (error) => {
    console.error(String(error));
    resolve(1);
  });
  child.on("exit", (code) => resolve(code ?? 1));
  return promise;
}

async function runVitest() {
  // A short name: tests put sockets into it.
  const directory = mkdtempSync(join(tmpdir(), "hf-"));
  chmodSync(directory, 0o755);
  const results = join(directory, "results.json");
  const filesBefore = listNewFiles();
  const child = spawn(
    process.execPath,
    [
      "node_modules/vitest/vitest.mjs",
      "run",
      "--reporter=default",
      "--reporter=json",
      `--outputFile.json=${results}`,
      ...vitestArguments,
    ],
    { stdio: "inherit", env: { ...process.env, SUITE_TMPDIR: directory, TMPDIR: directory } },
  );
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
  const { promise, resolve } = withResolvers();
  child.on("exit", (code) => resolve(code ?? 1));
  const code = await promise;
  const survivors = await waitForSurvivors();
  const problems = survivors.map((survivor) => `still alive after the suite: ${survivor}`);
  const counts = countTests(results, problems);
  // Some programs keep a cache there, which they would keep in /tmp otherwise.
  const known = new Set(["results.json", "pg", "node-compile-cache"]);
  const left = [
    ...readdirSync(directory)
      .filter((name) => !known.has(name))
      .map((name) => join(directory, name)),
    ...listNewFiles().filter((line) => !filesBefore.includes(line)),
  ];
  problems.push(...left.map((path) => `left behind by the suite: ${path}`));
  rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  if (code !== 0 && counts.failed === 0) problems.push(`vitest ended with ${code} although no test failed`);
  if (survivors.length + left.length > 0) counts.failed += 1;
  return report(counts, problems);
}

/** Files of the checkout that git does not know or finds changed. */
function listNewFiles() {
  const { status, stdout } = spawnSync("git", ["status", "--porcelain"], { encoding: "utf8" });
  return status === 0 ? stdout.split("\n").filter(Boolean) : [];
}

function report(counts, problems) {
  for (const problem of problems) console.error(problem);
  console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  return problems.length > 0 || counts.failed > 0 ? 1 : 0;
}

function countTests(file, problems) {
  if (!existsSync(file)) {
    problems.push("vitest left no results");
    return { passed: 0, failed: 0, skipped: 0 };
  }
  const results = JSON.parse(readFileSync(file, "utf8"));
  // A file that could not be loaded has no tests and counts as one failure.
  const unloaded = results.testResults.filter(
    (one) => one.status === "failed" && one.assertionResults.length === 0,
  );
  return {
    passed: results.numPassedTests,
    failed: results.numFailedTests + unloaded.length,
    skipped: results.numPendingTests + results.numTodoTests,
  };
}

async function waitForSurvivors() {
  const deadline = performance.now() + settleMs;
  for (;;) {
    const survivors = findSurvivors();
    if (survivors.length === 0 || performance.now() > deadline) return survivors;
    await sleep(50);
  }
}

function findSurvivors() {
  if (process.platform !== "linux") return [];
  const wholeNamespace = process.env.HOLDFAST_TEST_NAMESPACE !== "none";
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && name !== "1" && name !== String(process.pid))
    .map((pid) => describe(pid, wholeNamespace))
    .filter((line) => line !== null);
}

function describe(pid, wholeNamespace) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // A zombie of PID 1 is being reaped; one of a survivor is named by its parent.
    if (state === "Z") return null;
    if (!wholeNamespace && Number(pid) === process.ppid) return null;
    if (
      !wholeNamespace &&
      !readFileSync(`/proc/${pid}/environ`, "latin1").includes(`SUITE_MARKER=${process.env.SUITE_MARKER}`)
    )
      return null;
    const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
    return `pid ${pid} (parent ${parent}, state ${state}): ${command || stat.slice(stat.indexOf("("), stat.lastIndexOf(")") + 1)}`;
  } catch {
    return null; // Ended meanwhile, or of another user.
  }
}

function withResolvers() {
  let resolve;
  const promise = new Promise((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
