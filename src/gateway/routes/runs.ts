import type { ParsedRequestOf, ResponseOf } from "../../api/contract.js";
import type { AgentEntry } from "../../config/agents.js";
import { defaults } from "../../defaults.js";
import { NotFound } from "../../errors.js";
import type { HiddenEvent, RunEvent } from "../../model/run-event.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import type { KnownAgents } from "../../queries/agents.js";
import { readLog } from "../../queries/output.js";
import { pollRun } from "../../queries/poll.js";
import { currentRun, runCursor, runFilter } from "../../queries/runs.js";
import {
  assertHasTerminal,
  encodeKeysForRun,
  encodePasteForRun,
  type ScreenCache,
  screenshot,
  seemsToWaitForInput,
} from "../../queries/screen.js";
import type { SessionRecords } from "../../queries/sessions.js";
import type { RequestedStdin } from "../../sessions/approval-question.js";
import type { Authorizer } from "../../sessions/authorizer.js";
import type { SessionHistory } from "../../sessions/history.js";
import type { Requester } from "../../sessions/requester.js";
import type { GatewayWithStatus } from "../../store/gateways/status.js";
import { isStoreFailure } from "../../store/open.js";
import { EventCursor, type EventSource } from "../../store/runs/event-cursor.js";
import type { Store } from "../../store/store.js";
import type { RunFilter } from "../../store/runs/store.js";
import type { TaskStore } from "../../store/tasks/store.js";
import type { SpawnOptions, Supervisor } from "../../supervisor/api.js";
import type { RunProcesses } from "../../supervisor/inspect/live-processes.js";
import {
  type AllowedCommand,
  authorizeExec,
  type ExecAuthorizationDeps,
} from "../auth/exec-authorization.js";
import type { Background } from "../background/background.js";
import { assertMaySetOrigin } from "../background/notify-targets.js";
import type { OneShotAgents } from "../background/one-shot-agents.js";
import {
  assertSteerable,
  type ForegroundClients,
  requireHeldRun,
  requireInputRun,
} from "../foreground/foreground-clients.js";
import type { RunStopper } from "../remote-stops/run-stopper.js";
import type { RouteHandlers } from "../server/router.js";
import type { ShutdownPolicy, ShutdownSummary } from "../shutdown.js";
import type { AcpVerb } from "./acp.js";
import { createAgentHandlers } from "./agents.js";
import { type ChannelHandlerDeps, createChannelHandlers } from "./channels.js";
import { execAsTask } from "./exec-as-task.js";
import type { ExecDefaults } from "./exec.js";
import { waitReady, waitReadyOrStop } from "./readiness.js";
import { createSessionHandlers, omitUndefined } from "./sessions.js";
import type { TaskVerb } from "./tasks.js";

export interface HandlerDeps extends ChannelHandlerDeps {
  readonly acp: Pick<RouteHandlers, AcpVerb>;
  readonly tasks: Pick<RouteHandlers, TaskVerb>;
  readonly background: Background;
  /** False: the session has no agent over ACP, or that is closed already. */
  readonly closeAgent: (sessionId: string, actor: string) => Promise<boolean>;
  /** Some of what waited for the session was read: whoever is told by that is told. Never rejects. */
  readonly onRead: (sessionId: string) => Promise<void>;
  readonly supervisor: Supervisor;
  readonly listProcesses: (record: RunRecord) => Promise<RunProcesses>;
  readonly runStopper: RunStopper;
  /** Stops a run whose record cannot be read through the gateway that holds it. */
  readonly stopThroughPeers: (
    requester: Requester,
    runId: string,
    body: ParsedRequestOf<"kill">["body"],
    unread: unknown,
  ) => Promise<ResponseOf<"kill">>;
  readonly authorizer: Authorizer;
  readonly execAuth: ExecAuthorizationDeps;
  readonly history: SessionHistory;
  readonly records: SessionRecords &
    Pick<TaskStore, "listTasks"> &
    Pick<Store, "listEvents" | "listScopedEvents" | "eventsReach">;
  readonly agents: KnownAgents;
  readonly oneShotAgents: OneShotAgents;
  readonly foregroundClients: ForegroundClients;
  readonly screenCache: ScreenCache;
  readonly defaults: ExecDefaults;
  readonly gatewayStatus: () => Promise<Awaited<ReturnType<RouteHandlers["status"]>>>;
  readonly listGateways: () => Promise<readonly GatewayWithStatus[]>;
  readonly shutDown: (policy: ShutdownPolicy) => Promise<ShutdownSummary>;
}

export interface RequestedCommand {
  readonly argv: readonly string[];
  readonly cwd: string | undefined;
  /** The caller's whole environment; undefined: the caller gave none. */
  readonly environment: Readonly<Record<string, string>> | undefined;
  /** Variables to set in addition. */
  readonly env: Readonly<Record<string, string>>;
  /** Entry of the agent to start; the operator wrote it, so it is trusted. */
  readonly entry?: Pick<AgentEntry, "env" | "passEnv">;
  /** Default: none. */
  readonly stdin?: RequestedStdin;
}

/** What a run is marked with; and how its output is kept, if not as usual. */
export type ExecIdentity = Pick<
  SpawnOptions,
  "sessionKey" | "sessionId" | "agentId" | "backendId" | "env" | "stdout" | "stderr"
>;

function stdinForApproval({
  input,
  foreground,
  stdin,
  pty,
  command,
}: ParsedRequestOf<"exec">["body"]): RequestedStdin {
  if (input !== undefined) return { kind: "text", text: input };
  if (pty || command !== undefined) return { kind: "terminal" };
  return { kind: foreground !== undefined || stdin === "pipe" ? "pipe" : "none" };
}

/** Records are written anew when they are hidden, with their labels: so many take some milliseconds. */
const HIDE_BATCH = 50;

/** One function for each verb of the contract. */
export function createRouteHandlers(deps: HandlerDeps): RouteHandlers {
  const { supervisor, authorizer } = deps;
  const { approvals } = deps.execAuth;
  const visible = (requester: Requester, runId: string) =>
    authorizer.requireRun(supervisor, requester, runId);
  const seenBy = (requester: Requester): Pick<RunFilter, "seenBy"> => {
    const scope = authorizer.sessionScope(requester);
    return scope === null ? {} : { seenBy: scope };
  };
  const openRunsOf = async (requester: Requester): Promise<number> => {
    const filter = { states: OPEN_RUN_STATES, ...seenBy(requester), withoutLabels: true } as const;
    return (await supervisor.listRuns(filter)).length;
  };
  return {
    status: async (_, { requester }) => {
      const about = await deps.gatewayStatus();
      return requester.kind === "operator" ? about : { ...about, runs: await openRunsOf(requester) };
    },
    stop: ({ body }) => deps.shutDown(body),
    listGateways: async () => ({ gateways: [...(await deps.listGateways())] }),

    events: async ({ query }, { requester }) => {
      const { after, limit, run } = query;
      const of = run === undefined ? {} : { runId: await authorizer.maskRunId(supervisor, requester, run) };
      const scope = authorizer.sessionScope(requester);
      const source: EventSource<RunEvent | HiddenEvent> = {
        eventsReach: () => deps.records.eventsReach(),
        listEvents: (filter) =>
          scope === null ? deps.records.listEvents(filter) : deps.records.listScopedEvents(scope, filter),
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
      const filter = { ...runFilter(wanted), ...seenBy(requester) };
      const { runs, storeAway } = await supervisor.listRunsOrLocal({
        ...filter,
        ...(cursor === undefined ? {} : { after: cursor }),
        limit,
        maxBytes: defaults.listBytes,
      });
      if (storeAway !== null) {
        // These records do not come from SQL, so SQL has not filtered them.
        const sees = authorizer.canSeeRunsOf(requester);
        const seen = await Promise.all(runs.map(({ sessionId }) => sees(sessionId)));
        return { runs: runs.filter((_, at) => seen[at]), next: null, storeAway };
      }
      const last = runs.at(-1);
      const following = { ...filter, limit: 1, withoutLabels: true } as const;
      const more = last === undefined ? [] : await supervisor.listRuns({ ...following, after: last });
      return {
        runs: [...runs],
        next: last === undefined || more.length === 0 ? null : runCursor(last),
        storeAway,
      };
    },

    getRun: ({ params }, { requester }) => visible(requester, params.runId),

    runProcesses: async ({ params }, { requester }) => {
      const record = await visible(requester, params.runId);
      const { processes, claims, unknown } = await deps.listProcesses(record);
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

    exec: async ({ body }, context) => {
      deps.assertAcceptingRuns();
      assertMaySetOrigin(context.requester, body, deps.channels);
      const argv = body.argv ?? [body.shell ?? "/bin/sh", "-c", body.command ?? ""];
      const { cwd, environment, env } = body;
      const question = { argv, cwd, environment, env, stdin: stdinForApproval(body) };
      const { identity, command } = await authorizeExec(deps.execAuth, context, question, body);
      // It may have taken a while to be allowed.
      deps.assertAcceptingRuns();
      return execAsTask(deps, withAuthorizedCommand(body, command), context, identity);
    },

    poll: async ({ params, query }, context) =>
      pollRun(
        supervisor,
        await visible(context.requester, params.runId),
        query,
        context,
        seemsToWaitForInput,
      ),

    log: async ({ params, query }, { requester }) =>
      readLog(supervisor, await visible(requester, params.runId), query),

    screen: async ({ params }, { requester }) => {
      const { rows, ...rest } = await screenshot(deps.screenCache, await visible(requester, params.runId));
      return { ...rest, rows: [...rows] };
    },

    write: async ({ params, body }, { requester }) => {
      const run = requireInputRun(supervisor, deps.foregroundClients, await visible(requester, params.runId));
      if (body.text !== undefined) await run.write(body.text);
      if (body.base64 !== undefined) await run.write(Buffer.from(body.base64, "base64"));
      if (body.close) await run.closeStdin();
      return {};
    },

    sendKeys: async ({ params, body }, { requester }) => {
      const record = await visible(requester, params.runId);
      const run = requireInputRun(supervisor, deps.foregroundClients, record);
      await run.write(await encodeKeysForRun(deps.screenCache, record, body.keys));
      return {};
    },

    paste: async ({ params, body }, { requester }) => {
      const record = await visible(requester, params.runId);
      const run = requireInputRun(supervisor, deps.foregroundClients, record);
      const { bytes, bracketed } = await encodePasteForRun(deps.screenCache, record, body.text);
      await run.write(bytes);
      if (body.submit) await run.write("\r");
      return { bracketed };
    },

    resize: async ({ params, body }, { requester }) => {
      const record = await visible(requester, params.runId);
      assertHasTerminal(record);
      const run = requireHeldRun(supervisor, record);
      assertSteerable(run, deps.foregroundClients);
      run.resize(body);
      return {};
    },

    heartbeat: async ({ params }, { requester }) => {
      requireHeldRun(supervisor, await visible(requester, params.runId)).heartbeat();
      return {};
    },

    kill: async ({ params, body }, { requester, disconnected, fromPeer = false }) => {
      const found = await visible(requester, params.runId).then(
        (record) => ({ record, unread: null }),
        (unread: unknown) => ({ record: null, unread }),
      );
      if (found.record === null) {
        const { unread } = found;
        if (fromPeer || requester.kind !== "operator" || !isStoreFailure(unread)) throw unread;
        return deps.stopThroughPeers(requester, params.runId, body, unread);
      }
      const { record } = found;
      const { reason, ...rest } = body;
      const actor = reason === undefined ? requester.actor : `${requester.actor} (${reason})`;
      const { survivors, ...answer } = await deps.runStopper.stop(
        record,
        { actor, ...omitUndefined(rest) },
        disconnected,
      );
      // The answer that the run is gone does not wait for the store, which may be unreachable.
      const now = await currentRun(supervisor, record, defaults.localAnswerMs);
      return { ...answer, survivors: [...survivors], run: now.record };
    },

    remove: async ({ params }, { requester, disconnected }) => {
      const record = await visible(requester, params.runId);
      const stopping = record.state !== "exited";
      try {
        await supervisor.hide([record.runId]);
      } finally {
        // Also when it could not be hidden. Not waited for, and not lost when this gateway goes: what is hidden and
        // runs is stopped in its rounds.
        if (stopping)
          void deps.runStopper.stop(record, { actor: requester.actor }, disconnected).catch(() => undefined);
      }
      return { runId: record.runId, stopping };
    },

    clear: async (_, { requester, enqueue: turn }) => {
      const whose = requester.kind === "operator" ? {} : { sessionId: requester.session.id };
      const ended = await supervisor.listRuns({
        ...whose,
        states: ["exited"],
        hidden: false,
        withoutLabels: true,
      });
      let cleared = 0;
      for (let at = 0; at < ended.length; at += HIDE_BATCH) {
        const some = ended.slice(at, at + HIDE_BATCH).map(({ runId }) => runId);
        cleared += await turn(() => supervisor.hide(some));
      }
      return { cleared };
    },

    ready: async ({ params, body: { timeoutMs, orStop } }, context) => {
      const { runId } = await visible(context.requester, params.runId);
      // Its end is committed a moment after it is over.
      const run = supervisor.run(runId);
      const readiness = await (orStop ? waitReadyOrStop : waitReady)(supervisor, runId, timeoutMs, context);
      const ended = readiness.state === "ended" ? await run?.end() : null;
      return { run: ended?.record ?? (await visible(context.requester, runId)), readiness };
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

    ...deps.acp,
    ...deps.tasks,
    ...createSessionHandlers(deps),
    ...createAgentHandlers(deps),
    ...createChannelHandlers(deps),

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
function withAuthorizedCommand(
  body: ParsedRequestOf<"exec">["body"],
  { argv, environment, env }: AllowedCommand,
): typeof body {
  const [shell] = argv;
  return {
    ...body,
    ...(body.argv === undefined ? { shell } : { argv: [...argv] }),
    ...(environment === undefined ? {} : { environment: { ...environment } }),
    env: { ...env },
  };
}
