import { sanitizeLine } from "../../output/sanitize.js";
import { leftText } from "../../anchor/seen.js";
import { constants } from "node:os";
import { GatewayUnreachable } from "../../errors.js";
import type { GatewayClient } from "../../gateway/client.js";
import type { AnswerOf } from "../../gateway/contract/contract.js";
import type { CommandInput, SpawnOptions } from "../../supervisor/api.js";
import { say } from "../complain.js";
import { formatDuration } from "../duration.js";
import { exitCode, exitCodes } from "../exit-code.js";
import { needGateway } from "../gateway/connect.js";
import { handedOver, printStarted, startedCode } from "../process/detach.js";
import { statusOf } from "../runs/status.js";

export interface ServiceRequest {
  readonly input: CommandInput;
  readonly options: SpawnOptions;
  /** Null: it is not waited for. */
  readonly port: number | null;
  readonly readyTimeoutMs: number;
  readonly json: boolean;
}

/** Hand a service to the gateway; with a port, wait until it listens there. Prints its id, and the port. */
export async function runService(request: ServiceRequest): Promise<number> {
  const { input, options, port, readyTimeoutMs, json } = request;
  const { client } = await needGateway();
  const body = handedOver(input, options);
  const answer = await client.exec({
    body: { ...body, kind: "service", ...(port === null ? {} : { port }) },
  });
  if (answer.failure !== null || port === null) {
    printStarted(answer.run, json);
    return startedCode(answer);
  }
  const { runId } = answer.run;
  using interrupted = new Interrupted();
  try {
    const found = await client.ready(
      { params: { runId }, body: { timeoutMs: readyTimeoutMs, orStop: true } },
      interrupted.aborts,
    );
    if (json) printStarted(found.run, json);
    return conclude(found, port, readyTimeoutMs, json);
  } catch (error) {
    if (interrupted.by !== null) return await stopped(client, runId, interrupted.by);
    if (error instanceof GatewayUnreachable)
      say(`service ${runId} was started and goes on; whether it became ready is not known`, "yellow");
    throw error;
  }
}

function conclude(
  { run, readiness }: AnswerOf<"ready">,
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
      say(`${run.runId} ended (${statusOf(run)}) before it listened on port ${port}${why}`, "red");
      // One that ended well never was the service that was asked for.
      return exitCode(run) || exitCodes.failure;
    case "timeout":
      say(
        `${run.runId} did not listen on port ${port} within ${formatDuration(timeoutMs)}, and was stopped${why}`,
        "red",
      );
      return exitCodes.timeout;
    case "given-up":
      say(`the gateway let go of ${run.runId} before it was ready; it goes on`, "yellow");
      return exitCodes.failure;
  }
}

async function stopped(client: GatewayClient, runId: string, by: Signal): Promise<number> {
  const { outcome, survivors } = await client.kill({ params: { runId }, body: {} });
  if (outcome === "survivors")
    say(
      `${runId} was stopped, but ${survivors.map((each) => sanitizeLine(leftText(each))).join(", ")} would not go`,
      "red",
    );
  else say(`${runId} was stopped before it was ready`, "yellow");
  return exitCodes.signal + constants.signals[by];
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
type Signal = (typeof SIGNALS)[number];

/** While it is held, a signal aborts what is waited for instead of ending this process. */
class Interrupted implements Disposable {
  readonly #controller = new AbortController();
  readonly #onSignal = (signal: NodeJS.Signals): void => {
    this.by ??= signal as Signal;
    this.#controller.abort();
  };
  by: Signal | null = null;

  constructor() {
    for (const signal of SIGNALS) process.on(signal, this.#onSignal);
  }

  get aborts(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    for (const signal of SIGNALS) process.off(signal, this.#onSignal);
  }
}
