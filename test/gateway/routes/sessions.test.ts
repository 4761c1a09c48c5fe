import { expect, test } from "vitest";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { gatewayForFile, errorOf } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile();
const cwd = process.cwd();

test("the status of an ACP session has its state, turn, queue and permission requests; its history has them in order", async () => {
  const { client } = fixture;
  const params = { id: "told" };
  await client.acpSpawn({ body: { argv: shellAgent(), cwd, key: "told", prompt: "echo one", wait: true } });
  expect(await client.sessionStatus({ params })).toMatchObject({
    state: "idle",
    acp: { state: "ready", mode: "session", turn: null, queued: [], permissions: [] },
  });
  const asking = await client.acpPrompt({ params, body: { text: "ask echo two", wait: false } });
  await waitFor(
    "it asks",
    async () => (await client.acpPermissions({ query: { session: "told" } })).permissions.length > 0,
  );
  // The agent executes its prompts in a shell, which reads the ">" that quotes a message as a redirection.
  const body = { text: "/dev/null", deliver: "next-turn" } as const;
  const { message } = await client.sendMessage({ params, body });
  const waiting = await client.acpPrompt({ params, body: { text: "echo three", wait: false } });
  const { state, acp, messages } = await client.sessionStatus({ params });
  expect(state).toBe("working");
  expect(messages).toMatchObject({ total: 1, pending: 1, undelivered: 0 });
  expect(acp).toMatchObject({
    turn: { turnId: asking.turn.turnId, ordinal: 2 },
    queued: [{ turnId: waiting.turn.turnId, startedAt: null }],
    permissions: [{ title: "echo two", decision: null }],
  });
  await client.acpAnswer({ params: { id: acp?.permissions[0]?.id ?? "" }, body: { verdict: "allow" } });
  await waitFor("it is idle", async () => (await client.sessionStatus({ params })).state === "idle");
  const whole = await client.sessionHistory({ params });
  expect(whole.turns.map(({ place, prompt, outcome }) => [place, prompt, outcome])).toEqual([
    [1, "echo one", "completed"],
    [2, "ask echo two", "completed"],
    [4, "echo three", "completed"],
  ]);
  expect(whole.messages).toMatchObject([{ seq: 3, id: message.id, turnId: waiting.turn.turnId }]);
  expect(whole.messages[0]?.deliveredAt).not.toBeNull();
  expect(whole.turns[0]?.text).toBe("one\n");
  expect(whole.runs).toEqual([]);
  const placesOf = async (query: object): Promise<number[]> => {
    const page = await client.sessionHistory({ params, query });
    return [...page.turns.map(({ place }) => place), ...page.messages.map(({ seq }) => seq)].toSorted(
      (one, other) => one - other,
    );
  };
  expect(await placesOf({ limit: 2 })).toEqual([3, 4]);
  expect(await placesOf({ limit: 2, before: 3 })).toEqual([1, 2]);
  expect(await placesOf({ limit: 2, after: 1 })).toEqual([2, 3]);
  await client.acpClose({ params });
  expect(await client.sessionStatus({ params: { id: whole.session.id } })).toMatchObject({
    state: "ended",
    acp: { state: "closed" },
  });
});

test("a session started by another is its child, visible only to its parent; the history of a command session is its runs", async () => {
  const { client } = fixture;
  const execRules = [{ effect: "allow" as const }];
  const parent = await client.openSession({ body: { key: "parent", execRules } });
  const other = await client.openSession({ body: { key: "other", execRules } });
  const own = fixture.as(parent.token);
  const { session } = await own.acpSpawn({
    body: { argv: shellAgent(), cwd, key: "kid", prompt: "echo hi", wait: true },
  });
  const { run } = await own.exec({ body: { argv: ["sh", "-c", "exit 3"] } });
  const { sessions } = await own.listSessions();
  expect(sessions.map(({ key }) => key).toSorted()).toEqual(["kid", "parent"]);
  const status = await own.sessionStatus({ params: { id: "kid" } });
  expect(status.session).toMatchObject({ parentSessionKey: "parent", lineage: [parent.session.id] });
  const { turns } = await own.sessionHistory({ params: { id: "kid" } });
  expect(turns).toMatchObject([{ askedBy: "session:parent", text: "hi\n" }]);
  const stranger = fixture.as(other.token);
  const denied = await errorOf(stranger.sessionHistory({ params: { id: session.sessionId } }));
  const missing = await errorOf(stranger.sessionHistory({ params: { id: "ses_000000000000" } }));
  expect(denied.message.replace(session.sessionId, "it")).toBe(
    missing.message.replace("ses_000000000000", "it"),
  );
  expect((await own.sessionHistory({ params: { id: "parent" } })).runs).toMatchObject([
    { runId: run.runId, state: "exited", exit: { reason: "exit", code: 3 } },
  ]);
  await own.acpClose({ params: { id: "kid" } });
});
