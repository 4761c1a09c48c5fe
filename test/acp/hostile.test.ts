import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Controlled, recitingAgent } from "./controlled.js";

test("what there is nothing to keep of is passed for the next process, too: it misses nothing, and reads none of it again", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(recitingAgent);
  const go = join(house.home, "go");
  const noise = JSON.stringify({ jsonrpc: "2.0", method: "_vendor/noise", params: "x".repeat(100_000) });
  const steps = [{ say: "before " }, { times: 400, each: { line: noise } }, { wait: go }, { say: "after" }];
  const turn = await house.ask(session, JSON.stringify(steps));
  await house.until(session, async () => (await house.session(session)).end > 400 * noise.length);
  const second = await house.restart();
  await writeFile(go, "");
  expect(await second.ended(turn)).toMatchObject({ outcome: "completed", text: "before after" });
  await second.acp.closeSession(session, { actor: "test" });
  await second.gone(session);
});

test.each(["{}", "null", '{"stopReason":5}'])(
  "a turn that is answered with %s is not completed",
  async (result) => {
    const house = await Controlled.open();
    const session = await house.spawn(recitingAgent);
    const line = `{"jsonrpc":"2.0","id":$ID,"result":${result}}`;
    expect(await house.turn(session, JSON.stringify([{ say: "done" }, { line }]))).toMatchObject({
      outcome: "interrupted",
      stopReason: null,
      text: "done",
      problem: { code: "ACP_CLOSED", message: expect.stringContaining("no stopReason") },
    });
    await house.acp.closeSession(session, { actor: "test" });
    await house.gone(session);
  },
);
