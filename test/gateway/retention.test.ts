import { expect, onTestFinished, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { type GatewayEvent, openGateway } from "../../src/gateway/gateway.js";
import { loadOrCreateGatewayId } from "../../src/home/persistent-ids.js";
import { historyBounds } from "../../src/sessions/messages-and-inbox.js";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import { newApproval, newMessage, newSession } from "../support/store/session-samples.js";
import { temporaryHome } from "../support/supervisor/real-supervisor.js";
import { waitFor } from "../support/wait-for.js";

test("a gateway deletes sessions that were closed, and approvals that were decided, long ago", async () => {
  const home = await temporaryHome();
  const path = `${home}/store.sqlite`;
  const now = Date.now();
  const old = newSession({ createdAt: now - defaults.sessionsKeptMs - 20_000, lineage: [] });
  const young = newSession({ createdAt: now - 2_000, lineage: [] });
  const open = newSession({ createdAt: 1, lineage: [] });
  const answered = newApproval(open.id);
  const recent = newApproval(open.id);
  {
    await using store = await openSqliteStore({ path });
    for (const each of [old, young, open]) await store.createSession(each);
    await store.closeSession(old.id, "a", now - defaults.sessionsKeptMs - 10_000);
    await store.closeSession(young.id, "a", now - 1_000);
    for (const each of [answered, recent]) await store.insertApproval(each);
    const at = now - defaults.approvalsKeptMs - 10_000;
    await store.decideApproval(answered.id, { verdict: "allow", actor: "operator", at });
    await store.decideApproval(recent.id, { verdict: "deny", actor: "operator", at: now });
    const long = now - defaults.messagesKeptMs - 10_000;
    for (const message of [
      newMessage(open.id, { at: long, deliveredAt: long, text: "old" }),
      newMessage(open.id, { at: long, text: "old, waits" }),
      newMessage(open.id, { at: now, deliveredAt: now, text: "new" }),
    ])
      await store.appendMessage(message, historyBounds);
  }
  const news: GatewayEvent[] = [];
  const gateway = await openGateway({ home, onEvent: (each) => news.push(each) });
  onTestFinished(() => gateway.stop());
  await gateway.ready;
  expect(news.filter(({ type }) => type === "retained")).toEqual([
    { type: "retained", records: 0, outputs: 0, sessions: 1, approvals: 1, messages: 1, updates: 0 },
  ]);
  await using store = await openSqliteStore({ path });
  expect(new Set((await store.listSessions({})).map(({ id }) => id))).toEqual(new Set([young.id, open.id]));
  expect((await store.listApprovals({})).map(({ id }) => id)).toEqual([recent.id]);
  const said = await store.listMessages(open.id, { limit: 9 });
  expect(said.map(({ text }) => text)).toEqual(["old, waits", "new"]);
});

test("a gateway closes idle sessions of one-shot agents and answers prompts that were never started", async () => {
  const home = await temporaryHome();
  const path = `${home}/store.sqlite`;
  const gatewayInstanceId = await loadOrCreateGatewayId(home);
  const long = Date.now() - defaults.sessionsKeptMs - 10_000;
  const common = { gatewayInstanceId, createdAt: long, lineage: [], backend: "cli" };
  const idle = newSession(common);
  const [asked, justAsked] = [newSession(common), newSession(common)];
  const spared = [
    newSession({ ...common, backend: "acp" }),
    newSession({ ...common, gatewayInstanceId: "in_other" }),
  ];
  {
    await using store = await openSqliteStore({ path });
    for (const each of [idle, asked, justAsked, ...spared]) await store.createSession(each);
    const at = Date.now() - defaults.callerOwnerLossMs - 1_000;
    const prompt = { runId: "run_000000000001", deliveredAt: at };
    await store.appendMessage(newMessage(asked.id, { ...prompt, at }), historyBounds);
    // The requester may ask again.
    const soon = { ...prompt, runId: "run_000000000002", at: Date.now() };
    await store.appendMessage(newMessage(justAsked.id, soon), historyBounds);
  }
  const gateway = await openGateway({ home, onEvent: () => undefined });
  onTestFinished(() => gateway.stop());
  await gateway.ready;
  await using store = await openSqliteStore({ path });
  const open = (await store.listSessions({ open: true })).map(({ id }) => id);
  expect(new Set(open)).toEqual(new Set([asked, justAsked, ...spared].map(({ id }) => id)));
  const said = async (id: string): Promise<string[]> =>
    (await store.listMessages(id, { limit: 9 })).map(({ role, text }) => `${role}: ${text}`);
  await waitFor("it is answered", async () => (await said(asked.id)).length === 2);
  expect(await said(asked.id)).toEqual(["user: hello", "system: it was never started"]);
  expect(await said(justAsked.id)).toEqual(["user: hello"]);
});
