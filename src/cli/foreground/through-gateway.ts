import { setTimeout } from "node:timers/promises";
import { defaults } from "../../defaults.js";
import { GatewayUnreachable, SpawnFailed } from "../../errors.js";
import type { GatewayClient } from "../../gateway/client.js";
import type { AnswerOf, AskedOf } from "../../gateway/contract/contract.js";
import type { RunRecord } from "../../store/run-record.js";
import { newRunId } from "../../supervisor/ids.js";
import { needGateway, type Connection } from "../gateway/connect.js";
import { execBody } from "../gateway/exec-body.js";
import { gatewayBack } from "../gateway/gateway-back.js";
import { sayIfLong } from "../gateway/say-if-long.js";
import { asSpawnFailed, isCode } from "../gateway/spawn-failed.js";
import { AnchorHold } from "./anchor-hold.js";
import { CalledRun } from "./called-run.js";
import type { ForegroundHost } from "./host.js";

/** How a gateway is asked for a run that belongs to this process; its id is chosen here. */
export type AskFor = (
  client: GatewayClient,
  body: AskedOf<"exec">["body"],
  its: { readonly runId: string; readonly foreground: { readonly bufferBytes: number } },
) => Promise<Pick<AnswerOf<"exec">, "run">>;

const askForCommand: AskFor = (client, body, its) =>
  client.exec({ body: { ...body, stdin: "pipe", ...its } });

/** The state directory's gateway; started in the background when none runs. */
export async function openThroughGateway(
  say: (message: string) => void,
  askFor: AskFor = askForCommand,
): Promise<ForegroundHost> {
  let connection = await needGateway("; or say --in-process");
  const runId = newRunId();
  const hold = new AnchorHold(connection.home, runId);
  let run: CalledRun | null = null;
  let known: RunRecord | null = null;
  let againMs: number = defaults.callerAgainMs;
  const attached = (): void => {
    hold.attached();
    againMs = defaults.callerAgainMs;
  };
  const back = async (onPurpose: boolean): Promise<Connection | null> => {
    // Not at once: a gateway that lives but does not hold the run yet would be asked all the time.
    await setTimeout(againMs);
    againMs = Math.min(againMs * 2, defaults.callerAgainMaxMs);
    const keep = (): Promise<boolean> => hold.keep();
    if (hold.gapMs() > defaults.callerOwnerLossMs && !(await keep().catch(() => false))) return null;
    const next = await gatewayBack(connection.home, {
      onPurpose,
      forMs: defaults.callerOwnerLossMs,
      say,
      keep,
    });
    if (next !== null) connection = next;
    return next;
  };
  return {
    spawn: async (input, options) => {
      const { size, stdout } = options;
      using _said = sayIfLong(say);
      const body = { ...execBody(input, options), ...(size === undefined ? {} : size) };
      const foreground = { bufferBytes: stdout?.boundBytes ?? defaults.spoolBytes };
      known = await ask(
        () => connection,
        back,
        runId,
        async (client) => (await askFor(client, body, { runId, foreground })).run,
      );
      attached();
      run = new CalledRun({
        runId,
        connection,
        back,
        attached,
        lost: () =>
          say(`no gateway came back; what ${runId} wrote since is in its log: holdfast logs ${runId}`),
        adopted: () => say(`run ${runId} is a service now; it goes on when this is left`),
        stopAlone: async (graceMs, told) => (await import("./stop-alone.js")).stopAlone(runId, graceMs, told),
      });
      return run;
    },
    // One that hangs must not keep us.
    getRun: (wanted) =>
      connection.client
        .getRun({ params: { runId: wanted } }, AbortSignal.timeout(RECORD_MS))
        .catch(() => known),
    close: async () => {
      run?.leave();
      await hold[Symbol.asyncDispose]();
    },
  };
}

const RECORD_MS = 1_000;

/**
 * Ask for a run, once: its id is chosen here, so when the answer is lost with its gateway, the next one can tell
 * whether there is such a run.
 */
async function ask(
  connection: () => Connection,
  back: (onPurpose: boolean) => Promise<Connection | null>,
  runId: string,
  askFor: (client: GatewayClient) => Promise<RunRecord>,
): Promise<RunRecord> {
  for (let asked = false; ;)
    try {
      const record = asked ? await askedBefore(connection(), runId) : null;
      return record ?? (await askFor(connection().client));
    } catch (error) {
      if (error instanceof SpawnFailed) throw error;
      if (!(error instanceof GatewayUnreachable) && !isCode(error, "SUPERVISOR_CLOSED", "RUN_EXISTS"))
        throw asSpawnFailed(error);
      asked = true;
      if ((await back(false)) === null) throw error;
    }
}

async function askedBefore({ client }: Connection, runId: string): Promise<RunRecord | null> {
  const record = await client.getRun({ params: { runId } }).catch((error: unknown) => {
    if (isCode(error, "RUN_NOT_FOUND")) return null;
    throw error;
  });
  const exit = record?.exit ?? null;
  if (exit?.reason === "spawn-error")
    throw new SpawnFailed(
      runId,
      exit.errno ?? 0,
      exit.errno === null ? "anchor" : "exec",
      exit.detail ?? `run ${runId} was interrupted while it was being started; the command did not run`,
    );
  return record;
}
