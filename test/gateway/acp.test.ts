import { expect, test } from "vitest";
import { followLines } from "../../src/gateway/follow-lines.js";
import type { AnswerOf } from "../../src/gateway/contract/contract.js";
import { misbehaving } from "../acp/driven.js";
import { processesOf } from "../supervisor/real-supervisor.js";
import { gone, oneGateway, refusal } from "./real-gateway.js";

const stage = oneGateway();
const cwd = process.cwd();
type Update = AnswerOf<"acpWatch">["updates"][number];

test("spawn, prompt, updates, end of the turn, close: through the gateway, and nothing is left", async () => {
  const { client } = stage;
  const argv = misbehaving("long-turn");
  const { session, created } = await client.acpSpawn({ body: { argv, cwd, key: "first" } });
  expect(created).toBe(true);
  expect(session).toMatchObject({ state: "ready", key: "first", agentSessionId: "s", problem: null });
  expect((await client.acpSpawn({ body: { argv, cwd, key: "first" } })).created).toBe(false);

  const { turn } = await client.acpPrompt({ params: { id: "first" }, body: { text: "go" } });
  expect(turn).toMatchObject({ state: "ended", outcome: "completed", stopReason: "end_turn" });
  expect(turn.text).toBe(Array.from({ length: 3_000 }, (_, at) => `${at}`).join(""));

  const updates: Update[] = [];
  for (let after = 0; ;) {
    const page = await client.acpWatch({ params: { id: "first" }, query: { after } });
    updates.push(...page.updates);
    if (page.after === after) break;
    after = page.after;
  }
  expect(updates.map(({ seq }) => seq)).toEqual(updates.map((_, at) => at + 1));
  const said = updates.filter(({ type }) => type === "update");
  expect(said).toHaveLength(3_000);
  expect(said[7]?.data).toMatchObject({ sessionUpdate: "agent_message_chunk" });

  const shown = await client.acpShow({ params: { id: session.sessionId } });
  expect(shown.tree.verified).toBe(true);
  expect(shown.tree.processes.length).toBeGreaterThanOrEqual(2);

  // Followed from the middle: the rest, then the end of the session.
  const path = `/v1/acp/sessions/first/updates?follow=1&after=${updates.length - 1}`;
  const heard: Update[] = [];
  const following = (async () => {
    for await (const update of followLines<Update>(stage, path)) heard.push(update);
  })();
  const closed = await client.acpClose({ params: { id: "first" } });
  await following;
  expect(heard.map(({ type }) => type)).toEqual(["audit", "session"].slice(-heard.length));
  expect(closed.session).toMatchObject({ state: "closed" });
  const record = await gone(client, session.runId ?? "");
  expect(record).toMatchObject({ emptiness: "proven", backendId: "acp", sessionKey: "first" });
  expect(await processesOf(record.runId)).toEqual([]);
  expect(
    await refusal(client.acpPrompt({ params: { id: session.sessionId }, body: { text: "x" } })),
  ).toMatchObject({
    code: "ACP_SESSION_CLOSED",
  });
});
