import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { AnchorLink, RunAddress } from "../../anchor/host-interface.js";
import type { GatewayClient } from "../../api/client.js";
import type { RequestOf, ResponseOf } from "../../api/contract.js";
import { defaults } from "../../defaults.js";
import { GatewayUnreachable, SpawnFailed } from "../../errors.js";
import { readOwnFile } from "../../home/own-file.js";
import { newRunId } from "../../model/ids.js";
import type { RunRecord } from "../../model/run.js";
import type { CommandInput, Problem, SpawnOptions } from "../../supervisor/api.js";
import { connectOrStart, type GatewayConnection, hasErrorCode } from "../client/connect.js";
import { waitForNextGateway } from "../client/reconnect.js";
import type { LocalState } from "../../queries/local-state-directory.js";
import { execRequestBody, noticeIfWaitingForApproval, toSpawnFailed } from "./detached.js";
import type { InterruptsBefore } from "./run-interrupts.js";
import type { RemoteRun } from "./remote-run.js";
import type { ForegroundRun } from "./stdio.js";

/** Supervises a foreground command: in this process, or in the gateway. */
export interface ForegroundRunner {
  spawn(input: CommandInput, options: SpawnOptions): Promise<ForegroundRun>;
  getRun(runId: string): Promise<RunRecord | null>;
  /** `left`: the run has not ended, and this process does not wait for it. */
  close(left: boolean): Promise<void>;
}

/** Supervises one command in this process, without a gateway. */
export async function openInProcessRunner(
  actor: string,
  onProblem: (problem: Problem) => void,
): Promise<ForegroundRunner> {
  const { openSupervisor } = await import("../../supervisor/open.js");
  const { retryWhileFenced } = await import("../../supervisor/run-handle.js");
  const supervisor = await openSupervisor({ actor, discardOutput: true, onProblem });
  return {
    spawn: async (input, options) => {
      // When this process ends, nothing reads the output any more.
      const ending = { ownerLossMs: defaults.foregroundOwnerLossMs, onOrphan: "terminate" } as const;
      const run = await supervisor.spawn(input, { ...options, ...ending });
      const write = run.write.bind(run);
      const closeStdin = run.closeStdin.bind(run);
      return Object.assign(run, {
        unreachable: new Promise<undefined>(() => {}),
        write: (data: Uint8Array | string) => retryWhileFenced(() => write(data)),
        closeStdin: () => retryWhileFenced(closeStdin),
      });
    },
    getRun: (runId) => supervisor.getRun(runId),
    close: (left) => supervisor.close({ leaveRuns: left, actor }),
  };
}

/**
 * A connection of the client to the anchor of its run while no gateway is running. An anchor ends a task that has had
 * no owner for its owner-loss time; a client that starts the next gateway counts as an owner. It controls nothing, and
 * the higher epoch of the next gateway closes the connection.
 */
class AnchorKeepalive implements AsyncDisposable {
  readonly #home: string;
  readonly #runId: string;
  #localState: LocalState | null = null;
  #link: AnchorLink | null = null;
  #unownedSince: number | null = null;

  constructor(home: string, runId: string) {
    this.#home = home;
    this.#runId = runId;
  }

  /** Time since the first call in which neither a gateway nor this connection owned the run. */
  unownedMs(): number {
    this.#unownedSince ??= performance.now();
    return performance.now() - this.#unownedSince;
  }

  /** A gateway owns the run again. */
  gatewayAttached(): void {
    this.#unownedSince = null;
  }

  /**
   * Attaches to the anchor if no gateway is alive. True: the run directory still exists, so it is worth starting a
   * gateway.
   */
  async keepAlive(): Promise<boolean> {
    if (this.#link !== null) return true;
    if (this.unownedMs() > defaults.callerHoldMs) return false;
    // Loaded here, so that other commands start faster.
    this.#localState ??= await (await import("../../queries/local-state-directory.js")).openLocalState();
    if (this.#localState === null) return false;
    const { host } = this.#localState;
    const instanceId = (await readOwnFile(join(this.#home, "gateway-id"))).trim();
    const run = { instanceId, runId: this.#runId };
    const gateway = (await host.listInstances()).find((each) => each.instanceId === instanceId);
    // A live gateway attaches by itself; a newer epoch from here would lock it out.
    if (gateway?.alive === false) this.#link = await this.#attachAsOwner(host, run);
    return this.#link !== null || (await host.listRunIds(instanceId)).includes(this.#runId);
  }

  /** Null: no anchor answers, or the command was not executed yet and never will be. */
  async #attachAsOwner(host: LocalState["host"], run: RunAddress): Promise<AnchorLink | null> {
    const observer = await host.attach(run, 0);
    if (observer === null) return null;
    const { highestEpoch, phase } = observer.welcome;
    try {
      if (phase === "gated") return null;
      const link = await host.attach(run, highestEpoch + 1);
      let closed = false;
      link?.listen(({ type }) => {
        if (type !== "closed") return;
        closed = true;
        this.#link = null;
        // The time without an owner begins again.
        this.#unownedSince = null;
      });
      return closed ? null : link;
    } finally {
      observer.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#localState?.[Symbol.asyncDispose]();
  }
}

/** A run that the native client has requested, and followed up to these offsets (anchor/client/exec-node.c). */
export interface RequestedRun {
  readonly runId: string;
  readonly stdout: number;
  readonly stderr: number;
  readonly stdin: number;
  readonly interrupts: InterruptsBefore;
}

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
  requested: RequestedRun | null = null,
): Promise<ForegroundRunner> {
  const { RemoteRun: Remote } = await import("./remote-run.js");
  let connection = await connectOrStart("; or use --in-process");
  const runId = requested?.runId ?? newRunId();
  const keepalive = new AnchorKeepalive(connection.home, runId);
  let run: RemoteRun | null = null;
  let known: RunRecord | null = null;
  let againMs: number = defaults.callerAgainMs;
  const attached = (): void => {
    keepalive.gatewayAttached();
    againMs = defaults.callerAgainMs;
  };
  const reconnect = async (wasStopped: boolean): Promise<GatewayConnection | null> => {
    // A pause: a live gateway that does not own the run yet would otherwise get requests all the time.
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
        requested !== null,
      );
      attached();
      run = new Remote({
        runId,
        connection,
        reconnect,
        from: requested,
        onAttached: attached,
        onLost: () => notice(`no gateway came back; holdfast logs ${runId} prints the output since then`),
        onAdopted: () => notice(`run ${runId} is a service now; it continues when this command ends`),
        stopWithoutGateway: async (graceMs, onStopSent) =>
          (await import("../stop/stop-run.js")).stopRunWithoutGateway(runId, graceMs, onStopSent),
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
  requestedBefore: boolean,
): Promise<RunRecord> {
  for (let requested = requestedBefore; ;)
    try {
      const record = requested ? await findRequestedRun(connection(), runId) : null;
      return record ?? (await requestRun(connection().client));
    } catch (error) {
      if (error instanceof SpawnFailed) throw error;
      if (!(error instanceof GatewayUnreachable) && !hasErrorCode(error, "SUPERVISOR_CLOSED", "RUN_EXISTS"))
        throw toSpawnFailed(error);
      requested = true;
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
