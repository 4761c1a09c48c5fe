import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { RunExists, StateUnusable } from "../../../src/errors.js";
import { clientTimeout } from "../../../src/store/postgres/prepare-connection.js";
import type { Store } from "../../../src/store/store.js";
import { type CutPoint, type CuttableProxy, startCuttableProxy } from "../../support/store/postgres-proxy.js";
import {
  type PostgresDatabase,
  type PostgresServer,
  startPostgresServer,
  storeUnusable,
  whyNoPostgres,
} from "../../support/store/postgres-server.js";
import { soak } from "../../support/scale.js";
import { LEASE_MS, newRunEvent, THIS_HOST } from "../../support/store/run-samples.js";
import { AT, newRememberedRule, newSession, OPEN_SESSION } from "../../support/store/session-samples.js";
import { type PrepareCall, transactions } from "./store-transactions.js";

/** Calls of one statement, which need no record. */
const statements: Readonly<Record<string, (store: Store) => Promise<unknown>>> = {
  renewLeases: (store) => store.renewLeases("owner-a", LEASE_MS),
  listUnattendedRuns: (store) => store.listUnattendedRuns("owner-a", THIS_HOST),
  listOwnedRunIds: (store) => store.listOwnedRunIds("owner-a"),
  getRun: (store) => store.getRun("r"),
  findRuns: (store) => store.findRuns("r", 1),
  listRuns: (store) => store.listRuns({ limit: 1 }),
  listEvents: (store) => store.listEvents({ limit: 1 }),
  appendEvents: (store) => store.appendEvents([newRunEvent("r")]),
  eventsReach: (store) => store.eventsReach(),
  countEndedRuns: (store) => store.countEndedRuns(),
  now: (store) => store.now(),
  heartbeatGateway: (store) => store.heartbeatGateway("g"),
  retireGateway: (store) => store.retireGateway("g"),
  deleteGateway: (store) => store.deleteGateway("g"),
  getGateway: (store) => store.getGateway("g"),
  listGateways: (store) => store.listGateways(),
  registerHost: (store) => store.registerHost({ hostId: "h", name: randomUUID(), platform: "linux" }),
  listHosts: (store) => store.listHosts(),
  countOpenRunsByOwner: (store) => store.countOpenRunsByOwner(),
  unwritableTables: (store) => store.unwritableTables(),
  restoreSession: (store) => store.restoreSession({ ...newSession(), ...OPEN_SESSION }),
  getRemoteStop: (store) => store.getRemoteStop("c"),
  listRemoteStops: (store) => store.listRemoteStops(["t"]),
  listRemoteStopsOfRun: (store) => store.listRemoteStopsOfRun("r"),
  acceptRemoteStop: (store) => store.acceptRemoteStop("c"),
  deleteRemoteStops: (store) => store.deleteRemoteStops(60_000),
  getSession: (store) => store.getSession("s"),
  getSessionByKey: (store) => store.getSessionByKey("s"),
  listSessions: (store) => store.listSessions({ limit: 1 }),
  setAgentSessionId: (store) => store.setAgentSessionId("s", "a"),
  recordSessionClosing: (store) => store.recordSessionClosing("s", "a", null),
  listMessages: (store) => store.listMessages("s", { limit: 1 }),
  countMessages: (store) => store.countMessages("s"),
  listUnansweredMessages: (store) => store.listUnansweredMessages({ gatewayInstanceId: "g" }, 1),
  deleteSettledMessages: (store) => store.deleteSettledMessages(0),
  getAcpSession: (store) => store.getAcpSession("s"),
  listAcpSessions: (store) => store.listAcpSessions({ limit: 1 }),
  getAcpTurn: (store) => store.getAcpTurn("t"),
  listAcpTurns: (store) => store.listAcpTurns({ sessionId: "s", limit: 1 }),
  listAcpUpdates: (store) => store.listAcpUpdates({ sessionId: "s", limit: 1 }),
  getAcpPermissionRequest: (store) => store.getAcpPermissionRequest("p"),
  listAcpPermissionRequests: (store) => store.listAcpPermissionRequests({ limit: 1 }),
  getRememberedRule: (store) => store.getRememberedRule("r"),
  listRememberedRules: (store) => store.listRememberedRules({ limit: 1 }),
  insertRememberedRule: (store) =>
    store.insertRememberedRule(newRememberedRule({ scope: "agent", agent: "a" })),
  revokeRememberedRule: (store) => store.revokeRememberedRule("r", "ada", 1),
  deleteAcpUpdates: (store) => store.deleteAcpUpdates(0),
  getTask: (store) => store.getTask("t"),
  getTaskByKey: (store) => store.getTaskByKey("k"),
  findTasks: (store) => store.findTasks("t", 1),
  listTasks: (store) => store.listTasks({ limit: 1 }),
  countOpenTasks: (store) => store.countOpenTasks(),
  countUndelivered: (store) => store.countUndelivered(),
  listTaskEvents: (store) => store.listTaskEvents("t"),
  deleteTasks: (store) => store.deleteTasks(["t"]),
  listOutbox: (store) => store.listOutbox({ limit: 1 }),
  claimOutbox: (store) => store.claimOutbox({ owner: "o", limit: 9, leaseMs: 1 }),
  nextOutboxDelay: (store) => store.nextOutboxDelay(),
  releaseOutbox: (store) => store.releaseOutbox("o"),
  deleteClosedSessions: (store) => store.deleteClosedSessions(0),
  deleteSilentGateways: (store) => store.deleteSilentGateways(60_000),
  resolveToken: (store) => store.resolveToken("t", AT),
  bindToken: (store) => store.bindToken("t", "r"),
  deleteEndedTokens: (store) => store.deleteEndedTokens(AT),
  storedBytesOfSession: (store) => store.storedBytesOfSession("s"),
  listScopedEvents: (store) =>
    store.listScopedEvents({ sessionId: "s", descendants: false, agentIds: [] }, { limit: 1 }),
  findTokenHash: (store) => store.findTokenHash("t"),
  revokeToken: (store) => store.revokeToken("t"),
  decideApproval: (store) => store.decideApproval("a", { verdict: "deny", actor: "b", at: AT }),
  expireApprovals: (store) => store.expireApprovals(["a"], "b", AT),
  getApproval: (store) => store.getApproval("a"),
  listApprovals: (store) => store.listApprovals({ limit: 1 }),
  deleteDecidedApprovals: (store) => store.deleteDecidedApprovals(0),
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
    const calls = new Set(Object.keys({ ...transactions, ...statements }).map((name) => name.split(",")[0]));
    const entries = Object.entries(Object.getOwnPropertyDescriptors(store));
    const methods = entries.flatMap(([name, { value }]) => (typeof value === "function" ? [name] : []));
    expect(new Set(methods)).toEqual(calls);
  });

  const prepared = Object.entries(statements).map(([name, call]): [string, PrepareCall] => [
    name,
    async () => ({ call: () => call(store) }),
  ]);
  const both = ["request", "answer"] as const satisfies CutPoint[];
  for (const [at, [name, prepare]] of [...prepared, ...Object.entries(transactions)].entries())
    test(`${name} rejects, has written all or nothing, and works again at once`, async () => {
      // A single statement is ordinarily cut at one of the two, in turn.
      for (const what of soak || at >= prepared.length ? both : both.slice(at % 2, (at % 2) + 1)) {
        let cuts = 0;
        for (let passing = 0; ; passing += 1) {
          const { call, halves } = await prepare(store, direct);
          // The pool has an idle connection then, so that the call is cut, and not the connecting.
          await store.now();
          proxy.cut(what, passing);
          const error: unknown = await call().then(
            () => null,
            (reason: unknown) => reason,
          );
          const happened = proxy.mend();
          // An event can be read when no earlier event can be committed any more, so when the cut transaction is over.
          const parts = async (): Promise<Set<boolean>> => new Set(await halves?.());
          if (halves !== undefined) await expect.poll(async () => (await parts()).size).toBe(1);
          // Only the notification of an earlier commit was cut, which follows some milliseconds after it.
          if (error === null && happened) {
            passing -= 1;
            continue;
          }
          if (error === null) break;
          expect(error).toBeInstanceOf(StateUnusable);
          expect((error as Error).message).toContain("not known");
          expect(happened).toBe(true);
          cuts += 1;
          await call().catch((again: unknown) => {
            // The first call was recorded.
            if (!(again instanceof RunExists)) throw again;
          });
          if (halves !== undefined) await expect.poll(parts).toEqual(new Set([true]));
        }
        expect(cuts).toBeGreaterThan(0);
      }
    });

  test("a call to a server that hangs fails within the limit, and a later one succeeds", async () => {
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

  test("a call to a silent store fails before a supervisor has to give up its runs", () => {
    expect(clientTimeout(defaults.storeBusyMs) + defaults.renewMs).toBeLessThan(defaults.selfFenceMs);
  });
});
