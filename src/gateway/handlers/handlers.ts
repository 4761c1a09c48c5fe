import type { SpawnOptions, Supervisor } from "../../supervisor/api.js";
import type { RunProcesses } from "../../supervisor/live-processes.js";
import type { PresentGateway } from "../../store/gateway-presence.js";
import { OPEN_STATES, type RunRecord } from "../../store/run-record.js";
import type { RunFilter, Store } from "../../store/store.js";
import type { TaskStore } from "../../store/task-store.js";
import { EventCursor, type EventSource } from "../../store/event-cursor.js";
import type { HiddenEvent, RunEvent } from "../../store/run-event.js";
import { defaults } from "../../defaults.js";
import { NotFound } from "../../errors.js";
import { isStoreFailure } from "../../store/store-failure.js";
import type { AgentEntry } from "../../agents/entry.js";
import type { History } from "../../sessions/history.js";
import type { AskedStdin } from "../../sessions/question.js";
import type { AgentRuns } from "../agent-runs.js";
import type { Callers } from "../callers.js";
import type { Stops } from "../commands/hand-over.js";
import type { Screens } from "../screens.js";
import { mayExec, type AllowedCommand, type ExecGate } from "../exec-gate.js";
import type { AnswerOf, HeardOf } from "../contract/contract.js";
import type { Handlers } from "../server/app.js";
import type { Requester } from "../server/requester.js";
import { defined } from "./defined.js";
import type { ExecDefaults } from "./exec.js";
import { execInBackground } from "./exec-background.js";
import type { AcpVerb } from "./acp.js";
import { pollRun } from "./poll.js";
import { readyOrStopped, waitReady } from "./ready.js";
import { filterOf, nextOf, nowOf } from "./run-reader.js";
import { held, mayBeSteered, typedInto } from "./steered.js";
import { logOf } from "./log.js";
import { keysFor, pasteFor, screenshot, seemsToWait, withTerminal } from "./terminal.js";
import type { Sights } from "../sights.js";
import { agentHandlers } from "./agents.js";
import { channelHandlers, type ChannelDesk } from "./channels.js";
import type { KnownAgents } from "./list-agents.js";
import { sessionHandlers } from "./sessions.js";
import type { SessionRecords } from "./session-told.js";
import type { StopPolicy, Stopping } from "../stop.js";
import type { Background } from "../work/background.js";
import { mayBeTold } from "../work/whom.js";
import type { TaskVerb } from "./tasks.js";

export interface Desk extends ChannelDesk {
  readonly acp: Pick<Handlers, AcpVerb>;
  readonly tasks: Pick<Handlers, TaskVerb>;
  readonly background: Background;
  /** False: the session has no agent over ACP, or that is closed already. */
  readonly closeAgent: (sessionId: string, actor: string) => Promise<boolean>;
  /** Some of what waited for the session was read: whoever is told by that is told. Never rejects. */
  readonly onRead: (sessionId: string) => Promise<void>;
  readonly supervisor: Supervisor;
  readonly processesOf: (record: RunRecord) => Promise<RunProcesses>;
  readonly stops: Stops;
  /** Stops a run whose record cannot be read through the gateway that holds it. */
  readonly stopByPeers: (
    requester: Requester,
    runId: string,
    body: HeardOf<"kill">["body"],
    unread: unknown,
  ) => Promise<AnswerOf<"kill">>;
  readonly sights: Sights;
  readonly gate: ExecGate;
  readonly history: History;
  readonly records: SessionRecords &
    Pick<TaskStore, "listTasks"> &
    Pick<Store, "listEvents" | "listScopedEvents" | "eventsReach">;
  readonly agents: KnownAgents;
  readonly agentRuns: AgentRuns;
  readonly callers: Callers;
  readonly screens: Screens;
  readonly defaults: ExecDefaults;
  readonly about: () => Promise<Awaited<ReturnType<Handlers["status"]>>>;
  readonly gateways: () => Promise<readonly PresentGateway[]>;
  readonly stop: (policy: StopPolicy) => Promise<Stopping>;
}

export interface ExecQuestion {
  readonly argv: readonly string[];
  readonly cwd: string | undefined;
  /** The caller's whole environment; undefined: the caller gave none. */
  readonly environment: Readonly<Record<string, string>> | undefined;
  /** Variables to set in addition. */
  readonly env: Readonly<Record<string, string>>;
  /** Entry of the agent to start; the operator wrote it, so it is trusted. */
  readonly entry?: Pick<AgentEntry, "env" | "passEnv">;
  /** Default: none. */
  readonly stdin?: AskedStdin;
}

/** What a run is marked with; and how its output is kept, if not as usual. */
export type ExecIdentity = Pick<
  SpawnOptions,
  "sessionKey" | "sessionId" | "agentId" | "backendId" | "env" | "stdout" | "stderr"
>;

function stdinOf({ input, foreground, stdin, pty, command }: HeardOf<"exec">["body"]): AskedStdin {
  if (input !== undefined) return { kind: "text", text: input };
  if (pty || command !== undefined) return { kind: "terminal" };
  return { kind: foreground !== undefined || stdin === "pipe" ? "pipe" : "none" };
}

/** Records are written anew when they are hidden, with their labels: so many take some milliseconds. */
const HIDDEN_AT_ONCE = 50;

/** One function for each verb of the contract. */
export function createHandlers(desk: Desk): Handlers {
  const { supervisor, sights } = desk;
  const { approvals } = desk.gate;
  const visible = (requester: Requester, runId: string) => sights.run(supervisor, requester, runId);
  const seenBy = (requester: Requester): Pick<RunFilter, "seenBy"> => {
    const scope = sights.scopeOf(requester);
    return scope === null ? {} : { seenBy: scope };
  };
  const openRunsOf = async (requester: Requester): Promise<number> => {
    const filter = { states: OPEN_STATES, ...seenBy(requester), withoutLabels: true } as const;
    return (await supervisor.listRuns(filter)).length;
  };
  return {
    status: async (_, { requester }) => {
      const about = await desk.about();
      return requester.kind === "operator" ? about : { ...about, runs: await openRunsOf(requester) };
    },
    stop: ({ body }) => desk.stop(body),
    listGateways: async () => ({ gateways: [...(await desk.gateways())] }),

    events: async ({ query }, { requester }) => {
      const { after, limit, run } = query;
      const of = run === undefined ? {} : { runId: await sights.sought(supervisor, requester, run) };
      const scope = sights.scopeOf(requester);
      const source: EventSource<RunEvent | HiddenEvent> = {
        eventsReach: () => desk.records.eventsReach(),
        listEvents: (filter) =>
          scope === null ? desk.records.listEvents(filter) : desk.records.listScopedEvents(scope, filter),
      };
      const cursor = new EventCursor(source, after, of);
      const { events: found, gap } = await cursor.next(limit);
      const events = found.flatMap((event) =>
        event.type === "hidden" ? [] : [{ ...event, data: { ...event.data } }],
      );
      return { events, after: found.at(-1)?.seq ?? gap?.from ?? after, gap: gap !== null };
    },

    listRuns: async ({ query }, { requester }) => {
      const { limit, cursor, ...wanted } = query;
      const filter = { ...filterOf(wanted), ...seenBy(requester) };
      const { runs, storeAway } = await supervisor.listRunsOrLocal({
        ...filter,
        ...(cursor === undefined ? {} : { after: cursor }),
        limit,
        maxBytes: defaults.listBytes,
      });
      if (storeAway !== null) {
        // These records do not come from SQL, so SQL has not filtered them.
        const sees = sights.runsOf(requester);
        const seen = await Promise.all(runs.map(({ sessionId }) => sees(sessionId)));
        return { runs: runs.filter((_, at) => seen[at]), next: null, storeAway };
      }
      const last = runs.at(-1);
      const following = { ...filter, limit: 1, withoutLabels: true } as const;
      const more = last === undefined ? [] : await supervisor.listRuns({ ...following, after: last });
      return {
        runs: [...runs],
        next: last === undefined || more.length === 0 ? null : nextOf(last),
        storeAway,
      };
    },

    getRun: ({ params }, { requester }) => visible(requester, params.runId),

    runProcesses: async ({ params }, { requester }) => {
      const record = await visible(requester, params.runId);
      const { processes, claims, unknown } = await desk.processesOf(record);
      return {
        runId: record.runId,
        processes: processes.map(({ identity, ports, ...rest }) => ({
          ...identity,
          ...rest,
          ports: [...ports],
        })),
        claims: claims.map(({ identity, command }) => ({ ...identity, command })),
        unknown,
      };
    },

    exec: async ({ body }, asking) => {
      desk.mayStart();
      mayBeTold(asking.requester, body, desk.channels);
      const argv = body.argv ?? [body.shell ?? "/bin/sh", "-c", body.command ?? ""];
      const { cwd, environment, env } = body;
      const question = { argv, cwd, environment, env, stdin: stdinOf(body) };
      const { identity, command } = await mayExec(desk.gate, asking, question, body);
      // It may have taken a while to be allowed.
      desk.mayStart();
      return execInBackground(desk, withCommand(body, command), asking, identity);
    },

    poll: async ({ params, query }, asking) =>
      pollRun(supervisor, await visible(asking.requester, params.runId), query, asking, seemsToWait),

    log: async ({ params, query }, { requester }) =>
      logOf(supervisor, await visible(requester, params.runId), query),

    screen: async ({ params }, { requester }) => {
      const { rows, ...rest } = await screenshot(desk.screens, await visible(requester, params.runId));
      return { ...rest, rows: [...rows] };
    },

    write: async ({ params, body }, { requester }) => {
      const run = typedInto(supervisor, desk.callers, await visible(requester, params.runId));
      if (body.text !== undefined) await run.write(body.text);
      if (body.base64 !== undefined) await run.write(Buffer.from(body.base64, "base64"));
      if (body.close) await run.closeStdin();
      return {};
    },

    sendKeys: async ({ params, body }, { requester }) => {
      const record = await visible(requester, params.runId);
      const run = typedInto(supervisor, desk.callers, record);
      await run.write(await keysFor(desk.screens, record, body.keys));
      return {};
    },

    paste: async ({ params, body }, { requester }) => {
      const record = await visible(requester, params.runId);
      const run = typedInto(supervisor, desk.callers, record);
      const { bytes, bracketed } = await pasteFor(desk.screens, record, body.text);
      await run.write(bytes);
      if (body.submit) await run.write("\r");
      return { bracketed };
    },

    resize: async ({ params, body }, { requester }) => {
      const record = await visible(requester, params.runId);
      withTerminal(record);
      const run = held(supervisor, record);
      mayBeSteered(run, desk.callers);
      run.resize(body);
      return {};
    },

    heartbeat: async ({ params }, { requester }) => {
      held(supervisor, await visible(requester, params.runId)).heartbeat();
      return {};
    },

    kill: async ({ params, body }, { requester, gone, fromPeer = false }) => {
      const found = await visible(requester, params.runId).then(
        (record) => ({ record, unread: null }),
        (unread: unknown) => ({ record: null, unread }),
      );
      if (found.record === null) {
        const { unread } = found;
        if (fromPeer || requester.kind !== "operator" || !isStoreFailure(unread)) throw unread;
        return desk.stopByPeers(requester, params.runId, body, unread);
      }
      const { record } = found;
      const { reason, ...rest } = body;
      const actor = reason === undefined ? requester.actor : `${requester.actor} (${reason})`;
      const { survivors, ...answer } = await desk.stops.stop(record, { actor, ...defined(rest) }, gone);
      // The answer that the run is gone does not wait for the store, which may be unreachable.
      const now = await nowOf(supervisor, record, defaults.localAnswerMs);
      return { ...answer, survivors: [...survivors], run: now.record };
    },

    remove: async ({ params }, { requester, gone }) => {
      const record = await visible(requester, params.runId);
      const stopping = record.state !== "exited";
      try {
        await supervisor.hide([record.runId]);
      } finally {
        // Also when it could not be hidden. Not waited for, and not lost when this gateway goes: what is hidden and
        // runs is stopped in its rounds.
        if (stopping) void desk.stops.stop(record, { actor: requester.actor }, gone).catch(() => undefined);
      }
      return { runId: record.runId, stopping };
    },

    clear: async (_, { requester, turn }) => {
      const whose = requester.kind === "operator" ? {} : { sessionId: requester.session.id };
      const ended = await supervisor.listRuns({
        ...whose,
        states: ["exited"],
        hidden: false,
        withoutLabels: true,
      });
      let cleared = 0;
      for (let at = 0; at < ended.length; at += HIDDEN_AT_ONCE) {
        const some = ended.slice(at, at + HIDDEN_AT_ONCE).map(({ runId }) => runId);
        cleared += await turn(() => supervisor.hide(some));
      }
      return { cleared };
    },

    ready: async ({ params, body: { timeoutMs, orStop } }, asking) => {
      const { runId } = await visible(asking.requester, params.runId);
      // Its end is committed a moment after it is over.
      const run = supervisor.run(runId);
      const readiness = await (orStop ? readyOrStopped : waitReady)(supervisor, runId, timeoutMs, asking);
      const ended = readiness.state === "ended" ? await run?.end() : null;
      return { run: ended?.record ?? (await visible(asking.requester, runId)), readiness };
    },

    adoptRun: async ({ params, body }, { requester }) => {
      const record = await visible(requester, params.runId);
      return supervisor.adoptRun(record.runId, { actor: requester.actor, ...body });
    },

    adoptProcess: async ({ params }, { requester }) => {
      const { record, from, warnings } = await supervisor.adoptProcess(params.pid, {
        actor: requester.actor,
      });
      return { run: record, from, warnings: [...warnings] };
    },

    ...desk.acp,
    ...desk.tasks,
    ...sessionHandlers(desk),
    ...agentHandlers(desk),
    ...channelHandlers(desk),

    listApprovals: async () => ({ approvals: [...(await approvals.listPending())] }),

    showApproval: async ({ params, query }) => {
      const page = await approvals.page(params.id, query.page, query.reveal === true);
      if (page === null) throw new NotFound(`approval ${params.id}`);
      return { ...page, parts: [...page.parts] };
    },

    decideApproval: async ({ params, body }, { requester }) => {
      const answer = await approvals.decide(params.id, body.verdict, requester.actor, body.digest);
      if (answer === null) throw new NotFound(`approval ${params.id}`);
      return answer;
    },
  };
}

/** The request with the allowed command in place of the requested one. */
function withCommand(body: HeardOf<"exec">["body"], { argv, environment, env }: AllowedCommand): typeof body {
  const [shell] = argv;
  return {
    ...body,
    ...(body.argv === undefined ? { shell } : { argv: [...argv] }),
    ...(environment === undefined ? {} : { environment: { ...environment } }),
    env: { ...env },
  };
}
