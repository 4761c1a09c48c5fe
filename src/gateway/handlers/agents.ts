import { versionIn, cliCommand } from "../../agents/command-line.js";
import type { AgentEntry } from "../../agents/entry.js";
import { defaults } from "../../defaults.js";
import { BadInput, NotFound } from "../../errors.js";
import { NO_STDIN } from "../../sessions/question.js";
import type { SessionRow } from "../../store/session-record.js";
import { newRunId } from "../../supervisor/ids.js";
import { keyOfRun } from "../../tasks/key.js";
import type { TaskInput } from "../../tasks/new-task.js";
import { CLI_BACKEND } from "../agent-runs.js";
import type { AnswerOf, HeardOf, Verb } from "../contract/contract.js";
import { execBody } from "../contract/exec.js";
import { allowedCommand, identityOf, mayExec } from "../exec-gate.js";
import type { Asking, Handlers } from "../server/app.js";
import { sessionIdOf } from "../server/requester.js";
import type { Going } from "../work/background.js";
import { awaitedUnless, mayBeTold, parentOf, taskOf, whomToTell } from "../work/whom.js";
import { mustBeUnused } from "./exec-background.js";
import { execFor } from "./exec.js";
import type { Desk } from "./handlers.js";
import { CallersPath, listAgent, listAgents, type AnyListing } from "./list-agents.js";

type AgentVerb = Extract<Verb, "listAgents" | "checkAgent" | "runAgent" | "agentResult">;
type Check = AnswerOf<"checkAgent">["checks"][number];

/** Room for the deadline to be kept before the answer is given without it. */
const AFTER_DEADLINE_MS = 10_000;

export function agentHandlers(desk: Desk): Pick<Handlers, AgentVerb> {
  const { supervisor, agents, agentRuns, sights } = desk;
  const callersPath = new CallersPath();
  const known = (id: string): AgentEntry => {
    const entry = agents.all.get(id);
    if (entry === undefined) throw new NotFound(`agent ${id}; holdfast agents list shows those there are`);
    return entry;
  };
  const listing = (entry: AgentEntry, path: string | undefined): Promise<AnyListing> =>
    listAgent(entry, agents.own.has(entry.id), path);

  return {
    listAgents: async ({ query: { path } }, { requester }) => {
      if (path === undefined) return listAgents(agents);
      if (requester.kind === "session")
        throw new BadInput(
          "path",
          "only the operator may choose where agents are searched for; leave path out to search the gateway's PATH",
        );
      return listAgents(agents, (await callersPath.directories(path)).join(":"));
    },

    checkAgent: async ({ params, body }, asking) => {
      desk.mayStart();
      const entry = known(params.id);
      const path = asking.requester.kind === "operator" ? body.environment?.["PATH"] : undefined;
      const agent = await listing(entry, path ?? process.env["PATH"]);
      const checks: Check[] = [];
      for (const [name, forms] of programsOf(agent))
        checks.push(await checkProgram(desk, asking, entry, body, name, forms));
      return { agent, checks };
    },

    runAgent: async ({ params, body }, asking) => {
      desk.mayStart();
      mayBeTold(asking.requester, body, desk.channels);
      const entry = known(params.id);
      const { cli } = entry;
      if (cli === undefined)
        throw new BadInput("agent", `${entry.id} has no command for a single prompt; nothing was started`);
      const { prompt: asked, resume, ...said } = body;
      const before = resume === undefined ? null : await resumed(desk, asking, entry.id, resume);
      const going = before?.session ?? null;
      const waited = going === null ? "" : await agentRuns.waiting(going);
      const prompt = `${waited}${asked}`;
      const timeoutMs = body.timeoutMs ?? desk.defaults["timeout-ms"];
      const sessionId = before?.agentSessionId ?? null;
      const command = cliCommand(cli, { prompt, sessionId, timeoutMs });
      const question = {
        argv: command.argv,
        cwd: body.cwd,
        environment: body.environment,
        env: {},
        entry,
        stdin: command.stdin === null ? NO_STDIN : ({ kind: "text", text: command.stdin } as const),
      };
      const allowed = await allowedCommand(desk.gate, asking, question);
      // It may have taken a while to be allowed.
      desk.mayStart();
      const runId = body.runId ?? newRunId();
      const session = before?.session ?? (await opened(desk, asking, entry.id, runId, body));
      // Of one that was asked for before, what is missing is given.
      await mustBeUnused(supervisor, runId, (run) => run.sessionId === session.id);
      const spool = { boundBytes: defaults.agentSpoolBytes };
      const identity = {
        ...(await identityOf(desk.gate.sessions, session)),
        backendId: CLI_BACKEND,
        stdout: spool,
        stderr: spool,
      };
      const whole = {
        ...execBody.parse({ argv: allowed.argv }),
        ...said,
        environment: { ...allowed.environment },
        ...given(entry),
        timeoutMs,
        noOutputTimeoutMs: command.noOutputTimeoutMs,
        onEscape: "sweep" as const,
        runId,
        ...(command.stdin === null ? {} : { input: command.stdin }),
      };
      const from = asking.requester.kind === "session" ? { fromSessionId: asking.requester.session.id } : {};
      const start = async (saying?: Going) => {
        const answer = await agentRuns.give(
          session,
          runId,
          { text: prompt, actor: asking.requester.actor, ...from },
          () => execFor(desk, whole, asking, identity, saying),
        );
        return { ...answer, session, result: answer.running ? null : await agentRuns.result(session, runId) };
      };
      const work = await subagentWork(desk, asking, body, session, runId);
      return work === null ? start() : desk.background.give(work, start, awaitedUnless(body, asking.gone));
    },

    agentResult: async ({ params }, { requester }) => {
      const { runId, sessionId } = await sights.run(supervisor, requester, params.runId);
      const session = sessionId === null ? null : await desk.gate.sessions.get(sessionId);
      if (session === null) throw new BadInput("runId", `run ${runId} was given no prompt by \`agent run\``);
      return { session, result: await agentRuns.result(session, runId) };
    },
  };
}

/** What a session has another do, and what an operator has done in the background. Null: its caller is there. */
async function subagentWork(
  desk: Desk,
  { requester }: Asking,
  body: HeardOf<"runAgent">["body"],
  session: SessionRow,
  runId: string,
): Promise<TaskInput | null> {
  const parentSessionId = sessionIdOf(requester) ?? (await parentOf(desk.gate.sessions, session));
  if (parentSessionId === null && !body.background) return null;
  const readsAlong = body.foreground !== undefined;
  return {
    runtime: "subagent",
    key: keyOfRun(runId),
    text: body.prompt,
    childSessionId: session.id,
    agentId: session.agentId,
    runId,
    parentTaskId: await taskOf(desk.records, requester),
    ...whomToTell({ requester, said: body, mode: "run", parentSessionId, readsAlong }),
  };
}

interface Resumed {
  /** Null: one that is only the agent's own. */
  readonly session: SessionRow | null;
  readonly agentSessionId: string;
}

/** One of this agent's sessions that may be seen, by any of its names; or, for the operator, whatever the agent itself calls so. */
async function resumed(
  { sights, supervisor }: Pick<Desk, "sights" | "supervisor">,
  { requester }: Asking,
  agentId: string,
  wanted: string,
): Promise<Resumed> {
  const seen = await sights.sessions(requester, {
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
      `${agentId} has not said how to go on with session ${found.id}; nothing was started`,
    );
  if (found !== undefined) return { session: found, agentSessionId: found.agentSessionId };
  if (requester.kind === "operator" && wanted !== "last") return { session: null, agentSessionId: wanted };
  throw new NotFound(`session ${wanted} of ${agentId} to go on with`);
}

/** By the run's id: when the answer is lost and it is asked again, it is the same. */
async function opened(
  { gate: { sessions } }: Pick<Desk, "gate">,
  { requester }: Asking,
  agentId: string,
  runId: string,
  { background }: HeardOf<"runAgent">["body"],
): Promise<SessionRow> {
  const { session } = await sessions.openFor(
    requester.kind === "session" ? requester.session : null,
    `${agentId}-${runId.slice("run_".length)}`,
    { agentId, backend: CLI_BACKEND, interactionMode: background ? "run" : "interactive" },
  );
  return session;
}

async function checkProgram(
  desk: Desk,
  asking: Asking,
  entry: AgentEntry,
  body: HeardOf<"checkAgent">["body"],
  name: string,
  { forms, executable }: Pick<Check, "forms" | "executable">,
): Promise<Check> {
  if (executable === null) return { forms, executable, version: null, failure: "not-found", runId: null };
  const argv = [name, ...entry.versionArgs];
  const question = { argv, cwd: body.cwd, environment: body.environment, env: {}, entry };
  const { identity, command } = await mayExec(desk.gate, asking, question, {});
  const whole = {
    ...execBody.parse({ argv: command.argv }),
    ...body,
    ...(command.environment === undefined ? {} : { environment: { ...command.environment } }),
    ...given(entry),
    timeoutMs: defaults.agentVersionMs,
    graceMs: defaults.graceMs,
    yieldMs: defaults.agentVersionMs + AFTER_DEADLINE_MS,
    onEscape: "sweep" as const,
    maxChars: 4_096,
  };
  const answer = await execFor(desk, whole, asking, identity);
  return { forms, executable, ...toldBy(answer), runId: answer.run.runId };
}

/** One that has been told to end and has not yet is no program that works. */
export function toldBy({
  running,
  failure: why,
  output,
}: Pick<AnswerOf<"exec">, "running" | "failure" | "output">): Pick<Check, "version" | "failure"> {
  const failure = running ? "overall-timeout" : why;
  return { failure, version: failure === null ? versionIn(output.map(({ text }) => text).join("\n")) : null };
}

/** The operator has vouched for what an entry sets. */
function given({ env }: AgentEntry) {
  return { env, allowEnv: Object.keys(env) };
}

/** Each program once, with all that it is called for. */
function programsOf({ acp, cli }: AnyListing): Map<string, Pick<Check, "forms" | "executable">> {
  const programs = new Map<string, Pick<Check, "forms" | "executable">>();
  for (const [form, listed] of Object.entries({ acp, cli }) as ["acp" | "cli", typeof acp][]) {
    if (listed === null) continue;
    const name = listed.argv[0] ?? "";
    const forms = programs.get(name)?.forms ?? [];
    programs.set(name, { forms: [...forms, form], executable: listed.executable });
  }
  return programs;
}
