import { cliCommand, newAgentSessionId, parseVersion } from "../../agents/one-shot-command.js";
import type { ParsedRequestOf, RequestContext, ResponseOf, RouteHandlers } from "../../api/contract.js";
import { execBody } from "../../api/routes/exec.js";
import type { AgentEntry } from "../../config/agents.js";
import { defaults } from "../../defaults.js";
import { BadInput, NotFound } from "../../errors.js";
import { newRunId } from "../../model/ids.js";
import { CLI_BACKEND } from "../../model/enums.js";
import type { SessionRecord } from "../../model/session.js";
import { type AgentListing, CallerSearchPath, describeAgent, describeAgents } from "../../queries/agents.js";
import { NO_STDIN } from "../../sessions/approval-question.js";
import { sessionIdOf } from "../../sessions/requester.js";
import { type TaskInput, taskKeyOfRun } from "../../tasks/tasks.js";
import { authorizeCommand, authorizeExec, issueExecIdentity } from "../auth/exec-authorization.js";
import type { StartHooks } from "../background/background-work.js";
import { assertMaySetOrigin, resolveTargets, waitingOptions } from "../background/notification-targets.js";
import { findCurrentTask, findParentSession } from "../background/parent-session-and-task.js";
import type { HandlerDeps } from "./handler-deps.js";
import { assertRunIdUnused } from "./exec-as-task.js";
import { execCommand } from "./exec.js";

type Check = ResponseOf<"checkAgent">["checks"][number];

/** Time after the deadline until the response no longer waits for the end. */
const AFTER_DEADLINE_MS = 10_000;

export function createAgentHandlers(deps: HandlerDeps) {
  const { supervisor, agents, oneShotAgents, authorizer } = deps;
  const callersPath = new CallerSearchPath();
  const known = (id: string): AgentEntry => {
    const entry = agents.all.get(id);
    if (entry === undefined) throw new NotFound(`agent ${id}; \`holdfast agents list\` lists all`);
    return entry;
  };
  const listing = (entry: AgentEntry, path: string | undefined): Promise<AgentListing> =>
    describeAgent(entry, agents.own.has(entry.id), path);

  return {
    listAgents: async ({ query: { path } }, { requester }) => {
      if (path === undefined) return describeAgents(agents);
      if (requester.kind === "session")
        throw new BadInput(
          "path",
          "only the operator may choose where agents are searched for; leave path out to search the gateway's PATH",
        );
      return describeAgents(agents, (await callersPath.directories(path)).join(":"));
    },

    checkAgent: async ({ params, body }, context) => {
      deps.assertAcceptingRuns();
      const entry = known(params.id);
      const path = context.requester.kind === "operator" ? body.environment?.["PATH"] : undefined;
      const agent = await listing(entry, path ?? process.env["PATH"]);
      const checks: Check[] = [];
      for (const [name, forms] of programsOf(agent))
        checks.push(await checkProgram(deps, context, entry, body, name, forms));
      return { agent, checks };
    },

    runAgent: async ({ params, body }, context) => {
      deps.assertAcceptingRuns();
      assertMaySetOrigin(context.requester, body, deps.channels);
      const entry = known(params.id);
      const { cli } = entry;
      if (cli === undefined)
        throw new BadInput("agent", `${entry.id} has no one-shot command; nothing was started`);
      const { prompt: asked, resume, ...said } = body;
      const before =
        resume === undefined ? null : await resolveResumedSession(deps, context, entry.id, resume);
      const resumed = before?.session ?? null;
      const pending = resumed === null ? "" : await oneShotAgents.pendingMessages(resumed);
      const prompt = `${pending}${asked}`;
      const timeoutMs = body.timeoutMs ?? deps.defaults["timeout-ms"];
      const sessionId = before?.agentSessionId ?? null;
      const runId = body.runId ?? newRunId();
      const newSessionId = newAgentSessionId(runId);
      const command = cliCommand(cli, { prompt, sessionId, newSessionId, timeoutMs });
      const question = {
        argv: command.argv,
        cwd: body.cwd,
        environment: body.environment,
        env: {},
        entry,
        stdin: command.stdin === null ? NO_STDIN : ({ kind: "text", text: command.stdin } as const),
      };
      const allowed = await authorizeCommand(deps, context, question);
      // The approval may have taken long; the gateway may be stopping by now.
      deps.assertAcceptingRuns();
      const session = resumed ?? (await openAgentSession(deps, context, entry.id, runId, body));
      // A repeated request: returns the missing part of the answer.
      await assertRunIdUnused(supervisor, runId, (run) => run.sessionId === session.id);
      const spool = { boundBytes: defaults.agentSpoolBytes };
      const identity = {
        ...(await issueExecIdentity(deps.sessions, session)),
        backendId: CLI_BACKEND,
        stdout: spool,
        stderr: spool,
      };
      const whole = {
        ...execBody.parse({ argv: allowed.argv }),
        ...said,
        environment: { ...allowed.environment },
        ...entryEnvironment(entry),
        timeoutMs,
        noOutputTimeoutMs: command.noOutputTimeoutMs,
        onEscape: "sweep" as const,
        runId,
        ...(command.stdin === null ? {} : { input: command.stdin }),
      };
      const from =
        context.requester.kind === "session" ? { fromSessionId: context.requester.session.id } : {};
      const start = async (saying?: StartHooks) => {
        const answer = await oneShotAgents.startPrompt(
          session,
          runId,
          { text: prompt, actor: context.requester.actor, ...from },
          () => execCommand(deps, whole, context, identity, saying),
        );
        return {
          ...answer,
          session,
          result: answer.running ? null : await oneShotAgents.result(session, runId),
        };
      };
      const work = await subagentTask(deps, context, body, session, runId);
      return work === null
        ? start()
        : deps.background.runAsTask(work, start, waitingOptions(body, context.disconnected));
    },

    agentResult: async ({ params }, { requester }) => {
      const { runId, sessionId } = await authorizer.requireRun(supervisor, requester, params.runId);
      const session = sessionId === null ? null : await deps.sessions.get(sessionId);
      if (session === null) throw new BadInput("runId", `run ${runId} is not a prompt of \`agent run\``);
      return { session, result: await oneShotAgents.result(session, runId) };
    },
  } satisfies Partial<RouteHandlers>;
}

/** The task of a session's request, or of an operator's background request. Null: the caller waits. */
async function subagentTask(
  deps: HandlerDeps,
  { requester }: RequestContext,
  body: ParsedRequestOf<"runAgent">["body"],
  session: SessionRecord,
  runId: string,
): Promise<TaskInput | null> {
  const parentSessionId = sessionIdOf(requester) ?? (await findParentSession(deps.sessions, session));
  if (parentSessionId === null && !body.background) return null;
  const seesResult = body.foreground !== undefined;
  return {
    runtime: "subagent",
    key: taskKeyOfRun(runId),
    text: body.prompt,
    childSessionId: session.id,
    agentId: session.agentId,
    runId,
    parentTaskId: await findCurrentTask(deps.store, requester),
    ...(await resolveTargets(deps, { requester, requested: body, mode: "run", parentSessionId, seesResult })),
  };
}

interface ResumedSession {
  /** Null: a session that only the agent knows. */
  readonly session: SessionRecord | null;
  readonly agentSessionId: string;
}

/** A visible session of the agent by id, key or the agent's own id; for the operator, also an id that only the agent knows. */
async function resolveResumedSession(
  { authorizer, supervisor }: HandlerDeps,
  { requester }: RequestContext,
  agentId: string,
  wanted: string,
): Promise<ResumedSession> {
  const seen = await authorizer.listSessions(requester, {
    open: true,
    agentId,
    backend: CLI_BACKEND,
    limit: 100_000,
  });
  const mine = seen.filter(({ gatewayInstanceId }) => gatewayInstanceId === supervisor.instanceId);
  const able = mine.filter(({ agentSessionId }) => agentSessionId !== null);
  const found =
    wanted === "last"
      ? able[0]
      : (mine.find(({ id, key }) => id === wanted || key === wanted) ??
        able.find(({ agentSessionId }) => agentSessionId === wanted));
  if (found?.agentSessionId === null)
    throw new BadInput(
      "resume",
      `session ${found.id} cannot be resumed: ${agentId} has not reported a session id; nothing was started`,
    );
  if (found !== undefined) return { session: found, agentSessionId: found.agentSessionId };
  if (requester.kind === "operator" && wanted !== "last") return { session: null, agentSessionId: wanted };
  throw new NotFound(`session ${wanted} of ${agentId}`);
}

/** The key is derived from the run id, so that a repeated request finds the same session. */
async function openAgentSession(
  { sessions }: HandlerDeps,
  { requester }: RequestContext,
  agentId: string,
  runId: string,
  { background }: ParsedRequestOf<"runAgent">["body"],
): Promise<SessionRecord> {
  const { session } = await sessions.openFor(
    requester.kind === "session" ? requester.session : null,
    `${agentId}-${runId.slice("run_".length)}`,
    { agentId, backend: CLI_BACKEND, interactionMode: background ? "run" : "interactive" },
  );
  return session;
}

async function checkProgram(
  deps: HandlerDeps,
  context: RequestContext,
  entry: AgentEntry,
  body: ParsedRequestOf<"checkAgent">["body"],
  name: string,
  { forms, executable }: Pick<Check, "forms" | "executable">,
): Promise<Check> {
  if (executable === null) return { forms, executable, version: null, failure: "not-found", runId: null };
  const argv = [name, ...entry.versionArgs];
  const question = { argv, cwd: body.cwd, environment: body.environment, env: {}, entry };
  const { identity, command } = await authorizeExec(deps, context, question, {});
  const whole = {
    ...execBody.parse({ argv: command.argv }),
    ...body,
    ...(command.environment === undefined ? {} : { environment: { ...command.environment } }),
    ...entryEnvironment(entry),
    timeoutMs: defaults.agentVersionMs,
    graceMs: defaults.graceMs,
    yieldMs: defaults.agentVersionMs + AFTER_DEADLINE_MS,
    onEscape: "sweep" as const,
    maxChars: 4_096,
  };
  const answer = await execCommand(deps, whole, context, identity);
  return { forms, executable, ...toCheckResult(answer), runId: answer.run.runId };
}

/** A program that was stopped and has not ended does not work. */
export function toCheckResult({
  running,
  failure: why,
  output,
}: Pick<ResponseOf<"exec">, "running" | "failure" | "output">): Pick<Check, "version" | "failure"> {
  const failure = running ? "overall-timeout" : why;
  return {
    failure,
    version: failure === null ? parseVersion(output.map(({ text }) => text).join("\n")) : null,
  };
}

/** The variables of an entry are trusted: the operator wrote them. */
function entryEnvironment({ env }: AgentEntry) {
  return { env, allowEnv: Object.keys(env) };
}

/** Each program once, with its forms. */
function programsOf({ acp, cli }: AgentListing): Map<string, Pick<Check, "forms" | "executable">> {
  const programs = new Map<string, Pick<Check, "forms" | "executable">>();
  for (const [form, listed] of Object.entries({ acp, cli }) as ["acp" | "cli", typeof acp][]) {
    if (listed === null) continue;
    const name = listed.argv[0] ?? "";
    const forms = programs.get(name)?.forms ?? [];
    programs.set(name, { forms: [...forms, form], executable: listed.executable });
  }
  return programs;
}
