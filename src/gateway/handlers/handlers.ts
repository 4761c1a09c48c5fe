import type { Supervisor } from "../../supervisor/api.js";
import type { RunFilter } from "../../store/store.js";
import { NotFound } from "../../errors.js";
import type { Callers } from "../callers.js";
import type { Screens } from "../screens.js";
import { mayExec, type ExecGate } from "../exec-gate.js";
import type { Handlers } from "../server/app.js";
import type { Requester } from "../server/requester.js";
import { execFor, type ExecDefaults } from "./exec.js";
import type { AcpVerb } from "./acp.js";
import { pollRun } from "./poll.js";
import { readyOrStopped, waitReady } from "./ready.js";
import { filterOf } from "./run-reader.js";
import { held, mayBeSteered, typedInto } from "./steered.js";
import { logOf } from "./log.js";
import { keysFor, pasteFor, screenshot, seemsToWait, withTerminal } from "./terminal.js";
import { once, visibleRun, type Sees } from "./visible.js";
import type { StopPolicy, Stopping } from "../stop.js";

export interface Desk {
  readonly acp: Pick<Handlers, AcpVerb>;
  /** False: the session has no agent over ACP, or that is closed already. */
  readonly closeAgent: (sessionId: string, actor: string) => Promise<boolean>;
  readonly supervisor: Supervisor;
  readonly sees: Sees;
  readonly gate: ExecGate;
  /** Throws once the gateway is being stopped: what is asked for now is for the next one. */
  readonly mayStart: () => void;
  readonly callers: Callers;
  readonly screens: Screens;
  readonly defaults: ExecDefaults;
  readonly about: () => Promise<Awaited<ReturnType<Handlers["status"]>>>;
  readonly stop: (policy: StopPolicy) => Promise<Stopping>;
}

export interface ExecQuestion {
  readonly argv: readonly string[];
  readonly cwd: string | undefined;
  readonly env: Readonly<Record<string, string>>;
}

export interface ExecIdentity {
  readonly sessionKey?: string;
  readonly sessionId?: string;
  readonly agentId?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** One function for each verb of the contract. */
export function createHandlers(desk: Desk): Handlers {
  const { supervisor, sees } = desk;
  const { sessions, approvals } = desk.gate;
  const visible = (requester: Requester, runId: string) => visibleRun(supervisor, sees, requester, runId);
  return {
    ...desk.acp,

    status: () => desk.about(),
    stop: ({ body }) => desk.stop(body),

    events: async ({ query }, { requester }) => {
      const { after, limit, run } = query;
      const found = await supervisor.listEvents({
        after,
        limit,
        ...(run === undefined ? {} : { runId: run }),
      });
      const events = [];
      const seen = once(sees);
      for (const event of found) {
        const record = await supervisor.getRun(event.runId);
        if (requester.kind === "operator" || (record !== null && (await seen(requester, record.sessionId))))
          events.push({ ...event, data: { ...event.data } as Record<string, unknown> });
      }
      return { events, after: found.at(-1)?.seq ?? after };
    },

    listRuns: async ({ query }, { requester }) => {
      const { limit, ...wanted } = query;
      const filter: RunFilter = {
        ...filterOf(wanted),
        // So many of those that are shown: what is hidden from a session must not use up its page.
        ...(requester.kind === "operator" ? { limit } : {}),
      };
      const runs = [];
      const seen = once(sees);
      for (const record of await supervisor.listRuns(filter)) {
        if (runs.length === limit) break;
        if (await seen(requester, record.sessionId)) runs.push(record);
      }
      return { runs };
    },

    getRun: ({ params }, { requester }) => visible(requester, params.runId),

    exec: async ({ body }, asking) => {
      desk.mayStart();
      const argv = body.argv ?? [body.shell ?? "/bin/sh", "-c", body.command ?? ""];
      const env = { ...(body.environment ?? (process.env as Record<string, string>)), ...body.env };
      const identity = await mayExec(desk.gate, asking, { argv, cwd: body.cwd, env }, body);
      // It may have taken a while to be allowed.
      desk.mayStart();
      return execFor(supervisor, desk.callers, body, asking, identity, desk.defaults);
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

    kill: async ({ params, body }, { requester }) => {
      const record = await visible(requester, params.runId);
      const { graceMs, reason } = body;
      const { outcome, survivors } = await supervisor.stop(record.runId, {
        actor: reason === undefined ? requester.actor : `${requester.actor} (${reason})`,
        ...(graceMs === undefined ? {} : { graceMs }),
      });
      return { outcome, survivors: [...survivors], run: (await supervisor.getRun(record.runId)) ?? record };
    },

    remove: async ({ params }, { requester }) => {
      const record = await visible(requester, params.runId);
      const stopping = record.state !== "exited";
      try {
        await supervisor.hide([record.runId]);
      } finally {
        // Also when it could not be hidden. Not waited for, and not lost when this gateway goes: what is hidden and
        // runs is stopped in its rounds.
        if (stopping) void supervisor.stop(record.runId, { actor: requester.actor }).catch(() => undefined);
      }
      return { runId: record.runId, stopping };
    },

    clear: async (_, { requester }) => {
      const whose = requester.kind === "operator" ? {} : { sessionId: requester.sessionId };
      const ended = await supervisor.listRuns({ ...whose, states: ["exited"], hidden: false });
      return { cleared: await supervisor.hide(ended.map(({ runId }) => runId)) };
    },

    ready: async ({ params, body: { timeoutMs, orStop } }, asking) => {
      const { runId } = await visible(asking.requester, params.runId);
      // Its end is committed a moment after it is over.
      const run = supervisor.run(runId);
      const readiness = await (orStop ? readyOrStopped : waitReady)(supervisor, runId, timeoutMs, asking);
      const ended = readiness.state === "ended" ? await run?.wait() : null;
      return { run: ended ?? (await visible(asking.requester, runId)), readiness };
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

    openSession: async ({ body: { key, ...options } }) => {
      const { session, created } = await sessions.open(key, defined(options));
      const token = await sessions.issueToken(session.id);
      if (token === null) throw new NotFound(`open session ${key}`);
      return { session, created, token };
    },

    listSessions: async ({ query: { all, limit } }, { requester }) => {
      const open = all === true ? {} : { open: true };
      if (requester.kind === "operator") return { sessions: [...(await sessions.list({ ...open, limit }))] };
      const self = await sessions.get(requester.sessionId);
      if (self === null) return { sessions: [] };
      const found = await sessions.list(open);
      return {
        sessions: found.filter((row) => sessions.requesterSees(self, row).visible).slice(0, limit),
      };
    },

    closeSession: async ({ params }, { requester }) => {
      // Its agent must not go on without it.
      const agents = await desk.closeAgent(params.id, requester.actor);
      return { closed: (await sessions.close(params.id, requester.actor)) || agents };
    },

    listApprovals: async () => ({ approvals: [...(await approvals.listPending())] }),

    decideApproval: async ({ params, body }, { requester }) => {
      const answer = await approvals.decide(params.id, body.verdict, requester.actor);
      if (answer === null) throw new NotFound(`approval ${params.id}`);
      return answer;
    },
  };
}

/** What was left out is not there, rather than undefined. */
function defined<T extends object>(options: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}
