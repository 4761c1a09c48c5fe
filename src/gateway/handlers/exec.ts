import { constants } from "node:os";
import type { StreamName } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import { LimitUnavailable, SpawnFailed } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { CommandInput, Run, RunEnding, SpawnOptions, Supervisor } from "../../supervisor/api.js";
import { newRunId } from "../../supervisor/ids.js";
import type { Config } from "../config.js";
import type { AnswerOf, HeardOf } from "../contract/contract.js";
import { GATEWAY_STOPS, type Asking } from "../server/app.js";
import type { Going } from "../work/background.js";
import type { Desk, ExecIdentity } from "./handlers.js";
import { readyOrStopped } from "./ready.js";
import { nowOf } from "./run-reader.js";
import { shownPiece, textFrom } from "./text-output.js";

type ExecBody = HeardOf<"exec">["body"];
/** For what a caller leaves unsaid. */
export type ExecDefaults = Config["defaults"];
type Failure = AnswerOf<"exec">["failure"];

const UNTOLD: Going = {
  taskId: null,
  begun: () => undefined,
  doneBy: () => Promise.resolve(),
  sentAway: () => undefined,
};

/** Run a command for a caller: to its end, for a while, or at once in the background. */
export async function execFor(
  { supervisor, callers, gate, defaults: unsaid }: Pick<Desk, "supervisor" | "callers" | "gate" | "defaults">,
  body: ExecBody,
  asking: Asking,
  identity: ExecIdentity,
  going: Going = UNTOLD,
): Promise<AnswerOf<"exec">> {
  const bind = async (runId: string | null): Promise<void> => {
    const token = identity.env?.["HOLDFAST_TOKEN"];
    // A token that is not bound to a run ends by its age.
    if (token !== undefined) await gate.sessions.bindToken(token, runId).catch(() => undefined);
  };
  const { run, ptyFellBack, failed } = await spawn(supervisor, body, identity, unsaid, going).catch(
    async (error: unknown) => {
      await bind(null);
      throw error;
    },
  );
  await bind(run?.runId ?? null);
  if (run === null) {
    // To whoever is at a terminal it is an error, with the step that failed.
    if (body.foreground !== undefined) throw failed;
    const { record, recordPending } = await nowOf(supervisor, await mustHave(supervisor, failed.runId));
    const failure = notStarted(failed) ?? failureOf(record);
    const nothingRan = { running: false, output: [], ptyFellBack, readiness: null };
    return { run: record, recordPending, failure, ...nothingRan };
  }
  going.begun();
  if (body.foreground !== undefined) {
    callers.expect(run.runId, asking.gone);
    const begun = await mustHave(supervisor, run.runId);
    const goesOn = { running: true, failure: null, output: [], ptyFellBack, readiness: null };
    return { run: begun, recordPending: null, ...goesOn };
  }
  const waits = !body.background && body.port !== undefined;
  const readiness = waits ? await readyOrStopped(supervisor, run.runId, body.readyTimeoutMs, asking) : null;
  const end = await endOf(supervisor, run, body, readiness, asking, unsaid);
  // Before anything else is waited for: it may end meanwhile.
  if (end === null) going.sentAway();
  const now = end?.record ?? (await mustHave(supervisor, run.runId));
  const ended = end !== null;
  const streams: readonly StreamName[] = ["stdout", "stderr"];
  const output = await Promise.all(
    streams.map((stream) =>
      textFrom(
        (name, options) => supervisor.readOutput(run.runId, name, options),
        stream,
        0,
        body.maxChars,
        ended,
      ),
    ),
  );
  return {
    run: now,
    recordPending: end?.recordPending ?? null,
    running: !ended,
    failure: ended ? failureOf(now) : null,
    output: output.map((piece) => shownPiece(piece, body.raw)),
    ptyFellBack,
    readiness,
  };
}

/** Null: it goes on. */
async function endOf(
  supervisor: Supervisor,
  run: Run,
  body: ExecBody,
  readiness: AnswerOf<"exec">["readiness"],
  asking: Asking,
  unsaid: ExecDefaults,
): Promise<RunEnding | null> {
  if (readiness?.state === "ended") return run.end();
  if (readiness !== null) {
    // Stopped, or being stopped with survivors.
    const now = await nowOf(supervisor, await mustHave(supervisor, run.runId));
    return now.record.state === "exited" ? now : null;
  }
  return body.background ? null : endOrYield(run, body.yieldMs ?? unsaid["yield-ms"], asking);
}

type Spawned =
  | { readonly run: Run; readonly ptyFellBack: boolean; readonly failed: null }
  | { readonly run: null; readonly ptyFellBack: boolean; readonly failed: SpawnFailed };

async function spawn(
  supervisor: Supervisor,
  body: ExecBody,
  identity: ExecIdentity,
  unsaid: ExecDefaults,
  going: Going,
): Promise<Spawned> {
  const { taskId } = going;
  const options = { ...spawnOptions(body, identity, unsaid), ...(taskId === null ? {} : { taskId }) };
  const pty = body.pty || body.command !== undefined;
  try {
    return { run: await supervisor.spawn(inputOf(body, pty), options), ptyFellBack: false, failed: null };
  } catch (error) {
    if (!(error instanceof SpawnFailed)) throw error;
    if (!(pty && body.ptyFallback && error.step === "pty"))
      return { run: null, ptyFellBack: false, failed: error };
  }
  // Another run, with an id of its own.
  const again = { ...options, runId: newRunId() };
  await going.doneBy(again.runId);
  try {
    return { run: await supervisor.spawn(inputOf(body, false), again), ptyFellBack: true, failed: null };
  } catch (error) {
    if (!(error instanceof SpawnFailed)) throw error;
    return { run: null, ptyFellBack: true, failed: error };
  }
}

function inputOf({ argv, command, shell }: ExecBody, pty: boolean): CommandInput {
  if (argv !== undefined) return pty ? { io: "pty", argv } : { io: "pipe", argv };
  const ptyCommand = command ?? "";
  if (!pty) return { io: "pipe", argv: [shell ?? "/bin/sh", "-c", ptyCommand] };
  return shell === undefined ? { io: "pty", ptyCommand } : { io: "pty", ptyCommand, shell };
}

function spawnOptions(body: ExecBody, identity: ExecIdentity, unsaid: ExecDefaults): SpawnOptions {
  const { environment, cwd, umask, limits, rows, cols, sessionKey, agentId } = body;
  const spool = { boundBytes: unsaid["buffer-bytes"] };
  return {
    ...(environment === undefined ? {} : { inherit: environment }),
    allowEnv: body.allowEnv,
    ...(cwd === undefined ? {} : { cwd }),
    ...(umask === undefined ? {} : { umask }),
    labels: body.labels,
    kind: body.kind,
    ...(body.port === undefined ? {} : { port: body.port }),
    onEscape: body.onEscape ?? unsaid["on-escape"],
    timeoutMs: body.kind === "service" ? 0 : (body.timeoutMs ?? unsaid["timeout-ms"]),
    noOutputTimeoutMs: body.noOutputTimeoutMs ?? unsaid["no-output-timeout-ms"],
    graceMs: body.graceMs ?? unsaid["grace-ms"],
    ...(limits === undefined ? {} : { limits }),
    stdout: spool,
    stderr: spool,
    merge: body.merge,
    ...(body.runId === undefined ? {} : { runId: body.runId }),
    ...(body.foreground === undefined ? {} : calledFor(body.foreground.bufferBytes)),
    stdin: body.stdin,
    ...(body.input === undefined ? {} : { input: body.input }),
    ...(rows === undefined || cols === undefined ? {} : { size: { rows, cols } }),
    ...(sessionKey === undefined ? {} : { sessionKey }),
    ...(agentId === undefined ? {} : { agentId }),
    ...identity,
    env: { ...body.env, ...identity.env },
  };
}

function calledFor(boundBytes: number): SpawnOptions {
  const spool = { boundBytes, policy: "back-pressure" } as const;
  return {
    callerBound: true,
    ownerLossMs: defaults.callerOwnerLossMs,
    // Whoever asked for it finds only this gateway, or the next of this state directory.
    onOrphan: "terminate",
    stdout: spool,
    stderr: spool,
  };
}

/** Null: it goes on. A caller that vanishes while it is being waited for takes its run with it. */
async function endOrYield(run: Run, yieldMs: number, { gone, requester }: Asking): Promise<RunEnding | null> {
  let timer: NodeJS.Timeout | undefined;
  let left = (): void => {};
  const yielded = new Promise<"yield">((resolve) => {
    timer = setTimeout(() => resolve("yield"), yieldMs);
  });
  const vanished = new Promise<"gone">((resolve) => {
    left = () => resolve("gone");
    gone.addEventListener("abort", left, { once: true });
    if (gone.aborted) left();
  });
  try {
    const first = await Promise.race([run.end(), yielded, vanished]);
    if (first === "yield") return null;
    if (first !== "gone") return first;
    // It needs nobody to wait for it, and may have become a service since.
    if (run.service !== null) return null;
    // Nobody left: it was the gateway that hung up, and its runs stay with their anchors.
    if (gone.reason === GATEWAY_STOPS) return null;
    await run.cancel({ actor: `${requester.actor} (left)` });
    return await run.end();
  } finally {
    clearTimeout(timer);
    gone.removeEventListener("abort", left);
  }
}

async function mustHave(supervisor: Supervisor, runId: string): Promise<RunRecord> {
  const record = await supervisor.getRun(runId);
  if (record === null) throw new Error(`run ${runId} has no record`);
  return record;
}

/** What the error knows and the record does not: which step failed. Null: the command's own exec, of which the record says all. */
function notStarted(failed: SpawnFailed): Failure {
  const { errno, step } = failed;
  if (failed instanceof LimitUnavailable) return "limit-unavailable";
  if (step === "exec") return null;
  const { ENOENT, ENOTDIR } = constants.errno;
  return step === "cwd" && (errno === ENOENT || errno === ENOTDIR) ? "cwd-not-found" : "spawn-error";
}

/** Why a run that has ended did not succeed. */
export function failureOf({ exit }: RunRecord): Failure {
  if (exit === null) return null;
  switch (exit.reason) {
    case "exit":
      return exit.code === 0 ? null : "exit-code";
    case "signal":
      return "signal";
    case "spawn-error":
      if (exit.errno === constants.errno.ENOENT) return "not-found";
      return exit.errno === constants.errno.EACCES ? "not-executable" : "spawn-error";
    case "overall-timeout":
    case "no-output-timeout":
      return exit.reason;
    case "manual-cancel":
    case "shutdown":
      return "cancelled";
    case "ownership-escape":
      return "escape";
    case "owner-lost":
    case "lost":
      return "lost";
  }
}
