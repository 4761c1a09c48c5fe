import { defaults } from "../../defaults.js";
import { newOutboxEntry, type OutboxEntry } from "../../model/outbox.js";
import type { NewTaskEvent, TaskEvent, TaskRecord } from "../../model/task.js";
import type { Store } from "../store.js";
import type { OutboxResult } from "../tasks/contract.js";
import { overrideMethods } from "./run-copy.js";
import type { CopiedTaskChange, TaskCopy } from "./task-copy.js";

/**
 * The same store; tasks, messages and sessions are recorded in the local copy before their writes are answered. A failure
 * to write the copy is reported and changes nothing else. A message that is settled according to the copy is not sent
 * again if the store has lost that.
 */
export function withTaskCopy(
  store: Store,
  localCopy: TaskCopy,
  failing: (message: string, cause: unknown) => void,
): Store {
  const record = (news: CopiedTaskChange, durable: boolean): Promise<void> =>
    localCopy
      .record(news, durable)
      .catch((cause: unknown) => failing(`no copy of task ${news.taskId} could be kept on this host`, cause));
  const recordSession = async (id: string): Promise<void> => {
    const session = await store.getSession(id).catch(() => null);
    if (session !== null)
      await localCopy
        .recordSession(session)
        .catch((cause: unknown) => failing(`no copy of session ${id} could be kept on this host`, cause));
  };
  const recordDecision = async (taskId: string, entries: CopiedTaskChange["entries"]): Promise<void> => {
    const task = await store.getTask(taskId).catch(() => null);
    await record({ taskId, ...(task === null ? {} : { task }), entries: entries ?? [] }, true);
  };
  const failedEntries = (taskId: string): readonly OutboxEntry[] =>
    (localCopy.get(taskId)?.entries ?? []).filter(
      ({ status }) => status === "failed" || status === "parent_missing",
    );
  /** After a change of the server, another gateway may have delivered a message, and gets time to record that first. */
  const isDoubtful = ({ createdAt }: OutboxEntry): boolean =>
    createdAt <= store.generationChangedAt && Date.now() - store.generationChangedAt < defaults.outboxDoubtMs;
  const writes = {
    insertTask: async (task, events) => {
      const answer = await store.insertTask(task, events);
      if (answer.created)
        await record(
          { taskId: task.taskId, task: answer.task, events: numberEvents(answer.task, events) },
          // From here on the caller relies on the task.
          true,
        );
      return answer;
    },
    commitTask: async (taskId, version, change) => {
      const task = await store.commitTask(taskId, version, change);
      if (task === null) return null;
      const { events = [], notices = [], set = {} } = change;
      if (events.length === 0 && notices.length === 0 && set.policy === undefined) {
        localCopy.keepInMemory(task);
        return task;
      }
      const replacesUnsent = (set.endedAt ?? null) !== null || notices.length > 0 || set.policy !== undefined;
      const pending = (localCopy.get(taskId)?.entries ?? []).filter(
        ({ notification, status }) => notification.kind === "state" && status === "pending",
      );
      const copied = {
        taskId,
        task,
        events: numberEvents(task, events),
        entries: notices.map((notice) => newOutboxEntry(taskId, notice)),
        dropped: replacesUnsent ? pending.map(({ key }) => key) : [],
      };
      await record(copied, notices.length > 0);
      return task;
    },
    claimOutbox: async (claim) => {
      const claimed = await store.claimOutbox(claim);
      const fresh: OutboxEntry[] = [];
      for (const entry of claimed) {
        const known = localCopy.entry(entry.taskId, entry.key);
        // Settled according to the copy: the store has lost that, or could not be written then.
        const result =
          (known === null ? null : earlierResult(known)) ?? postponeIfDoubtful(entry, isDoubtful(entry));
        if (result === null) fresh.push(known === null ? entry : withAttempts(entry, known));
        else await store.settleOutbox(entry, result);
      }
      await Promise.all(fresh.map((entry) => record({ taskId: entry.taskId, entries: [entry] }, true)));
      return fresh;
    },
    settleOutbox: async (entry, result) => {
      const { key, taskId } = entry;
      // The outcome of the attempt is a fact, whether or not the store can be written.
      const certain = result.status === "delivered" || result.status === "pending";
      if (certain) await record({ taskId, entries: [{ key, ...entryAfter(result) }] }, false);
      const settled = await store.settleOutbox(entry, result);
      if (settled && !certain) await record({ taskId, entries: [{ key, ...entryAfter(result) }] }, false);
      return settled;
    },
    acknowledgeOutbox: async (key, taskId, at, as = "delivered") => {
      const done = await store.acknowledgeOutbox(key, taskId, at, as);
      if (done && localCopy.entry(taskId, key) !== null)
        await record({ taskId, entries: [{ key, status: as, settledAt: at }] }, false);
      return done;
    },
    retryOutbox: async (taskId, event) => {
      const count = await store.retryOutbox(taskId, event);
      if (count > 0)
        await recordDecision(
          taskId,
          failedEntries(taskId).map(({ key }) => ({ key, status: "pending", spentMs: 0, settledAt: null })),
        );
      return count;
    },
    dismissOutbox: async (taskId, event) => {
      const count = await store.dismissOutbox(taskId, event);
      if (count > 0)
        await recordDecision(
          taskId,
          failedEntries(taskId).map(({ key }) => ({ key, status: "dismissed", settledAt: event.at })),
        );
      return count;
    },
    deleteTasks: async (taskIds) => {
      // Deleted from the copy first: a task in the copy and not in the store would be restored.
      await localCopy
        .delete(taskIds)
        .catch((cause: unknown) => failing("old tasks could not be deleted from the local copy", cause));
      return store.deleteTasks(taskIds);
    },
    createSession: async (session) => {
      const answer = await store.createSession(session);
      if (answer.created) await recordSession(answer.session.id);
      return answer;
    },
    setAgentSessionId: async (id, agentSessionId) => {
      const set = await store.setAgentSessionId(id, agentSessionId);
      if (set && localCopy.session(id) !== null) await recordSession(id);
      return set;
    },
    closeSession: async (id, actor, at) => {
      const closed = await store.closeSession(id, actor, at);
      if (closed) await recordSession(id);
      return closed;
    },
  } satisfies Partial<Store>;
  return overrideMethods(store, writes);
}

/** The events of a step, numbered as the store has numbered them. */
function numberEvents(task: TaskRecord, events: readonly NewTaskEvent[]): readonly TaskEvent[] {
  const { taskId, seq } = task;
  return events.map((event, at) => ({ ...event, taskId, seq: seq - events.length + at + 1 }));
}

function postponeIfDoubtful({ spentMs }: OutboxEntry, doubt: boolean): OutboxResult | null {
  if (!doubt) return null;
  const error =
    "the store was restarted or replaced; waiting for other gateways to record what they delivered";
  return { status: "pending", error, spentMs, inMs: defaults.outboxDoubtMs };
}

/** The earlier outcome of a message that the store hands out; null: it must be sent. A message that waited in a session is put there again; its id keeps it from appearing twice. */
function earlierResult({ status, receipt, error, spentMs, settledAt }: OutboxEntry): OutboxResult | null {
  const at = settledAt ?? Date.now();
  switch (status) {
    case "delivered":
      return { status, receipt, at };
    case "dismissed":
    case "failed":
      return { status: "failed", error: error ?? "the message was dismissed", spentMs, at };
    case "parent_missing":
      return { status, at };
    case "pending":
    case "session_queued":
      return null;
  }
}

/** Attempts that the store has lost may have arrived, so the message is marked as a repetition. */
function withAttempts(entry: OutboxEntry, known: OutboxEntry): OutboxEntry {
  if (known.attempts < entry.attempts) return entry;
  const unheard = Math.max(entry.unheard, known.unheard + (known.leaseOwner === null ? 0 : 1));
  return { ...entry, unheard };
}

/** The entry as the store has it after an attempt. */
function entryAfter(result: OutboxResult): Partial<OutboxEntry> {
  switch (result.status) {
    case "pending":
      return { leaseOwner: null, error: result.error, spentMs: result.spentMs, ...unknownResult(result) };
    case "failed":
      return {
        status: "failed",
        leaseOwner: null,
        error: result.error,
        spentMs: result.spentMs,
        settledAt: result.at,
        ...unknownResult(result),
      };
    case "delivered":
      return {
        status: "delivered",
        leaseOwner: null,
        error: null,
        receipt: result.receipt,
        settledAt: result.at,
      };
    case "session_queued":
    case "parent_missing":
      return { status: result.status, leaseOwner: null, error: null, settledAt: result.at };
  }
}

function unknownResult({ unheard = false }: { readonly unheard?: boolean }): Partial<OutboxEntry> {
  return unheard ? { unheard: 1 } : {};
}
