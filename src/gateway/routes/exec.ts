import { constants } from "node:os";
import type { StreamName } from "../../anchor/host-interface.js";
import {
  GATEWAY_STOPPING,
  type ParsedRequestOf,
  type RequestContext,
  type ResponseOf,
} from "../../api/contract.js";
import { omitUndefined } from "../../model/record-type.js";
import { defaults } from "../../defaults.js";
import { LimitUnavailable, SpawnFailed } from "../../errors.js";
import { newRunId } from "../../model/ids.js";
import type { RunRecord } from "../../model/run.js";
import { outputPieceResponse, readOutputText } from "../../queries/output.js";
import { currentRun, type Failure, failureKindOf } from "../../queries/runs.js";
import type {
  CommandInput,
  OutputChunk,
  Run,
  RunEnding,
  SpawnOptions,
  Supervisor,
} from "../../supervisor/api.js";
import type { ExecIdentity } from "../auth/exec-authorization.js";
import type { StartHooks } from "../background/background-work.js";
import type { HandlerDeps } from "./handler-deps.js";
import { waitReadyOrStop } from "./services.js";

type ExecBody = ParsedRequestOf<"exec">["body"];

const NO_TASK_HOOKS: StartHooks = {
  taskId: null,
  onStarted: () => undefined,
  onRunReplaced: () => Promise.resolve(),
  onDetached: () => undefined,
};

/** Runs a command and waits for its end, for a time, or not at all. */
export async function execCommand(
  { supervisor, foregroundClients, sessions, defaults: execDefaults }: HandlerDeps,
  body: ExecBody,
  context: RequestContext,
  identity: ExecIdentity,
  hooks: StartHooks = NO_TASK_HOOKS,
): Promise<ResponseOf<"exec">> {
  const bind = async (runId: string | null): Promise<void> => {
    const token = identity.env?.["HOLDFAST_TOKEN"];
    // A token that is not bound to a run expires.
    if (token !== undefined) await sessions.bindToken(token, runId).catch(() => undefined);
  };
  const { run, ptyFellBack, failed } = await spawn(supervisor, body, identity, execDefaults, hooks).catch(
    async (error: unknown) => {
      await bind(null);
      throw error;
    },
  );
  await bind(run?.runId ?? null);
  if (run === null) {
    // A foreground caller gets an error with the failed step.
    if (body.foreground !== undefined) throw failed;
    const { record, recordPending } = await currentRun(
      supervisor,
      await requireRecord(supervisor, failed.runId),
    );
    const failure = spawnFailureKind(failed) ?? failureKindOf(record);
    const nothingRan = { running: false, output: [], ptyFellBack, readiness: null };
    return { run: record, recordPending, failure, ...nothingRan };
  }
  hooks.onStarted();
  if (body.foreground !== undefined) {
    foregroundClients.awaitFirstAttach(run.runId, context.disconnected);
    const begun = await requireRecord(supervisor, run.runId);
    const goesOn = { running: true, failure: null, output: [], ptyFellBack, readiness: null };
    return { run: begun, recordPending: null, ...goesOn };
  }
  const waits = !body.background && body.port !== undefined;
  const readiness = waits ? await waitReadyOrStop(supervisor, run.runId, body.readyTimeoutMs, context) : null;
  const end = await waitForEnd(supervisor, run, body, readiness, context, execDefaults);
  // Before the next wait, during which the run may end.
  if (end === null) hooks.onDetached();
  const now = end?.record ?? (await requireRecord(supervisor, run.runId));
  const ended = end !== null;
  const streams: readonly StreamName[] = ["stdout", "stderr"];
  // The output of a command that was just executed is nearly always empty, so its directory is not searched.
  const read: Run["read"] = (name, options) =>
    body.background ? readNothing(name) : run.read(name, options);
  const output = await Promise.all(
    streams.map((stream) => readOutputText(read, stream, 0, body.maxChars, ended)),
  );
  return {
    run: now,
    recordPending: end?.recordPending ?? null,
    running: !ended,
    failure: ended ? failureKindOf(now) : null,
    output: output.map((piece) => outputPieceResponse(piece, body.raw)),
    ptyFellBack,
    readiness,
  };
}

async function readNothing(stream: StreamName): Promise<OutputChunk> {
  return { stream, offset: 0, bytes: new Uint8Array(0) };
}

/** Null: the run has not ended. */
async function waitForEnd(
  supervisor: Supervisor,
  run: Run,
  body: ExecBody,
  readiness: ResponseOf<"exec">["readiness"],
  context: RequestContext,
  execDefaults: HandlerDeps["defaults"],
): Promise<RunEnding | null> {
  if (readiness?.state === "ended") return run.end();
  if (readiness !== null) {
    // The run was stopped, or is being stopped with survivors.
    const now = await currentRun(supervisor, await requireRecord(supervisor, run.runId));
    return now.record.state === "exited" ? now : null;
  }
  return body.background ? null : endOrYield(run, body.yieldMs ?? execDefaults["yield-ms"], context);
}

async function spawn(
  supervisor: Supervisor,
  body: ExecBody,
  identity: ExecIdentity,
  execDefaults: HandlerDeps["defaults"],
  hooks: StartHooks,
) {
  const { taskId } = hooks;
  const options = { ...spawnOptions(body, identity, execDefaults), ...(taskId === null ? {} : { taskId }) };
  const pty = body.pty || body.command !== undefined;
  const first = await trySpawn(supervisor, commandInput(body, pty), options);
  if (first.run !== null || !pty || !body.ptyFallback || first.failed.step !== "pty")
    return { ...first, ptyFellBack: false };
  // The fallback is another run with its own id.
  const again = { ...options, runId: newRunId() };
  await hooks.onRunReplaced(again.runId);
  return { ...(await trySpawn(supervisor, commandInput(body, false), again)), ptyFellBack: true };
}

async function trySpawn(supervisor: Supervisor, command: CommandInput, options: SpawnOptions) {
  try {
    return { run: await supervisor.spawn(command, options), failed: null };
  } catch (error) {
    if (error instanceof SpawnFailed) return { run: null, failed: error };
    throw error;
  }
}

function commandInput({ argv, command, shell }: ExecBody, pty: boolean): CommandInput {
  if (argv !== undefined) return pty ? { io: "pty", argv } : { io: "pipe", argv };
  const ptyCommand = command ?? "";
  if (!pty) return { io: "pipe", argv: [shell ?? "/bin/sh", "-c", ptyCommand] };
  return shell === undefined ? { io: "pty", ptyCommand } : { io: "pty", ptyCommand, shell };
}

function spawnOptions(
  body: ExecBody,
  identity: ExecIdentity,
  execDefaults: HandlerDeps["defaults"],
): SpawnOptions {
  const { environment, cwd, umask, limits, rows, cols, sessionKey, agentId, port, runId, input } = body;
  const { allowEnv, labels, kind, merge, stdin } = body;
  const spool = { boundBytes: execDefaults["buffer-bytes"] };
  return {
    ...omitUndefined({ inherit: environment, cwd, umask, port, limits, runId, input, sessionKey, agentId }),
    ...(rows === undefined || cols === undefined ? {} : { size: { rows, cols } }),
    ...{ allowEnv, labels, kind, merge, stdin },
    onEscape: body.onEscape ?? execDefaults["on-escape"],
    timeoutMs: kind === "service" ? 0 : (body.timeoutMs ?? execDefaults["timeout-ms"]),
    noOutputTimeoutMs: body.noOutputTimeoutMs ?? execDefaults["no-output-timeout-ms"],
    graceMs: body.graceMs ?? execDefaults["grace-ms"],
    stdout: spool,
    stderr: spool,
    ...(body.foreground === undefined ? {} : foregroundSpawnOptions(body.foreground.bufferBytes)),
    ...identity,
    env: { ...body.env, ...identity.env },
  };
}

function foregroundSpawnOptions(boundBytes: number): SpawnOptions {
  const spool = { boundBytes, policy: "back-pressure" } as const;
  return {
    callerBound: true,
    ownerLossMs: defaults.callerOwnerLossMs,
    // The caller can reattach only through a gateway of this state directory.
    onOrphan: "terminate",
    stdout: spool,
    stderr: spool,
  };
}

/** Null: the run has not ended. The run is cancelled if the caller disconnects meanwhile. */
async function endOrYield(
  run: Run,
  yieldMs: number,
  { disconnected, requester }: RequestContext,
): Promise<RunEnding | null> {
  let timer: NodeJS.Timeout | undefined;
  let onDisconnect = (): void => {};
  const yielded = new Promise<"yield">((resolve) => {
    timer = setTimeout(() => resolve("yield"), yieldMs);
  });
  const whenDisconnected = new Promise<"gone">((resolve) => {
    onDisconnect = () => resolve("gone");
    disconnected.addEventListener("abort", onDisconnect, { once: true });
    if (disconnected.aborted) onDisconnect();
  });
  try {
    const first = await Promise.race([run.end(), yielded, whenDisconnected]);
    if (first === "yield") return null;
    if (first !== "gone") return first;
    // The run may have become a service, which needs no caller.
    if (run.service !== null) return null;
    // The gateway closed the connection, not the caller: its runs continue under their anchors.
    if (disconnected.reason === GATEWAY_STOPPING) return null;
    await run.cancel({ actor: `${requester.actor} (left)` });
    return await run.end();
  } finally {
    clearTimeout(timer);
    disconnected.removeEventListener("abort", onDisconnect);
  }
}

async function requireRecord(supervisor: Supervisor, runId: string): Promise<RunRecord> {
  const record = await supervisor.getRun(runId);
  if (record === null) throw new Error(`run ${runId} has no record`);
  return record;
}

/** The failed step, which the record does not have. Null: `exec` itself failed; the record has the reason. */
function spawnFailureKind(failed: SpawnFailed): Failure {
  const { errno, step } = failed;
  if (failed instanceof LimitUnavailable) return "limit-unavailable";
  if (step === "exec") return null;
  const { ENOENT, ENOTDIR } = constants.errno;
  return step === "cwd" && (errno === ENOENT || errno === ENOTDIR) ? "cwd-not-found" : "spawn-error";
}
