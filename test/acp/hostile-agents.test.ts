import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { AcpTurn } from "../../src/model/acp/session-and-turn.js";
import {
  AcpFixture,
  misbehavingAgent,
  openAcpSession,
  scriptedAgent,
} from "../support/agents/acp-fixture.js";

test("ignored frames are acknowledged, so the next process neither misses nor repeats any", async () => {
  const { fixture, session } = await openAcpSession(scriptedAgent);
  const go = join(fixture.home, "go");
  const noise = JSON.stringify({ jsonrpc: "2.0", method: "_vendor/noise", params: "x".repeat(100_000) });
  const steps = [{ say: "before " }, { times: 400, each: { line: noise } }, { wait: go }, { say: "after" }];
  const turn = await fixture.prompt(session, JSON.stringify(steps));
  await fixture.waitFor(session, async () => (await fixture.session(session)).end > 400 * noise.length);
  const second = await fixture.restart();
  await writeFile(go, "");
  expect(await second.waitForTurnEnd(turn)).toMatchObject({ outcome: "completed", text: "before after" });
});

test.each(["{}", "null", '{"stopReason":5}'])(
  "a turn that is answered with %s does not complete",
  async (result) => {
    const { fixture, session } = await openAcpSession(scriptedAgent);
    const line = `{"jsonrpc":"2.0","id":$ID,"result":${result}}`;
    expect(await fixture.promptAndWait(session, JSON.stringify([{ say: "done" }, { line }]))).toMatchObject({
      outcome: "failed",
      stopReason: null,
      text: "done",
      problem: { code: "ACP_CLOSED", message: expect.stringContaining("no stopReason") },
    });
  },
);

/** Longer than the buffers between the gateway and an agent that does not read. */
const LONG = "x".repeat(5_000_000);

/** Starts a turn of an agent that requests permission and never reads its input. */
async function promptNonReader(
  fixture: AcpFixture,
  effect: "ask" | "reject",
  limits: { readonly noOutputTimeoutMs?: number } = {},
): Promise<AcpTurn> {
  const session = await fixture.spawn(misbehavingAgent("asks-and-does-not-read"), { rules: [{ effect }] });
  const turn = await fixture.acp.prompt(session, { text: LONG, askedBy: "test", ...limits });
  await fixture.waitFor(
    session,
    async () => (await fixture.store.getAcpTurn(turn.turnId))?.state === "running",
  );
  // oxlint-disable-next-line no-restricted-properties -- the agent that this test started, by the number its run has
  process.kill(await fixture.pid(session), "SIGUSR1");
  return turn;
}

test("an agent that does not read blocks neither a cancel nor a close", async () => {
  const fixture = await AcpFixture.open({ cancelMs: 300 });
  const { sessionId, turnId } = await promptNonReader(fixture, "ask");
  await fixture.waitFor(
    sessionId,
    async () => (await fixture.store.listAcpPermissionRequests({ sessionId })).length > 0,
  );
  const cancelled = await fixture.cancel(sessionId);
  expect(cancelled).toMatchObject({ turnId, outcome: "cancel-unconfirmed" });
});

test("an agent that does not read an answer counts as silent", async () => {
  const fixture = await AcpFixture.open();
  const turn = await promptNonReader(fixture, "reject", { noOutputTimeoutMs: 500 });
  const problem = { code: "ACP_TIMEOUT", message: expect.stringContaining("sent nothing for 500 ms") };
  expect(await fixture.waitForTurnEnd(turn)).toMatchObject({ outcome: "failed", problem });
});

test("a silent turn is stalled on record, also after a restart, and continues", async () => {
  const fixture = await AcpFixture.open({ stallMs: 200 });
  const session = await fixture.spawn(scriptedAgent);
  const [go, end] = [join(fixture.home, "go"), join(fixture.home, "end")];
  const steps = [{ say: "a" }, { wait: go }, { say: "b" }, { wait: end }, { say: "c" }];
  const turn = await fixture.prompt(session, JSON.stringify(steps));
  const { turnId } = turn;
  const stalledAt = async (of: AcpFixture) => (await of.store.getAcpTurn(turnId))?.stalledAt ?? null;
  await fixture.waitFor(session, async () => (await stalledAt(fixture)) !== null);
  expect(await stalledAt(fixture)).toBeLessThanOrEqual(Date.now() - 200);
  expect(await fixture.store.getAcpTurn(turnId)).toMatchObject({ state: "running", text: "" });
  const pid = await fixture.pid(session);
  const second = await fixture.restart({ stallMs: 600_000 });
  expect(await stalledAt(second)).not.toBeNull();
  await writeFile(go, "");
  await second.waitFor(session, async () => (await stalledAt(second)) === null);
  await writeFile(end, "");
  expect(await second.waitForTurnEnd(turn)).toMatchObject({
    outcome: "completed",
    text: "abc",
    stalledAt: null,
  });
  expect(await second.pid(session)).toBe(pid);
});

test("permission requests are bounded when stored, rules see the whole title, and an invalid one is refused", async () => {
  const { fixture, session } = await openAcpSession(scriptedAgent, {
    rules: [{ effect: "reject", title: "* --force" }, { effect: "allow" }],
  });
  const long = "x".repeat(1_000_000);
  const options = [
    { optionId: long, name: "Yes", kind: "allow_once" },
    { optionId: "yes", name: long, kind: "allow_once" },
    { optionId: "no", name: "No", kind: "reject_once" },
    ...Array.from({ length: 1_000 }, (_, at) => ({ optionId: `o${at}`, name: "", kind: "other" })),
  ];
  const toolCall = { toolCallId: long, title: `${long} --force`, kind: long };
  const asked = (id: string) =>
    `{"jsonrpc":"2.0","id":${id},"method":"session/request_permission","params":${JSON.stringify({
      sessionId: "recital",
      toolCall,
      options,
    })}}`;
  const steps = ["1", "1e400", "9007199254740993", "{}", "[1]", "true"].map((id) => ({ line: asked(id) }));
  expect(await fixture.promptAndWait(session, JSON.stringify(steps))).toMatchObject({ outcome: "completed" });
  const kept = await fixture.store.listAcpPermissionRequests({ sessionId: session });
  expect(kept).toMatchObject([{ rpcId: 1, decision: { verdict: "deny", optionId: "no" }, answered: true }]);
  expect(JSON.stringify(kept).length).toBeLessThan(30_000);
});
