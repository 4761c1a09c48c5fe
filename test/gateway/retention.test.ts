import { expect, onTestFinished, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { openGateway, type GatewayNews } from "../../src/gateway/gateway.js";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import { newApproval, newSession } from "../store/session-samples.js";
import { temporaryHome } from "../supervisor/real-supervisor.js";

test("a gateway forgets sessions that were closed, and questions that were answered, long ago", async () => {
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
  }
  const news: GatewayNews[] = [];
  const gateway = await openGateway({ home, onNews: (each) => news.push(each) });
  onTestFinished(() => gateway.stop());
  await gateway.ready;
  expect(news.filter(({ type }) => type === "retained")).toEqual([
    { type: "retained", records: 0, outputs: 0, sessions: 1, approvals: 1, updates: 0 },
  ]);
  await using store = await openSqliteStore({ path });
  expect(new Set((await store.listSessions({})).map(({ id }) => id))).toEqual(new Set([young.id, open.id]));
  expect((await store.listApprovals({})).map(({ id }) => id)).toEqual([recent.id]);
});
