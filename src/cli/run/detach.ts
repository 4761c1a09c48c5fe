import { constants } from "node:os";
import { describeSurvivor } from "../../anchor/inspect/liveness.js";
import type { GatewayClient } from "../../api/client.js";
import type { RequestOf, ResponseOf } from "../../api/contract.js";
import { GatewayUnreachable } from "../../errors.js";
import type { CommandInput, SpawnOptions } from "../../supervisor/api.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { connectOrStart } from "../client/connect.js";
import { execRequestBody } from "../client/exec-request.js";
import { formatDuration } from "../options/units.js";
import { exitCodes, runExitCode, spawnErrorCode } from "../print/exit-code.js";
import { runStatusText } from "../print/run-status.js";
import { notice } from "../print/stderr.js";
import { printRequired, toJson } from "../print/stdout.js";

/** Hand a command to the gateway and leave. Prints the run's id. */
export async function runDetached(
  input: CommandInput,
  options: SpawnOptions,
  tell: Pick<RequestOf<"exec">["body"], "notify" | "origin">,
  json: boolean,
): Promise<number> {
  const { client } = await connectOrStart();
  const answer = await client.exec({ body: { ...detachedExecBody(input, options), ...tell } });
  printStarted(answer.run, json);
  return startExitCode(answer);
}

/** Its id or its record: it goes on, and whoever does not learn its name has lost it. */
export function printStarted(run: ResponseOf<"exec">["run"], json: boolean, more = ""): void {
  printRequired(
    json ? toJson(run) : `${run.runId}${more}\n`,
    `${run.runId} was started, but its id could not be written`,
  );
}

/** A command for the gateway, to go on in the background. */
export function detachedExecBody(input: CommandInput, options: SpawnOptions): RequestOf<"exec">["body"] {
  return {
    ...execRequestBody(input, options),
    stdin: input.io === "pty" ? "pipe" : "null",
    background: true,
  };
}

/** Says why it could not be started. 0: it was. */
export function startExitCode({ run, failure }: ResponseOf<"exec">): number {
  if (failure === null) return 0;
  if (run.exit !== null) notice(run.exit.detail ?? failure, "red");
  // Its record does not tell whether the directory was missing or the command.
  if (failure === "cwd-not-found") return exitCodes.failure;
  return run.exit?.reason === "spawn-error" ? spawnErrorCode(run.exit.errno, "exec") : exitCodes.failure;
}

export interface RunServiceRequest {
  readonly input: CommandInput;
  readonly options: SpawnOptions;
  /** Null: it is not waited for. */
  readonly port: number | null;
  readonly readyTimeoutMs: number;
  readonly json: boolean;
}

/** Hand a service to the gateway; with a port, wait until it listens there. Prints its id, and the port. */
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
  using interrupted = new AbortOnSignal();
  try {
    const found = await client.ready(
      { params: { runId }, body: { timeoutMs: readyTimeoutMs, orStop: true } },
      interrupted.abortSignal,
    );
    if (json) printStarted(found.run, json);
    return reportReadiness(found, port, readyTimeoutMs, json);
  } catch (error) {
    if (interrupted.received !== null) return await stopUnready(client, runId, interrupted.received);
    if (error instanceof GatewayUnreachable)
      notice(`service ${runId} was started and goes on; whether it became ready is not known`, "yellow");
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
      // One that ended well never was the service that was asked for.
      return runExitCode(run) || exitCodes.failure;
    case "timeout":
      notice(
        `${run.runId} did not listen on port ${port} within ${formatDuration(timeoutMs)}, and was stopped${why}`,
        "red",
      );
      return exitCodes.timeout;
    case "given-up":
      notice(`the gateway let go of ${run.runId} before it was ready; it goes on`, "yellow");
      return exitCodes.failure;
  }
}

async function stopUnready(client: GatewayClient, runId: string, by: Signal): Promise<number> {
  const { outcome, survivors } = await client.kill({ params: { runId }, body: {} });
  if (outcome === "survivors")
    notice(
      `${runId} was stopped, but ${survivors.map((each) => sanitizeLine(describeSurvivor(each))).join(", ")} would not go`,
      "red",
    );
  else notice(`${runId} was stopped before it was ready`, "yellow");
  return exitCodes.signal + constants.signals[by];
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
type Signal = (typeof SIGNALS)[number];

/** While it is held, a signal aborts what is waited for instead of ending this process. */
class AbortOnSignal implements Disposable {
  readonly #controller = new AbortController();
  readonly #onSignal = (signal: NodeJS.Signals): void => {
    this.received ??= signal as Signal;
    this.#controller.abort();
  };
  received: Signal | null = null;

  constructor() {
    for (const signal of SIGNALS) process.on(signal, this.#onSignal);
  }

  get abortSignal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    for (const signal of SIGNALS) process.off(signal, this.#onSignal);
  }
}
