import { resolve } from "node:path";
import { describeSurvivor } from "../../model/process.js";
import type { GatewayClient, GatewayError } from "../../api/client.js";
import type { RequestOf, ResponseOf } from "../../api/contract.js";
import { BadInput, GatewayUnreachable, LimitUnavailable, SpawnFailed } from "../../errors.js";
import { environmentOutsideRuns } from "../../gateway/start-in-background.js";
import type { CommandInput, SpawnOptions } from "../../supervisor/api.js";
import { sanitizeLine, sanitizeText } from "../../text/sanitize.js";
import { connectOrStart, hasErrorCode } from "../client/connect.js";
import { sessionToken } from "../client/requester.js";
import { formatDuration } from "../../text/format-units.js";
import { exitCodes, runExitCode, spawnErrorCode } from "../print/exit-code.js";
import { runStatusText } from "../print/run-status.js";
import { notice, writeStderr } from "../print/errors-and-notices.js";
import { printRequired, toJson } from "../print/write-output.js";
import { interruptExitCode, type InterruptSignal, onInterruptSignals } from "./interrupt-signals.js";

/** The request for a command with the environment, directory and umask of this process. */
export function execRequestBody(input: CommandInput, options: SpawnOptions): RequestOf<"exec">["body"] {
  const { umask, labels = {}, env = {}, allowEnv = [], graceMs, onEscape, limits, merge = false } = options;
  return {
    ...("argv" in input ? { argv: [...input.argv] } : { command: input.ptyCommand }),
    pty: input.io === "pty",
    environment: options.clearEnv === true ? {} : environmentOutsideRuns(),
    env: { ...env },
    allowEnv: [...allowEnv],
    cwd: absoluteCwd(options.cwd),
    ...(umask === undefined ? {} : { umask }),
    labels: { ...labels },
    timeoutMs: options.timeoutMs ?? 0,
    noOutputTimeoutMs: options.noOutputTimeoutMs ?? 0,
    ...(graceMs === undefined ? {} : { graceMs }),
    ...(onEscape === undefined ? {} : { onEscape }),
    ...(limits === undefined ? {} : { limits }),
    merge,
    maxChars: 0,
  };
}

/** Absolute: the gateway has another directory. */
function absoluteCwd(cwd: string | undefined): string {
  if (cwd === "")
    throw new BadInput("cwd", "the working directory is empty; leave it out for the current one");
  try {
    return resolve(cwd ?? ".");
  } catch (error) {
    throw new BadInput("cwd", `the current directory is gone (${(error as Error).message}); use --cwd`);
  }
}

/** Turns a gateway's error about a failed start into SpawnFailed; returns other errors unchanged. */
export function toSpawnFailed(error: unknown): unknown {
  if (!hasErrorCode(error, "SPAWN_FAILED", "LIMIT_UNAVAILABLE")) return error;
  const { code, message, fields } = error as GatewayError;
  const { runId, errno, step } = fields as { runId: string; errno: number; step: string };
  const Failure = code === "LIMIT_UNAVAILABLE" ? LimitUnavailable : SpawnFailed;
  return new Failure(runId, errno, step, message);
}

const APPROVAL_NOTICE_MS = 2_000;

/** Prints a notice if the command of a session waits long, which may be for an approval. */
export function noticeIfWaitingForApproval(report: (message: string) => void): Disposable | null {
  if (sessionToken() === null) return null;
  const waiting = "waiting for approval; the operator sees the request with `holdfast approvals list`";
  const timer = setTimeout(() => report(waiting), APPROVAL_NOTICE_MS);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}

/** Starts a command in the background and prints its run id. */
export async function runDetached(
  input: CommandInput,
  options: SpawnOptions,
  notification: Pick<RequestOf<"exec">["body"], "notify" | "origin" | "deliver">,
  json: boolean,
): Promise<number> {
  const { client } = await connectOrStart();
  const answer = await client.exec({ body: { ...detachedExecBody(input, options), ...notification } });
  printStarted(answer.run, json);
  return startExitCode(answer);
}

/** Prints the id or the record of a run that continues: a failed write is an error, since the id would be lost. */
function printStarted(run: ResponseOf<"exec">["run"], json: boolean, more = ""): void {
  printRequired(
    json ? toJson(run) : `${run.runId}${more}\n`,
    `${run.runId} was started, but its id could not be written`,
  );
}

/** The request for a background command. */
function detachedExecBody(input: CommandInput, options: SpawnOptions): RequestOf<"exec">["body"] {
  return {
    ...execRequestBody(input, options),
    stdin: input.io === "pty" ? "pipe" : "null",
    background: true,
  };
}

/** Reports why a run could not be started. 0: it was started. */
export function startExitCode({ run, failure }: ResponseOf<"exec">): number {
  if (failure === null) return 0;
  if (run.exit !== null) notice(run.exit.detail ?? failure, "red");
  // The record does not show whether the directory or the command is missing.
  if (failure === "cwd-not-found") return exitCodes.usage;
  return run.exit?.reason === "spawn-error" ? spawnErrorCode(run.exit.errno, "exec") : exitCodes.failure;
}

interface RunServiceRequest {
  readonly input: CommandInput;
  readonly options: SpawnOptions;
  /** Null: the command does not wait until the service is ready. */
  readonly port: number | null;
  readonly readyTimeoutMs: number;
  readonly json: boolean;
}

/** Starts a service; with a port, waits until it listens there. Prints its id, and the port. */
export async function runService(request: RunServiceRequest): Promise<number> {
  const { input, options, port, readyTimeoutMs, json } = request;
  const { client } = await connectOrStart();
  const body = detachedExecBody(input, options);
  const answer = await client.exec({
    body: { ...body, kind: "service", ...(port === null ? {} : { port }) },
  });
  if (answer.failure !== null || port === null) {
    printStarted(answer.run, json);
    return startExitCode(answer);
  }
  const { runId } = answer.run;
  const interrupted = new AbortController();
  using _signals = onInterruptSignals((signal) => interrupted.abort(signal));
  try {
    const found = await client.ready(
      { params: { runId }, body: { timeoutMs: readyTimeoutMs, orStop: true } },
      interrupted.signal,
    );
    if (json) printStarted(found.run, json);
    if (found.readiness.state !== "ready") await printLastOutput(client, runId);
    return reportReadiness(found, port, readyTimeoutMs, json);
  } catch (error) {
    if (interrupted.signal.aborted)
      return await stopUnready(client, runId, interrupted.signal.reason as InterruptSignal);
    if (error instanceof GatewayUnreachable)
      notice(`service ${runId} was started and continues; whether it became ready is not known`, "yellow");
    throw error;
  }
}

function reportReadiness(
  { run, readiness }: ResponseOf<"ready">,
  port: number,
  timeoutMs: number,
  json: boolean,
): number {
  const why = readiness.detail === null ? "" : `: ${readiness.detail}`;
  switch (readiness.state) {
    case "ready":
      if (!json) printStarted(run, json, ` ${port}`);
      return 0;
    case "ended":
      notice(`${run.runId} ended (${runStatusText(run)}) before it listened on port ${port}${why}`, "red");
      // A service that ends with 0 before it is ready has failed all the same.
      return runExitCode(run) || exitCodes.notReady;
    case "timeout":
      notice(
        `${run.runId} did not listen on port ${port} within ${formatDuration(timeoutMs)} and was stopped${why}`,
        "red",
      );
      return exitCodes.timeout;
    case "given-up":
      notice(`the gateway stopped waiting for ${run.runId} before it was ready; it continues`, "yellow");
      return exitCodes.failure;
  }
}

/** Lines of each stream that are shown of a service that failed to start. */
const LAST_LINES = 20;

/** Writes the end of a run's output to stderr. */
async function printLastOutput(client: GatewayClient, runId: string): Promise<void> {
  for (const stream of ["stdout", "stderr"] as const) {
    const query = { stream, lines: LAST_LINES };
    const page = await client.log({ params: { runId }, query }).catch(() => null);
    const text = sanitizeText(page?.text ?? "").trimEnd();
    if (text === "") continue;
    notice(`last lines of ${stream}:`, "dim");
    writeStderr(`${text}\n`);
  }
}

async function stopUnready(client: GatewayClient, runId: string, by: InterruptSignal): Promise<number> {
  const { outcome, survivors } = await client.kill({ params: { runId }, body: {} });
  if (outcome === "survivors")
    notice(
      `${runId} was stopped, but ${survivors.map((each) => sanitizeLine(describeSurvivor(each))).join(", ")} could not be killed`,
      "red",
    );
  else notice(`${runId} was stopped before it was ready`, "yellow");
  return interruptExitCode(by);
}
