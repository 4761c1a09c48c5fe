import { setTimeout } from "node:timers/promises";
import type { GatewayClient } from "../../api/client.js";
import type { RequestOf, ResponseOf } from "../../api/contract.js";
import { defaults } from "../../defaults.js";
import { GatewayUnreachable, SpawnFailed } from "../../errors.js";
import { newRunId } from "../../model/ids.js";
import type { RunRecord } from "../../model/run.js";
import { connectOrStart, type GatewayConnection } from "../client/connect.js";
import {
  execRequestBody,
  hasErrorCode,
  noticeIfWaitingForApproval,
  toSpawnFailed,
} from "../client/exec-request.js";
import { waitForNextGateway } from "../client/reconnect.js";
import { AnchorKeepalive } from "./anchor-keepalive.js";
import type { ForegroundRunner } from "./foreground-runner.js";
import { RemoteRun } from "./remote-run.js";

/** Asks a gateway for a run that belongs to this process; the id is chosen here. */
export type RequestRun = (
  client: GatewayClient,
  body: RequestOf<"exec">["body"],
  its: { readonly runId: string; readonly foreground: { readonly bufferBytes: number } },
) => Promise<Pick<ResponseOf<"exec">, "run">>;

const requestCommand: RequestRun = (client, body, its) =>
  client.exec({ body: { ...body, stdin: "pipe", ...its } });

/** Runs commands in the gateway of the state directory, which is started if none is running. */
export async function openGatewayRunner(
  notice: (message: string) => void,
  requestRun: RequestRun = requestCommand,
): Promise<ForegroundRunner> {
  let connection = await connectOrStart("; or say --in-process");
  const runId = newRunId();
  const keepalive = new AnchorKeepalive(connection.home, runId);
  let run: RemoteRun | null = null;
  let known: RunRecord | null = null;
  let againMs: number = defaults.callerAgainMs;
  const attached = (): void => {
    keepalive.gatewayAttached();
    againMs = defaults.callerAgainMs;
  };
  const reconnect = async (wasStopped: boolean): Promise<GatewayConnection | null> => {
    // A pause: a live gateway that does not own the run yet would otherwise be asked all the time.
    await setTimeout(againMs);
    againMs = Math.min(againMs * 2, defaults.callerAgainMaxMs);
    const keepAlive = (): Promise<boolean> => keepalive.keepAlive();
    if (keepalive.unownedMs() > defaults.callerOwnerLossMs && !(await keepAlive().catch(() => false)))
      return null;
    const next = await waitForNextGateway(connection.home, {
      wasStopped,
      timeoutMs: defaults.callerOwnerLossMs,
      notice,
      keepAlive,
    });
    if (next !== null) connection = next;
    return next;
  };
  return {
    spawn: async (input, options) => {
      const { size, stdout } = options;
      using _said = noticeIfWaitingForApproval(notice);
      const body = { ...execRequestBody(input, options), ...(size === undefined ? {} : size) };
      const foreground = { bufferBytes: stdout?.boundBytes ?? defaults.spoolBytes };
      known = await requestRunOnce(
        () => connection,
        reconnect,
        runId,
        async (client) => (await requestRun(client, body, { runId, foreground })).run,
      );
      attached();
      run = new RemoteRun({
        runId,
        connection,
        reconnect,
        onAttached: attached,
        onLost: () =>
          notice(`no gateway came back; what ${runId} wrote since is in its log: holdfast logs ${runId}`),
        onAdopted: () => notice(`run ${runId} is a service now; it goes on when this is left`),
        stopWithoutGateway: async (graceMs, told) =>
          (await import("../stop/stop-run.js")).stopRunWithoutGateway(runId, graceMs, told),
      });
      return run;
    },
    // A gateway that hangs must not block the exit.
    getRun: (wanted) =>
      connection.client
        .getRun({ params: { runId: wanted } }, AbortSignal.timeout(RECORD_TIMEOUT_MS))
        .catch(() => known),
    close: async () => {
      run?.detach();
      await keepalive[Symbol.asyncDispose]();
    },
  };
}

const RECORD_TIMEOUT_MS = 1_000;

/**
 * Starts a run once: the id is chosen here, so if the answer is lost with its gateway, the next gateway knows whether
 * there is such a run.
 */
async function requestRunOnce(
  connection: () => GatewayConnection,
  reconnect: (wasStopped: boolean) => Promise<GatewayConnection | null>,
  runId: string,
  requestRun: (client: GatewayClient) => Promise<RunRecord>,
): Promise<RunRecord> {
  for (let asked = false; ;)
    try {
      const record = asked ? await findRequestedRun(connection(), runId) : null;
      return record ?? (await requestRun(connection().client));
    } catch (error) {
      if (error instanceof SpawnFailed) throw error;
      if (!(error instanceof GatewayUnreachable) && !hasErrorCode(error, "SUPERVISOR_CLOSED", "RUN_EXISTS"))
        throw toSpawnFailed(error);
      asked = true;
      if ((await reconnect(false)) === null) throw error;
    }
}

async function findRequestedRun({ client }: GatewayConnection, runId: string): Promise<RunRecord | null> {
  const record = await client.getRun({ params: { runId } }).catch((error: unknown) => {
    if (hasErrorCode(error, "RUN_NOT_FOUND")) return null;
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
