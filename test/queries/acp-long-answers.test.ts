import { expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { formatTurn } from "../../src/cli/acp/list-show-watch.js";
import { paletteFor } from "../../src/cli/print/colours-and-progress.js";
import { scriptedAgent } from "../support/agents/acp-fixture.js";
import { gatewayForFile } from "../support/gateway/real-gateway.js";

const fixture = gatewayForFile();
const PARTS = 12;
const PART = "x".repeat(100_000);

test("an answer of more than a million characters says what is left out, and its record has all of it", async () => {
  const { session, turn } = await fixture.client.acpSpawn({
    body: {
      ...{ argv: scriptedAgent, cwd: fixture.home, key: "novel", wait: true },
      prompt: JSON.stringify([{ say: "Once" }, { times: PARTS, each: { say: PART } }, { say: "end" }]),
    },
  });
  const length = PARTS * PART.length + "Onceend".length;
  const omittedChars = length - defaults.acpTextChars;
  expect(turn).toMatchObject({ outcome: "completed", omittedChars });
  const params = { id: session.sessionId };
  const { turns } = await fixture.client.acpHistory({ params, query: {} });
  expect(turns).toMatchObject([{ omittedChars }]);
  const shown = formatTurn(turns[0] ?? expect.fail("no turn"), paletteFor(1), 1);
  expect(shown).toContain(`holdfast acp history ${session.sessionId} --turn ${turn?.turnId}`);
  const [whole] = (await fixture.client.acpHistory({ params, query: { turn: turn?.turnId } })).turns;
  expect(whole).toMatchObject({ omittedChars: 0 });
  expect([whole?.text.length, whole?.text.slice(0, 5), whole?.text.slice(-4)]).toEqual([
    length,
    "Oncex",
    "xend",
  ]);
  await fixture.client.acpClose({ params });
});
