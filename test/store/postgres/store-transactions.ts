import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import type { OutboxEntry } from "../../../src/model/outbox.js";
import { newRunRecord } from "../../../src/store/runs/apply-change.js";
import type { Store } from "../../../src/store/store.js";
import { newCommand, newGateway } from "../../contract/gateway-contract.js";
import {
  EXITED,
  LEASE_MS,
  newRun,
  newRunEvent,
  ownClaim,
  RUNNING,
  stealClaim,
} from "../../support/store/run-samples.js";
import {
  AT,
  newAcpSession,
  newApproval,
  newMessage,
  newSession,
} from "../../support/store/session-samples.js";
import { endWithNotification, newTask, taskEvent } from "../../support/store/task-samples.js";

/** One call on records of its own. */
interface StoreCall {
  readonly call: () => Promise<unknown>;
  /** One value for each part of what the call writes: all are true, or all are false. */
  readonly halves?: () => Promise<readonly boolean[]>;
}

/** Prepares a call. `store` has the connection that is cut; `direct` has another. */
export type PrepareCall = (store: Store, direct: Store) => Promise<StoreCall>;

const bounds = { bytes: 1_000_000, messages: 1_000, pending: 100 };

const hasEvent = async (direct: Store, runId: string): Promise<boolean> =>
  (await direct.listEvents({ runId })).length > 0;

async function openSession(direct: Store) {
  return (await direct.createSession(newSession())).session;
}

/** A task with one message that is being sent. */
async function undelivered(direct: Store): Promise<{ taskId: string; entry: OutboxEntry }> {
  const { task } = await direct.insertTask(newTask(), []);
  await direct.commitTask(task.taskId, 1, endWithNotification(task.taskId));
  const all = await direct.claimOutbox({ owner: task.taskId, limit: 1_000, leaseMs: 600_000 });
  const entry = all.find(({ taskId }) => taskId === task.taskId);
  return { taskId: task.taskId, entry: entry ?? expect.fail("nothing to claim") };
}

/** Calls that write several records, or need some. */
export const transactions: Readonly<Record<string, PrepareCall>> = {
  insertRun: async (store, direct) => {
    const run = newRun();
    const halves = async () => [(await direct.getRun(run.runId)) !== null, await hasEvent(direct, run.runId)];
    return { call: () => store.insertRun(run, LEASE_MS, [newRunEvent(run.runId)]), halves };
  },
  "saveRun, a step": async (store, direct) => {
    const lease = await direct.insertRun(newRun(), LEASE_MS);
    const halves = async () => [
      (await direct.getRun(lease.runId))?.state === "running",
      await hasEvent(direct, lease.runId),
    ];
    return { call: () => store.saveRun(lease, RUNNING, [newRunEvent(lease.runId)]), halves };
  },
  "saveRun, the end": async (store, direct) => {
    const lease = await direct.insertRun(newRun(), LEASE_MS);
    return { call: () => store.saveRun(lease, EXITED) };
  },
  finalizeRun: async (store, direct) => {
    const lease = await direct.insertRun(newRun(), LEASE_MS);
    const halves = async () => [
      (await direct.getRun(lease.runId))?.state === "exited",
      await hasEvent(direct, lease.runId),
    ];
    return { call: () => store.finalizeRun(lease, EXITED, [newRunEvent(lease.runId)]), halves };
  },
  acquireLease: async (store, direct) => {
    const lease = await direct.insertRun(newRun(), LEASE_MS);
    const halves = async () => [
      (await direct.getRun(lease.runId))?.leaseEpoch === 2,
      await hasEvent(direct, lease.runId),
    ];
    return { call: () => store.acquireLease(ownClaim(lease), [newRunEvent(lease.runId)]), halves };
  },
  acquireAndFinalizeRun: async (store, direct) => {
    const lease = await direct.insertRun(newRun(), -1);
    const halves = async () => {
      const run = await direct.getRun(lease.runId);
      return [
        run?.state === "exited",
        run?.ownerInstanceId === "owner-b",
        await hasEvent(direct, lease.runId),
      ];
    };
    const end = EXITED;
    return {
      call: () => store.acquireAndFinalizeRun(stealClaim(lease, "owner-b"), end, [newRunEvent(lease.runId)]),
      halves,
    };
  },
  restoreRun: async (store, direct) => {
    const run = newRunRecord(newRun(), 0);
    const halves = async () => [(await direct.getRun(run.runId)) !== null, await hasEvent(direct, run.runId)];
    return { call: () => store.restoreRun(run, LEASE_MS, [newRunEvent(run.runId)]), halves };
  },
  deleteRuns: async (store, direct) => {
    const lease = await direct.insertRun(newRun(), LEASE_MS, [newRunEvent("")]);
    await direct.saveRun(lease, EXITED, [newRunEvent(lease.runId)]);
    const halves = async () => [
      (await direct.getRun(lease.runId)) === null,
      !(await hasEvent(direct, lease.runId)),
    ];
    return { call: () => store.deleteRuns([lease.runId]), halves };
  },
  hideRuns: async (store, direct) => {
    const live = await direct.insertRun(newRun(), LEASE_MS);
    const ended = await direct.insertRun(newRun(), LEASE_MS);
    await direct.saveRun(ended, EXITED);
    const runIds = [live.runId, ended.runId];
    const halves = async () =>
      Promise.all(runIds.map(async (runId) => (await direct.getRun(runId))?.hiddenAt === AT));
    return { call: () => store.hideRuns(runIds, AT), halves };
  },
  closeSession: async (store, direct) => {
    const session = await openSession(direct);
    const approval = newApproval(session.id);
    await direct.insertApproval(approval);
    const halves = async () => [
      (await direct.getSession(session.id))?.closedAt !== null,
      (await direct.getApproval(approval.id))?.decision !== null,
    ];
    return { call: () => store.closeSession(session.id, "a", AT), halves };
  },
  registerGateway: async (store, direct) => {
    const gateway = newGateway({ instanceId: randomUUID(), hostId: randomUUID() });
    const halves = async () => [
      (await direct.getGateway(gateway.instanceId)) !== null,
      (await direct.listHosts()).some(({ hostId }) => hostId === gateway.hostId),
    ];
    return { call: () => store.registerGateway(gateway), halves };
  },
  insertRemoteStop: async (store, direct) => {
    const command = newCommand({ id: randomUUID(), runId: randomUUID() });
    const halves = async () => [
      (await direct.getRemoteStop(command.id)) !== null,
      await hasEvent(direct, command.runId),
    ];
    return { call: () => store.insertRemoteStop(command, [newRunEvent(command.runId)]), halves };
  },
  finishRemoteStop: async (store, direct) => {
    const command = newCommand({ id: randomUUID(), runId: randomUUID() });
    await direct.insertRemoteStop(command, []);
    const halves = async () => [
      (await direct.getRemoteStop(command.id))?.doneAt !== null,
      await hasEvent(direct, command.runId),
    ];
    const result = { outcome: "gone", survivors: [], error: null } as const;
    return { call: () => store.finishRemoteStop(command.id, result, [newRunEvent(command.runId)]), halves };
  },
  appendMessage: async (store, direct) => {
    const session = await openSession(direct);
    const halves = async () => [(await direct.countMessages(session.id)).total === 1];
    const said = newMessage(session.id, { cause: "c" });
    return { call: () => store.appendMessage(said, bounds), halves };
  },
  deliverMessages: async (store, direct) => {
    const session = await openSession(direct);
    const said = [newMessage(session.id), newMessage(session.id)];
    for (const each of said) await direct.appendMessage(each, bounds);
    const ids = said.map(({ id }) => id);
    const halves = async () =>
      (await direct.listMessages(session.id, { limit: 9 })).map(({ deliveredAt }) => deliveredAt !== null);
    return { call: () => store.deliverMessages(session.id, ids, AT), halves };
  },
  insertAcpSession: async (store, direct) => {
    const session = await openSession(direct);
    return { call: () => store.insertAcpSession(newAcpSession(session.id)) };
  },
  commitAcpChange: async (store, direct) => {
    const session = newSession();
    const runId = randomUUID();
    await direct.createSession(session);
    await direct.insertAcpSession(newAcpSession(session.id));
    const halves = async () => [
      (await direct.getAcpSession(session.id))?.end === 99,
      (await direct.listAcpUpdates({ sessionId: session.id })).length > 0,
      await hasEvent(direct, runId),
    ];
    const updates = [{ turnId: null, at: AT, type: "update", data: {} }] as const;
    const change = { session: { end: 99 }, updates, events: [newRunEvent(runId)] };
    return { call: () => store.commitAcpChange(session.id, "in_1", change), halves };
  },
  insertTask: async (store, direct) => {
    const task = newTask();
    const halves = async () => [
      (await direct.getTask(task.taskId)) !== null,
      (await direct.listTaskEvents(task.taskId)).length === 1,
    ];
    return { call: () => store.insertTask(task, [taskEvent("created")]), halves };
  },
  commitTask: async (store, direct) => {
    const { task } = await direct.insertTask(newTask(), []);
    const { taskId } = task;
    const halves = async () => [
      (await direct.getTask(taskId))?.endedAt !== null,
      (await direct.listTaskEvents(taskId)).length === 2,
      (await direct.listOutbox({ taskId })).length === 1,
    ];
    return { call: () => store.commitTask(taskId, 1, endWithNotification(taskId)), halves };
  },
  settleOutbox: async (store, direct) => {
    const { taskId, entry } = await undelivered(direct);
    const halves = async () => [
      (await direct.getTask(taskId))?.delivery === "delivered",
      (await direct.listOutbox({ taskId }))[0]?.status === "delivered",
    ];
    const result = { status: "delivered", receipt: null, at: AT } as const;
    return { call: () => store.settleOutbox(entry, result), halves };
  },
  acknowledgeOutbox: async (store, direct) => {
    const { taskId, entry } = await undelivered(direct);
    await direct.settleOutbox(entry, { status: "session_queued", at: AT });
    const halves = async () => [
      (await direct.getTask(taskId))?.delivery === "delivered",
      (await direct.listOutbox({ taskId }))[0]?.status === "delivered",
    ];
    return { call: () => store.acknowledgeOutbox(entry.key, taskId, AT), halves };
  },
  restoreTask: async (store, direct) => {
    const { taskId, entry } = await undelivered(direct);
    const task = (await direct.getTask(taskId)) ?? expect.fail("no task");
    const told = {
      taskId,
      task,
      events: [],
      entries: [{ ...entry, status: "delivered", settledAt: AT } as const],
      leaseMs: 1_000,
      waitMs: 0,
    };
    const halves = async () => [
      (await direct.getTask(taskId))?.delivery === "delivered",
      (await direct.listOutbox({ taskId }))[0]?.status === "delivered",
      (await direct.listTaskEvents(taskId)).some(({ type }) => type === "restored"),
    ];
    return { call: () => store.restoreTask(told, taskEvent("restored")), halves };
  },
  ...Object.fromEntries(
    (["retryOutbox", "dismissOutbox"] as const).map((name): [string, PrepareCall] => [
      name,
      async (store, direct) => {
        const { taskId, entry } = await undelivered(direct);
        await direct.settleOutbox(entry, { status: "parent_missing", at: AT });
        const halves = async () => [
          (await direct.getTask(taskId))?.delivery !== "parent_missing",
          (await direct.listOutbox({ taskId }))[0]?.status !== "parent_missing",
          (await direct.listTaskEvents(taskId)).length >= 3,
        ];
        return { call: () => store[name](taskId, taskEvent("retried")), halves };
      },
    ]),
  ),
  createSession: async (store) => ({ call: () => store.createSession(newSession()) }),
  insertApproval: async (store, direct) => {
    const session = await openSession(direct);
    return { call: () => store.insertApproval(newApproval(session.id)) };
  },
  issueToken: async (store, direct) => {
    const session = await openSession(direct);
    return { call: () => store.issueToken(session.id, randomUUID(), AT) };
  },
  rotateTokens: async (store, direct) => {
    const session = newSession();
    const [former, next] = [randomUUID(), randomUUID()];
    await direct.createSession(session);
    await direct.issueToken(session.id, former, AT);
    const halves = async () => [
      (await direct.resolveToken(former, AT + 1)) === null,
      (await direct.resolveToken(next, AT + 1)) !== null,
    ];
    const facts = { expiresAt: null, endAt: AT };
    return { call: () => store.rotateTokens(session.id, next, AT, facts), halves };
  },
};
