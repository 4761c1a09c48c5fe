import type { ParsedRequestOf, RequestContext, ResponseOf, RouteHandlers } from "../../api/contract.js";
import { RunExists } from "../../errors.js";
import { newRunId } from "../../model/ids.js";
import type { RunRecord } from "../../model/run.js";
import type { RequestedStdin } from "../../sessions/approval-question.js";
import type { Supervisor } from "../../supervisor/api.js";
import { type TaskInput, taskKeyOfRun } from "../../tasks/tasks.js";
import { displayCommand, redactText } from "../../text/redact.js";
import { type AllowedCommand, authorizeExec, type ExecIdentity } from "../auth/exec-authorization.js";
import { assertMaySetOrigin, resolveTargets, waitingOptions } from "../background/notification-targets.js";
import { findCurrentTask } from "../background/parent-session-and-task.js";
import type { HandlerDeps } from "./handler-deps.js";
import { execCommand } from "./exec.js";

type ExecBody = ParsedRequestOf<"exec">["body"];

export function createExecHandler(deps: HandlerDeps) {
  return {
    exec: async ({ body }, context) => {
      deps.assertAcceptingRuns();
      assertMaySetOrigin(context.requester, body, deps.channels);
      const argv = body.argv ?? [body.shell ?? "/bin/sh", "-c", body.command ?? ""];
      const { cwd, environment, env } = body;
      const question = { argv, cwd, environment, env, stdin: stdinForApproval(body) };
      const { identity, command } = await authorizeExec(deps, context, question, body);
      // The approval may have taken long; the gateway may be stopping by now.
      deps.assertAcceptingRuns();
      return execAsTask(deps, withAuthorizedCommand(body, command), context, identity);
    },
  } satisfies Partial<RouteHandlers>;
}

/**
 * Runs a command. Background work is a task: from the start if the request says so, otherwise from when the response is
 * sent while the command still runs.
 */
async function execAsTask(
  deps: HandlerDeps,
  body: ExecBody,
  context: RequestContext,
  identity: ExecIdentity,
): Promise<ResponseOf<"exec">> {
  // Services do not end, and the caller of a foreground run is connected: neither is a task.
  const mayGoOn = body.kind === "task" && body.foreground === undefined;
  const promised = body.background || body.notify !== undefined || body.origin !== undefined;
  if (mayGoOn && promised) {
    const runId = body.runId ?? newRunId();
    await assertRunIdUnused(deps.supervisor, runId);
    return deps.background.runAsTask(
      await taskInput(deps, body, context, identity, runId),
      (hooks) => execCommand(deps, { ...body, runId }, context, identity, hooks),
      waitingOptions(body, context.disconnected),
    );
  }
  const answer = await execCommand(deps, body, context, identity);
  if (!mayGoOn || !answer.running) return answer;
  try {
    const work = await taskInput(deps, body, context, identity, answer.run.runId);
    return await deps.background.runAsTask(work, () => Promise.resolve(answer));
  } catch {
    // The run continues; the next sweep creates its task.
    deps.background.registerRecoveredRuns([answer.run]);
    return answer;
  }
}

/** Checked before a task is created: the owner of a run's task may see and stop the run. */
export async function assertRunIdUnused(
  supervisor: Pick<Supervisor, "getRun">,
  runId: string,
  isTheSame: (known: RunRecord) => boolean = () => false,
): Promise<void> {
  const known = await supervisor.getRun(runId);
  if (known !== null && !isTheSame(known)) throw new RunExists(runId);
}

async function taskInput(
  deps: HandlerDeps,
  body: ExecBody,
  context: RequestContext,
  { sessionId, agentId }: ExecIdentity,
  runId: string,
): Promise<TaskInput> {
  const { requester } = context;
  const parentSessionId = sessionId ?? null;
  const targets = await resolveTargets(deps, { requester, requested: body, mode: "run", parentSessionId });
  return {
    runtime: "exec",
    key: taskKeyOfRun(runId),
    text: body.argv === undefined ? redactText(body.command ?? "") : displayCommand(body.argv),
    agentId: agentId ?? null,
    runId,
    parentTaskId: await findCurrentTask(deps.store, requester),
    ...targets,
  };
}

function stdinForApproval({ input, foreground, stdin, pty, command }: ExecBody): RequestedStdin {
  if (input !== undefined) return { kind: "text", text: input };
  if (pty || command !== undefined) return { kind: "terminal" };
  return { kind: foreground !== undefined || stdin === "pipe" ? "pipe" : "none" };
}

/** The request with the allowed command in place of the requested one. */
function withAuthorizedCommand(body: ExecBody, { argv, environment, env }: AllowedCommand): typeof body {
  const [shell] = argv;
  return {
    ...body,
    ...(body.argv === undefined ? { shell } : { argv: [...argv] }),
    ...(environment === undefined ? {} : { environment: { ...environment } }),
    env: { ...env },
  };
}
