import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";
import type { Problem, Run, Supervisor, SupervisorOptions } from "../../../src/supervisor/api.js";
import type { FollowOptions } from "../../../src/supervisor/check-options.js";
import { openSupervisor } from "../../../src/supervisor/open.js";
import { removeStateDirectory } from "../temporary-directory.js";

const projectRoot = fileURLToPath(new URL("../../..", import.meta.url));

export async function temporaryHome(): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "hf-"));
  onTestFinished(() => removeStateDirectory(home));
  return home;
}

/** A supervisor with real anchors. It is closed at the end of the test, and a reported problem fails the test. */
export async function realSupervisor(options: SupervisorOptions = {}): Promise<Supervisor> {
  const problems: Problem[] = [];
  const home = options.home ?? (await temporaryHome());
  const supervisor = await openSupervisor({
    onProblem: (problem) => problems.push(problem),
    ...options,
    home,
  });
  onTestFinished(async () => {
    await supervisor.close();
    if (problems.length > 0)
      throw new AggregateError(problems, problems.map(({ message }) => message).join("\n"));
  });
  return supervisor;
}

export function shellInput(script: string): { io: "pipe"; argv: string[] } {
  return { io: "pipe", argv: ["/bin/sh", "-c", script] };
}

export async function readOutput(
  run: Run,
  options?: FollowOptions,
): Promise<{ stdout: string; stderr: string }> {
  const parts: { stdout: Uint8Array[]; stderr: Uint8Array[] } = { stdout: [], stderr: [] };
  for await (const { stream, bytes } of run.follow(options)) parts[stream].push(bytes);
  return { stdout: Buffer.concat(parts.stdout).toString(), stderr: Buffer.concat(parts.stderr).toString() };
}

/** Resolves once the run has printed `text`. */
export async function waitForOutput(run: Run, text: string): Promise<void> {
  let seen = "";
  for await (const { bytes } of run.follow({ streams: ["stdout"] })) {
    seen += Buffer.from(bytes).toString();
    if (seen.includes(text)) return;
  }
  throw new Error(`ended without printing ${text}: ${seen}`);
}

/** Processes with the run's environment marker. */
export async function findProcessesOfRun(runId: string): Promise<number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const marked = await Promise.all(
    pids.map(async (pid) => {
      const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
      return environment.split("\0").includes(`HOLDFAST_RUN_ID=${runId}`) ? [Number(pid)] : [];
    }),
  );
  return marked.flat();
}

/** A bystander with the same command line as the run's processes. It must survive the test. */
export function plantLookalike(command: string, ...args: string[]): ChildProcess {
  const bystander = spawn(command, args, { stdio: "ignore" });
  onTestFinished(() => {
    if (bystander.exitCode !== null || bystander.signalCode !== null)
      throw new Error("the bystander did not survive");
    bystander.kill("SIGKILL");
  });
  return bystander;
}

/** Compiles the supervisor for child processes. */
export async function buildSupervisor(): Promise<string> {
  await mkdir(join(projectRoot, "build"), { recursive: true });
  const path = await mkdtemp(join(projectRoot, "build", "supervisor-"));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  const compilerOptions = { noEmit: false, outDir: path, rootDir: join(projectRoot, "src") };
  const include = [join(projectRoot, "src/supervisor/open.ts")];
  await writeFile(
    join(path, "tsconfig.json"),
    JSON.stringify({ extends: join(projectRoot, "tsconfig.json"), compilerOptions, include }),
  );
  await promisify(execFile)(process.execPath, [
    join(projectRoot, "node_modules/typescript/bin/tsc"),
    "-p",
    path,
  ]);
  return join(path, "supervisor/open.js");
}

/** A process that supervises one run until it is killed (see `children/supervise.mjs`). */
export async function startOneRunSupervisor(
  open: string,
  home: string,
  instanceId: string,
  script: string,
): Promise<{ runId: string; kill(): Promise<void> }> {
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL("children/supervise.mjs", import.meta.url)), open, home, instanceId, script],
    {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, HOLDFAST_ANCHOR: join(projectRoot, "build/anchor") },
    },
  );
  const exited = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const runId = await new Promise<string>((resolve, reject) => {
    child.stdout.once("data", (line: Buffer) => resolve(line.toString().trim()));
    child.once("close", () => reject(new Error("the supervising process ended by itself")));
  });
  return {
    runId,
    kill: async () => {
      child.kill("SIGKILL");
      await exited;
    },
  };
}
