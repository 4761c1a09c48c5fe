import type { RouteHandlers } from "../../api/contract.js";
import { omitUndefined } from "../../model/record-type.js";
import { defaults } from "../../defaults.js";
import { readLog } from "../../queries/output.js";
import { pollRun } from "../../queries/poll.js";
import { currentRun, runCursor, resolveSessionOfRuns, runFilter, runsSeenBy } from "../../queries/runs.js";
import { assertHasTerminal, encodeKeysForRun, encodePasteForRun, screenshot } from "../../queries/screen.js";
import { OPEN_RUN_STATES } from "../../model/run.js";
import type { Requester } from "../../sessions/requester.js";
import { isStoreFailure } from "../../store/open.js";
import { listProcessesOfRun } from "../../supervisor/inspect/live-processes.js";
import { assertSteerable, requireHeldRun, requireInputRun } from "../foreground/input-guards.js";
import type { HandlerDeps } from "./handler-deps.js";

/** Hiding rewrites records with their labels; a batch takes some milliseconds. */
const HIDE_BATCH = 50;

export function createRunHandlers(deps: HandlerDeps) {
  const { supervisor, authorizer } = deps;
  const visible = (requester: Requester, runId: string) =>
    authorizer.requireRun(supervisor, requester, runId);
  return {
    listRuns: async ({ query }, { requester }) => {
      const { limit, cursor, ...wanted } = query;
      const scope = await resolveSessionOfRuns(wanted, (name) => authorizer.findSession(requester, name));
      const filter = { ...runFilter(scope), ...runsSeenBy(authorizer, requester) };
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
      const { processes, claims, unknown } = await listProcessesOfRun(
        deps.observer,
        record,
        await supervisor.listRuns({ states: OPEN_RUN_STATES, withoutLabels: true }),
        { ports: record.service !== null },
      );
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

    poll: async ({ params, query }, context) =>
      pollRun(supervisor, await visible(context.requester, params.runId), query, context),

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
        return deps.runStopper.stopThroughPeers(requester, params.runId, body, unread);
      }
      const { record } = found;
      const { reason, ...rest } = body;
      const actor = reason === undefined ? requester.actor : `${requester.actor} (${reason})`;
      const answer = await deps.runStopper.stop(record, { actor, ...omitUndefined(rest) }, disconnected);
      // The answer that the run is gone does not wait for the store, which may be unreachable.
      const now = await currentRun(supervisor, record, defaults.localAnswerMs);
      return { ...answer, run: now.record };
    },

    remove: async ({ params }, { requester, disconnected }) => {
      const record = await visible(requester, params.runId);
      const stopping = record.state !== "exited";
      try {
        await supervisor.hide([record.runId]);
      } finally {
        // Also if hiding failed. Not awaited; a periodic job stops hidden runs whose stop was lost.
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
  } satisfies Partial<RouteHandlers>;
}
