import { spawn } from "node:child_process";
import { closeSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { ResponseOf } from "../api/contract.js";
import { defaults } from "../defaults.js";
import { GatewayUnreachable } from "../errors.js";
import { openOwnFileForWriting, readOwnFileSync } from "../home/own-file.js";
import { describeWaitingGateway, findLockedInstance, findWaitingGateway } from "./gateway-files.js";
import { describeUnreachable, locateGateway, reachGateway } from "./locate-gateway.js";

/** The entry point of the command line. */
export const CLI_MAIN = fileURLToPath(new URL("../cli/main.js", import.meta.url));

/** The command that executes Node for a gateway in the background. */
const NODE = [process.execPath, `--max-semi-space-size=${defaults.gatewaySemiSpaceMb}`];

/** Part of the error message of a second gateway. */
const ALREADY_RUNNING = "already running";

/** Variables that mark the processes of a run. A gateway does not belong to the run that starts it. */
const RUN_VARIABLES = /^HOLDFAST_(LEASE_ID|RUN_ID|SESSION_KEY|GATEWAY_INSTANCE_ID|TOKEN)$/;

/** The environment without the markers of a run. */
export function environmentOutsideRuns(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      value === undefined || RUN_VARIABLES.test(name) ? [] : [[name, value] as const],
    ),
  );
}

export interface StartResult {
  readonly status: ResponseOf<"status">;
  /** False: a gateway was running, or another process started one first. */
  readonly started: boolean;
  /** It was started in a scope that ends, with all runs, when the user logs out. */
  readonly endsAtLogout: boolean;
}

/**
 * Starts a gateway in the background, or finds the running one, and waits until it is ready. Rejects with the error of its
 * log if it does not start.
 */
export async function startGateway(
  home: string,
  main = CLI_MAIN,
  readyMs: number = defaults.gatewayReadyMs,
  env: Readonly<Record<string, string>> = environmentOutsideRuns(),
): Promise<StartResult> {
  const until = performance.now() + readyMs;
  let ours: LaunchedGateway | null = null;
  for (;;) {
    const status = (await reachGateway(home))?.status;
    if (status?.ready === true) {
      const started = ours?.pid === status.pid;
      // Another process started a gateway first. Ours must not take over when that one is stopped on purpose.
      if (!started) ours?.terminate();
      return { status, started, endsAtLogout: started && ours?.endsAtLogout === true };
    }
    const waiting = status === undefined ? await findWaitingGateway(home) : null;
    if (waiting !== null) {
      // A waiting gateway continues when the store is back. Ours is stopped again unless it owns runs.
      if (ours?.pid !== waiting.pid || waiting.held > 0)
        throw new GatewayUnreachable(describeWaitingGateway(waiting));
      ours.terminate();
      throw new GatewayUnreachable(`the gateway did not start: ${waiting.why}`);
    }
    // A live gateway is waited for: it is starting, stopping, or about to create its socket again.
    if (status === undefined && ours === null && (await findLockedInstance(home)) === null)
      ours = await launchGateway(home, [...NODE, main, "gateway", "run", "--quiet"], env);
    const late = performance.now() > until;
    const ended = ours?.ended() ?? null;
    if (ended !== null || late) {
      // Without a launch of our own, the file is of an earlier one.
      const errors = ours === null ? "" : readOwnFileSync(errorFilePath(home)).trim();
      if (late || !errors.includes(ALREADY_RUNNING)) {
        const why = errors.replace(/^holdfast: /, "") || ended || (await whyNotReady(home));
        throw new GatewayUnreachable(`the gateway did not start: ${why}`);
      }
      // Another gateway is starting or stopping; the next poll shows which.
      ours = null;
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/**
 * Checks that a gateway could be started now: its program loads, and finds its configuration, store and anchor usable. Null:
 * it could; otherwise what is wrong and the exit code. Starts and changes nothing.
 */
export async function checkGateway(
  home: string,
  main = CLI_MAIN,
): Promise<{ readonly message: string; readonly code: number } | null> {
  const child = spawn(process.execPath, [main, "gateway", "run", "--check"], {
    stdio: ["ignore", "ignore", "pipe"],
    cwd: "/",
    windowsHide: true,
    env: { ...environmentOutsideRuns(), HOLDFAST_HOME: home },
    timeout: defaults.gatewayReadyMs,
    killSignal: "SIGKILL",
  });
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (part: string) => (errors += part));
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => {
    child.once("error", (error) => {
      errors = error.message;
      resolve([null, null]);
    });
    child.once("close", (status, by) => resolve([status, by]));
  });
  if (code === 0) return null;
  const how = signal === null ? `status ${code ?? "?"}` : signal;
  const message = errors.trim().replace(/^holdfast: /, "") || `its check ended with ${how}`;
  return { message, code: code ?? 125 };
}

/** Why a gateway that was already running is not ready. */
async function whyNotReady(home: string): Promise<string> {
  const found = await locateGateway(home);
  if (found.kind === "unreachable") return describeUnreachable(home, found.gateway);
  return found.kind === "answers" ? "the running gateway does not become ready" : "it does not answer";
}

interface LaunchedGateway {
  readonly endsAtLogout: boolean;
  readonly pid: number | undefined;
  /** How the process ended. Null: it has not. */
  readonly ended: () => string | null;
  readonly terminate: (signal?: NodeJS.Signals) => void;
}

/** Starts the gateway in a scope of the user's systemd manager if it needs one; if that fails, without. */
async function launchGateway(
  home: string,
  words: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<LaunchedGateway> {
  // Loaded only when needed: every command would wait for it.
  const { awaitScope, endsAtLogout, planScope, scopeCommand } = await import("./systemd-scope.js");
  const plan = await planScope(env);
  if (plan.kind === "not-needed") return spawnGateway(home, words, env);
  if (plan.kind === "none") return spawnGateway(home, words, { ...env, [NO_SCOPE]: plan.why });
  const scoped = spawnGateway(home, scopeCommand(words), env);
  const failure = await awaitScope(scoped);
  if (failure === null) return { ...scoped, endsAtLogout: await endsAtLogout() };
  scoped.terminate("SIGKILL");
  const why = `systemd-run: ${readOwnFileSync(errorFilePath(home)).trim() || failure}`;
  return spawnGateway(home, words, { ...env, [NO_SCOPE]: why });
}

/** For the tier note: why the gateway was started without a scope. */
const NO_SCOPE = "HOLDFAST_NO_SCOPE";

function spawnGateway(
  home: string,
  [command = "", ...args]: readonly string[],
  env: Readonly<Record<string, string>>,
): LaunchedGateway {
  const output = openOwnFileForWriting(errorFilePath(home), "truncate");
  const child = spawn(command, args, {
    detached: true,
    windowsHide: true,
    stdio: ["ignore", "ignore", output],
    cwd: "/",
    env: { ...env, HOLDFAST_HOME: home },
  });
  closeSync(output);
  let ended: string | null = null;
  child.once("error", (error) => (ended = error.message));
  child.once("exit", (code, signal) => (ended ??= `it ended with ${signal ?? `status ${code ?? "?"}`}`));
  child.unref();
  return {
    endsAtLogout: false,
    pid: child.pid,
    ended: () => ended,
    terminate: (signal) => void child.kill(signal),
  };
}

function errorFilePath(home: string): string {
  return `${home}/gateway.err`;
}

const POLL_MS = 20;
