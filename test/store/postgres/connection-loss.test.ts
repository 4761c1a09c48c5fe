import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { RunExists, StateUnusable } from "../../../src/errors.js";
import type { OutboxEntry } from "../../../src/model/outbox.js";
import { clientTimeout } from "../../../src/store/postgres/session.js";
import { newRunRecord } from "../../../src/store/runs/apply-change.js";
import type { Store } from "../../../src/store/store.js";
import { newCommand } from "../../contract/command-contract.js";
import { newGateway } from "../../contract/gateway-contract.js";
import { type CutPoint, type CuttableProxy, startCuttableProxy } from "../../support/store/postgres-proxy.js";
import {
  type PostgresDatabase,
  type PostgresServer,
  startPostgresServer,
  storeUnusable,
  whyNoPostgres,
} from "../../support/store/postgres-server.js";
import {
  EXITED,
  LEASE_MS,
  newRun,
  newRunEvent,
  ownClaim,
  RUNNING,
  stealClaim,
  THIS_HOST,
} from "../../support/store/run-samples.js";
import {
  AT,
  newAcpSession,
  newApproval,
  newMessage,
  newSession,
} from "../../support/store/session-samples.js";
import { endWithNotification, newTask, taskEvent } from "../../support/store/task-samples.js";

/** One call, on things of its own; and afterwards, how much of it is there. */
interface Attempt {
  readonly call: () => Promise<unknown>;
  /** Each is true or false for one half of what the call does: they must be the same. */
  readonly halves?: () => Promise<readonly boolean[]>;
}

/** `direct` prepares and looks; `store` has the line that is cut. */
type Scene = (store: Store, direct: Store) => Promise<Attempt>;

const bounds = { bytes: 1_000_000, messages: 1_000, pending: 100 };

const toldOf = async (direct: Store, runId: string): Promise<boolean> =>
  (await direct.listEvents({ runId })).length > 0;

/** A task with one message, which is being sent. */
async function undelivered(direct: Store): Promise<{ taskId: string; entry: OutboxEntry }> {
  const { task } = await direct.insertTask(newTask(), []);
  await direct.commitTask(task.taskId, 1, endWithNotification(task.taskId));
  const all = await direct.claimOutbox({ owner: task.taskId, limit: 1_000, leaseMs: 600_000 });
  const entry = all.find(({ taskId }) => taskId === task.taskId);
  return { taskId: task.taskId, entry: entry ?? expect.fail("nothing to claim") };
}

const scenes: Readonly<Record<string, Scene>> = {
  insertRun: async (store, direct) => {
    const run = newRun();
    const halves = async () => [(await direct.getRun(run.runId)) !== null, await toldOf(direct, run.runId)];
    return { call: () => store.insertRun(run, LEASE_MS, [newRunEvent(run.runId)]), halves };
  },
  "saveRun, a step": async (store, direct) => {
    const lease = await direct.insertRun(newRun(), LEASE_MS);
    const halves = async () => [
      (await direct.getRun(lease.runId))?.state === "running",
      await toldOf(direct, lease.runId),
    ];
    return { call: () => store.saveRun(lease, RUNNING, [newRunEvent(lease.runId)]), halves };
  },
  "saveRun, the end": async (store, direct) => {
    const lease = await direct.insertRun(newRun(), LEASE_MS);
    return { call: () => store.saveRun(lease, EXITED) };
  },
  acquireLease: async (store, direct) => {
    const lease = await direct.insertRun(newRun(), LEASE_MS);
    const halves = async () => [
      (await direct.getRun(lease.runId))?.leaseEpoch === 2,
      await toldOf(direct, lease.runId),
    ];
    return { call: () => store.acquireLease(ownClaim(lease), [newRunEvent(lease.runId)]), halves };
  },
  acquireAndFinalizeRun: async (store, direct) => {
    const lease = await direct.insertRun(newRun(), -1);
    const halves = async () => {
      const run = await direct.getRun(lease.runId);
      return [run?.state === "exited", run?.ownerInstanceId === "owner-b", await toldOf(direct, lease.runId)];
    };
    const end = EXITED;
    return {
      call: () => store.acquireAndFinalizeRun(stealClaim(lease, "owner-b"), end, [newRunEvent(lease.runId)]),
      halves,
    };
  },
  restoreRun: async (store, direct) => {
    const run = newRunRecord(newRun(), 0);
    const halves = async () => [(await direct.getRun(run.runId)) !== null, await toldOf(direct, run.runId)];
    return { call: () => store.restoreRun(run, LEASE_MS, [newRunEvent(run.runId)]), halves };
  },
  deleteRuns: async (store, direct) => {
    const lease = await direct.insertRun(newRun(), LEASE_MS, [newRunEvent("")]);
    await direct.saveRun(lease, EXITED, [newRunEvent(lease.runId)]);
    const halves = async () => [
      (await direct.getRun(lease.runId)) === null,
      !(await toldOf(direct, lease.runId)),
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
    const session = newSession();
    await direct.createSession(session);
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
      await toldOf(direct, command.runId),
    ];
    return { call: () => store.insertRemoteStop(command, [newRunEvent(command.runId)]), halves };
  },
  finishRemoteStop: async (store, direct) => {
    const command = newCommand({ id: randomUUID(), runId: randomUUID() });
    await direct.insertRemoteStop(command, []);
    const halves = async () => [
      (await direct.getRemoteStop(command.id))?.doneAt !== null,
      await toldOf(direct, command.runId),
    ];
    const result = { outcome: "gone", survivors: [], error: null } as const;
    return { call: () => store.finishRemoteStop(command.id, result, [newRunEvent(command.runId)]), halves };
  },
  appendMessage: async (store, direct) => {
    const session = newSession();
    await direct.createSession(session);
    const halves = async () => [(await direct.countMessages(session.id)).total === 1];
    const said = newMessage(session.id, { cause: "c" });
    return { call: () => store.appendMessage(said, bounds), halves };
  },
  deliverMessages: async (store, direct) => {
    const session = newSession();
    await direct.createSession(session);
    const said = [newMessage(session.id), newMessage(session.id)];
    for (const each of said) await direct.appendMessage(each, bounds);
    const ids = said.map(({ id }) => id);
    const halves = async () =>
      (await direct.listMessages(session.id, { limit: 9 })).map(({ deliveredAt }) => deliveredAt !== null);
    return { call: () => store.deliverMessages(session.id, ids, AT), halves };
  },
  insertAcpSession: async (store, direct) => {
    const session = newSession();
    await direct.createSession(session);
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
      await toldOf(direct, runId),
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
    (["retryOutbox", "dismissOutbox"] as const).map((name): [string, Scene] => [
      name,
      async (store, direct) => {
        const { taskId, entry } = await undelivered(direct);
        await direct.settleOutbox(entry, { status: "parent_missing", at: AT });
        const halves = async () => [
          (await direct.getTask(taskId))?.delivery !== "parent_missing",
          (await direct.listOutbox({ taskId }))[0]?.status !== "parent_missing",
          (await direct.listTaskEvents(taskId)).length === 3,
        ];
        return { call: () => store[name](taskId, taskEvent("retried")), halves };
      },
    ]),
  ),
  createSession: async (store) => ({ call: () => store.createSession(newSession()) }),
  insertApproval: async (store, direct) => {
    const session = newSession();
    await direct.createSession(session);
    return { call: () => store.insertApproval(newApproval(session.id)) };
  },
  issueToken: async (store, direct) => {
    const session = newSession();
    await direct.createSession(session);
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
  ...Object.fromEntries(
    Object.entries({
      renewLeases: (store: Store) => store.renewLeases("owner-a", LEASE_MS),
      listUnattendedRuns: (store: Store) => store.listUnattendedRuns("owner-a", THIS_HOST),
      listOwnedRunIds: (store: Store) => store.listOwnedRunIds("owner-a"),
      getRun: (store: Store) => store.getRun("r"),
      findRuns: (store: Store) => store.findRuns("r", 1),
      listRuns: (store: Store) => store.listRuns({ limit: 1 }),
      listEvents: (store: Store) => store.listEvents({ limit: 1 }),
      appendEvents: (store: Store) => store.appendEvents([newRunEvent("r")]),
      eventsReach: (store: Store) => store.eventsReach(),
      countEndedRuns: (store: Store) => store.countEndedRuns(),
      now: (store: Store) => store.now(),
      heartbeatGateway: (store: Store) => store.heartbeatGateway("g"),
      retireGateway: (store: Store) => store.retireGateway("g"),
      deleteGateway: (store: Store) => store.deleteGateway("g"),
      getGateway: (store: Store) => store.getGateway("g"),
      listGateways: (store: Store) => store.listGateways(),
      registerHost: (store: Store) =>
        store.registerHost({ hostId: "h", name: randomUUID(), platform: "linux" }),
      listHosts: (store: Store) => store.listHosts(),
      countOpenRunsByOwner: (store: Store) => store.countOpenRunsByOwner(),
      unwritableTables: (store: Store) => store.unwritableTables(),
      restoreSession: (store: Store) =>
        store.restoreSession({ ...newSession(), closedAt: null, agentSessionId: null }),
      getRemoteStop: (store: Store) => store.getRemoteStop("c"),
      listRemoteStops: (store: Store) => store.listRemoteStops(["t"]),
      listRemoteStopsOfRun: (store: Store) => store.listRemoteStopsOfRun("r"),
      acceptRemoteStop: (store: Store) => store.acceptRemoteStop("c"),
      deleteRemoteStops: (store: Store) => store.deleteRemoteStops(60_000),
      getSession: (store: Store) => store.getSession("s"),
      getSessionByKey: (store: Store) => store.getSessionByKey("s"),
      listSessions: (store: Store) => store.listSessions({ limit: 1 }),
      setAgentSessionId: (store: Store) => store.setAgentSessionId("s", "a"),
      listMessages: (store: Store) => store.listMessages("s", { limit: 1 }),
      countMessages: (store: Store) => store.countMessages("s"),
      listUnansweredMessages: (store: Store) => store.listUnansweredMessages({ gatewayInstanceId: "g" }, 1),
      deleteSettledMessages: (store: Store) => store.deleteSettledMessages(0),
      getAcpSession: (store: Store) => store.getAcpSession("s"),
      listAcpSessions: (store: Store) => store.listAcpSessions({ limit: 1 }),
      getAcpTurn: (store: Store) => store.getAcpTurn("t"),
      listAcpTurns: (store: Store) => store.listAcpTurns({ sessionId: "s", limit: 1 }),
      listAcpUpdates: (store: Store) => store.listAcpUpdates({ sessionId: "s", limit: 1 }),
      getAcpPermissionRequest: (store: Store) => store.getAcpPermissionRequest("p"),
      listAcpPermissionRequests: (store: Store) => store.listAcpPermissionRequests({ limit: 1 }),
      deleteAcpUpdates: (store: Store) => store.deleteAcpUpdates(0),
      getTask: (store: Store) => store.getTask("t"),
      getTaskByKey: (store: Store) => store.getTaskByKey("k"),
      findTasks: (store: Store) => store.findTasks("t", 1),
      listTasks: (store: Store) => store.listTasks({ limit: 1 }),
      countOpenTasks: (store: Store) => store.countOpenTasks(),
      countUndelivered: (store: Store) => store.countUndelivered(),
      listTaskEvents: (store: Store) => store.listTaskEvents("t"),
      deleteTasks: (store: Store) => store.deleteTasks(["t"]),
      listOutbox: (store: Store) => store.listOutbox({ limit: 1 }),
      claimOutbox: (store: Store) => store.claimOutbox({ owner: "o", limit: 9, leaseMs: 1 }),
      nextOutboxDelay: (store: Store) => store.nextOutboxDelay(),
      releaseOutbox: (store: Store) => store.releaseOutbox("o"),
      deleteClosedSessions: (store: Store) => store.deleteClosedSessions(0),
      deleteSilentGateways: (store: Store) => store.deleteSilentGateways(60_000),
      resolveToken: (store: Store) => store.resolveToken("t", AT),
      bindToken: (store: Store) => store.bindToken("t", "r"),
      deleteEndedTokens: (store: Store) => store.deleteEndedTokens(AT),
      storedBytesOfSession: (store: Store) => store.storedBytesOfSession("s"),
      listScopedEvents: (store: Store) =>
        store.listScopedEvents({ sessionId: "s", descendants: false, agentIds: [] }, { limit: 1 }),
      findTokenHash: (store: Store) => store.findTokenHash("t"),
      revokeToken: (store: Store) => store.revokeToken("t"),
      decideApproval: (store: Store) => store.decideApproval("a", { verdict: "deny", actor: "b", at: AT }),
      expireApprovals: (store: Store) => store.expireApprovals(["a"], "b", AT),
      getApproval: (store: Store) => store.getApproval("a"),
      listApprovals: (store: Store) => store.listApprovals({ limit: 1 }),
      deleteDecidedApprovals: (store: Store) => store.deleteDecidedApprovals(0),
    }).map(([name, call]) => [name, async (store: Store) => ({ call: () => call(store) })]),
  ),
};

describe.skipIf(whyNoPostgres !== null)("a connection to PostgreSQL that is cut", () => {
  let server: PostgresServer;
  let proxy: CuttableProxy;
  let database: PostgresDatabase;
  let store: Store;
  let direct: Store;
  beforeAll(async () => {
    server = await startPostgresServer();
    database = await server.createDatabase();
    direct = await database.open();
    proxy = await startCuttableProxy(server.directory);
    store = await database.open({ url: database.url.replace(server.directory, proxy.directory) });
  });
  afterAll(async () => {
    proxy.mend();
    await store[Symbol.asyncDispose]();
    await direct[Symbol.asyncDispose]();
    await proxy[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  test("every call of the store is cut in this file", () => {
    const calls = new Set(Object.keys(scenes).map((name) => name.split(",")[0]));
    const entries = Object.entries(Object.getOwnPropertyDescriptors(store));
    const methods = entries.flatMap(([name, { value }]) => (typeof value === "function" ? [name] : []));
    expect(new Set(methods)).toEqual(calls);
  });

  for (const [name, scene] of Object.entries(scenes))
    test(`${name}: says that it cannot, has done all or nothing, and works again at once`, async () => {
      for (const what of ["request", "answer"] as const satisfies CutPoint[]) {
        let cuts = 0;
        for (let passing = 0; ; passing += 1) {
          const { call, halves } = await scene(store, direct);
          // An idle connection, so that it is the call that is cut, and not the way to it.
          await store.now();
          proxy.cut(what, passing);
          const error: unknown = await call().then(
            () => null,
            (reason: unknown) => reason,
          );
          const happened = proxy.mend();
          // Its event is shown once nobody can write one before it: also the one that was cut has to be over for that.
          const told = async (): Promise<Set<boolean>> => new Set(await halves?.());
          if (halves !== undefined)
            await expect.poll(async () => (await told()).size, { timeout: 15_000 }).toBe(1);
          // What was cut, if anything, was an announcement after the commit: nobody waits for that.
          if (error === null && happened) continue;
          if (error === null) break;
          expect(error).toBeInstanceOf(StateUnusable);
          expect((error as Error).message).toContain("not known");
          expect(happened).toBe(true);
          cuts += 1;
          await call().catch((again: unknown) => {
            // It was recorded after all, and that is an answer.
            if (!(again instanceof RunExists)) throw again;
          });
          if (halves !== undefined) await expect.poll(told, { timeout: 15_000 }).toEqual(new Set([true]));
        }
        expect(cuts).toBeGreaterThan(0);
      }
    });

  test("a server that hangs is given up within the limit, and asked again later", async () => {
    const url = database.url.replace(server.directory, proxy.directory);
    await using impatient = await database.open({ url, busyMs: 300 });
    proxy.mute();
    expect((await storeUnusable(impatient.renewLeases("owner-a", LEASE_MS))).message).toContain(
      "did not answer",
    );
    expect((await storeUnusable(impatient.now())).message).toContain("cannot be reached");
    proxy.mend();
    expect(await impatient.renewLeases("nobody", LEASE_MS)).toBe(0);
  });

  test("a supervisor hears that the store is silent before it has to stop steering", () => {
    expect(clientTimeout(defaults.storeBusyMs) + defaults.renewMs).toBeLessThan(defaults.selfFenceMs);
  });
});
