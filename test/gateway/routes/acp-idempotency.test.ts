import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { newTurnId } from "../../../src/model/ids.js";
import { errorOf, gatewayForFile } from "../../support/gateway/real-gateway.js";

const fixture = gatewayForFile();
const agent = fileURLToPath(new URL("../../support/agents/programs/scripted-agent.mjs", import.meta.url));
const argv = [process.execPath, agent];
const cwd = process.cwd();

test("a repeated spawn with the same turn id is done once, also after its session was closed", async () => {
  const { client } = fixture;
  const turnId = newTurnId();
  const body = { argv, cwd, key: "once", mode: "run", prompt: "hello", turnId, wait: true } as const;
  const first = await client.acpSpawn({ body });
  expect(first.turn).toMatchObject({ turnId, outcome: "completed", text: "hello" });
  const { sessionId } = first.session;
  await client.acpClose({ params: { id: sessionId } });
  const again = await client.acpSpawn({ body });
  expect(again).toMatchObject({ created: false, session: { sessionId }, turn: { turnId } });
  expect((await client.acpHistory({ params: { id: sessionId } })).turns).toHaveLength(1);
  expect((await client.acpList({})).sessions).toEqual([]);
});

test("a repeated prompt with the same turn id is done once, and only in its session", async () => {
  const { client } = fixture;
  const [one, other] = await Promise.all(
    ["one", "other"].map(
      async (key) => (await client.acpSpawn({ body: { argv, cwd, key } })).session.sessionId,
    ),
  );
  const turnId = newTurnId();
  const ask = (id = "") => client.acpPrompt({ params: { id }, body: { text: "hello", turnId } });
  const answers = [await ask(one), await ask(one)];
  expect(answers.map(({ turn }) => turn.ordinal)).toEqual([1, 1]);
  expect(await errorOf(ask(other))).toMatchObject({ code: "BAD_INPUT" });
  const { turns } = await client.acpHistory({ params: { id: one ?? "" }, query: { turn: turnId } });
  expect(turns).toMatchObject([{ turnId, text: "hello" }]);
  for (const id of [one, other]) await client.acpClose({ params: { id: id ?? "" } });
});
