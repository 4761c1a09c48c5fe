import { expect, test } from "vitest";
import { openAcpSession, scriptedAgent } from "../../support/agents/acp-fixture.js";

test("a question with a form is declined at once, and the turn continues", async () => {
  const { fixture, session } = await openAcpSession(scriptedAgent);
  const turn = await fixture.promptAndWait(
    session,
    JSON.stringify([{ elicit: "Which port?" }, { say: "!" }]),
  );
  expect(turn).toMatchObject({ outcome: "completed", text: "<decline>!" });
  const updates = await fixture.store.listAcpUpdates({ sessionId: session, type: "elicitation" });
  expect(updates).toMatchObject([
    {
      turnId: turn.turnId,
      data: { message: "Which port?", mode: "form", url: null, action: "decline" },
    },
  ]);
});
