import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { copyStore, type CopiedTable } from "../../../src/store/copy/copy-store.js";
import { parseStoreLocation } from "../../../src/store/location.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import type { ReadStore, Store } from "../../../src/store/store.js";
import { temporaryDirectory } from "../../support/temporary-directory.js";
import { newGateway } from "../../contract/gateway-contract.js";
import { EXITED, GATED, LEASE_MS, newRun, newRunEvent, RUNNING } from "../../support/store/run-samples.js";
import {
  newAcpPermission,
  newAcpSession,
  newAcpTurn,
  newApproval,
  newMessage,
  newRememberedRule,
  newSession,
} from "../../support/store/session-samples.js";
import { CHAT, endWithNotification, newTask, PARENT, taskEvent } from "../../support/store/task-samples.js";

export const EVENT_COUNT = 1_200;

/** Copies a store; no supervisor runs beside it. */
export async function copy(from: string, to: string, more: object = {}): Promise<readonly CopiedTable[]> {
  const [source, target] = [await parseStoreLocation(from), await parseStoreLocation(to)];
  return copyStore({ from: source, to: target, home: "/nowhere", ...more });
}

/** A filled SQLite store whose runs belong to a dead instance of its directory. Removed after the test. */
export async function createFilledStore(): Promise<{ readonly home: string; readonly path: string }> {
  const directory = await temporaryDirectory();
  onTestFinished(() => directory[Symbol.asyncDispose]());
  const path = join(directory.path, "store.sqlite");
  await mkdir(join(directory.path, "instances", "owner-a"), { recursive: true });
  await using store = await openSqliteStore({ path });
  await fillStore(store);
  return { home: directory.path, path };
}

/** Writes records of every kind, and more events than are read at a time; the newest event is deleted again. */
export async function fillStore(store: Store): Promise<void> {
  await store.registerHost({ hostId: "host", name: "ada", platform: "linux" });
  await store.registerGateway(newGateway({ instanceId: "owner-a" }));
  const open = await store.insertRun(newRun({ runId: "run_open" }), LEASE_MS);
  await store.saveRun(open, GATED);
  await store.saveRun(open, RUNNING);
  const ended = await store.insertRun(newRun({ runId: "run_ended", command: "printf 'a\0b' \u{1F600}" }), 0);
  await store.saveRun(ended, EXITED);
  await store.hideRuns(["run_ended"], 7);
  await store.insertRemoteStop(
    {
      id: "cmd_1",
      runId: "run_open",
      target: "state",
      kind: "stop",
      actor: "ada",
      graceMs: null,
      handedOverBy: "owner-a",
    },
    [],
  );
  const { session } = await store.createSession(newSession({ id: "ses_1", key: "key" }));
  await store.issueToken(session.id, "hash", 1);
  await store.insertApproval(newApproval(session.id, { id: "apr_1" }));
  await store.insertApproval(newApproval(session.id, { id: "apr_2" }));
  await store.decideApproval("apr_2", { verdict: "allow", actor: "ada", at: 2 });
  const bounds = { bytes: 1_000_000, messages: 1_000, pending: 100 };
  await store.appendMessage(newMessage(session.id, { id: "msg_1", text: "a\0b \u{1F600}" }), bounds);
  await store.appendMessage(newMessage(session.id, { id: "msg_2", deliveredAt: 5 }), bounds);
  await store.setAgentSessionId(session.id, "own");
  await store.insertAcpSession(newAcpSession(session.id));
  await store.commitAcpChange(session.id, "in_1", {
    newTurn: newAcpTurn("turn_1"),
    updates: [{ turnId: "turn_1", at: 3, type: "update", data: { text: "\u{1F600}" } }],
    newPermission: newAcpPermission(session.id, "prm_1"),
    newRule: newRememberedRule({ sessionId: session.id }),
  });
  await store.insertTask(newTask({ taskId: "task_1" }), [taskEvent("created")]);
  await store.commitTask("task_1", 1, endWithNotification("task_1", [PARENT, CHAT]));
  await store.claimOutbox({ owner: "owner-a", limit: 1, leaseMs: 60_000 });
  await store.appendEvents(Array.from({ length: EVENT_COUNT }, (_, at) => newRunEvent("run_open", at)));
  const gone = await store.insertRun(newRun({ runId: "run_gone" }), 0, [newRunEvent("run_gone")]);
  await store.saveRun(gone, EXITED);
  await store.deleteRuns(["run_gone"]);
}

/** All records of a store, without times on the store's clock. */
export async function dumpStore(store: ReadStore): Promise<unknown> {
  const runs = await store.listRuns({});
  const gateways = await store.listGateways();
  return {
    runs: runs.map((run) => ({ ...run, leaseExpiresAt: null })),
    gateways: gateways.map((gateway) => ({ ...gateway, heartbeatAt: null })),
    hosts: await store.listHosts(),
    events: await store.listEvents({}),
    sessions: await store.listSessions({}),
    messages: await store.listMessages("ses_1", { limit: 100 }),
    acp: await store.listAcpSessions({}),
    turns: await store.listAcpTurns({ sessionId: "ses_1" }),
    updates: await store.listAcpUpdates({ sessionId: "ses_1" }),
    rules: await store.listRememberedRules({}),
    permissions: await store.listAcpPermissionRequests({ sessionId: "ses_1" }),
    tasks: await store.listTasks({ limit: 100 }),
    taskEvents: await store.listTaskEvents("task_1"),
    outbox: (await store.listOutbox({})).map((entry) => ({ ...entry, dueAt: null })),
    approvals: await store.listApprovals({}),
    acts: (await store.resolveToken("hash", 1))?.id,
  };
}
