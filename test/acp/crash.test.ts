import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { until } from "../gateway/real-gateway.js";
import type { Store } from "../../src/store/store.js";
import { Controlled, shellAgent, withMethods } from "./controlled.js";

async function killed(house: Controlled, session: string): Promise<void> {
  // oxlint-disable-next-line no-restricted-properties -- the agent that this test started, by the number its run has
  process.kill(await house.pid(session), "SIGKILL");
}

test.each([
  [
    "resume",
    ["resume", "load"],
    "session/new\nprompt echo one\nprompt echo lost\nsession/resume\nprompt echo two\n",
    false,
  ],
  [
    "load",
    ["load"],
    "session/new\nprompt echo one\nprompt echo lost\nsession/load\nprompt echo two\n",
    false,
  ],
  ["neither", [], "session/new\nprompt echo one\nprompt echo lost\nsession/new\nprompt echo two\n", true],
  [
    "both, and can do neither",
    ["resume", "load", "lies"],
    "session/new\nprompt echo one\nprompt echo lost\nsession/resume\nsession/load\nsession/new\nprompt echo two\n",
    true,
  ],
] as const)(
  "an agent that dies in mid-turn and offers %s: interrupted, never sent again, and the session goes on",
  async (_, offers, log, contextLost) => {
    const house = await Controlled.open();
    const session = await house.spawn(shellAgent(...offers));
    expect(await house.turn(session, "echo one")).toMatchObject({ text: "one\n", contextLost: false });
    const lost = await house.ask(session, "echo lost; sleep 3106");
    await house.said(lost, "lost");
    await killed(house, session);
    expect(await house.ended(lost)).toMatchObject({
      outcome: "interrupted",
      text: "lost\n",
      problem: { code: "ACP_CLOSED" },
    });
    expect(await house.session(session)).toMatchObject({ state: "down", tmpdir: null });
    const next = await house.turn(session, "echo two");
    // What `session/load` tells again is no output of the turn.
    expect(next).toMatchObject({ outcome: "completed", text: "two\n", contextLost });
    expect(house.log).toBe(log);
    const updates = await house.store.listAcpUpdates({ sessionId: session });
    expect(JSON.stringify(updates)).not.toContain("told again");
    expect(updates.filter(({ type }) => type === "context-lost")).toHaveLength(contextLost ? 1 : 0);
    expect(await house.turn(session, "echo three")).toMatchObject({ contextLost: false });
    await house.acp.closeSession(session, { actor: "test" });
    await house.gone(session);
  },
);

test("a session is closed with what the agent offers, and its own state goes when that is asked for", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent("close", "delete"));
  await house.acp.closeSession(session, { actor: "test", discardPersistentState: true });
  expect(house.log).toBe("session/new\nsession/close\nsession/delete\n");
  await house.gone(session);
  // Again, and by a second: the same answer.
  expect(await house.acp.closeSession(session, { actor: "test" })).toMatchObject({
    session: { state: "closed" },
    survivors: [],
  });
});

test("closing in mid-turn, and while prompts wait, ends all of it", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent("deaf"), {});
  const running = await house.ask(session, "echo on; sleep 3106");
  const queued = await house.ask(session, "echo never");
  await house.said(running, "on");
  const short = await house.restart({ cancelMs: 300 });
  await short.acp.closeSession(session, { actor: "test" });
  expect(await short.ended(running)).toMatchObject({ outcome: "cancel-unconfirmed" });
  expect(await short.ended(queued)).toMatchObject({ outcome: "cancelled", startedAt: null });
  expect(house.log).not.toContain("never");
  await short.gone(session);
});

test("mode run: one prompt, and the session closes itself", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent(), { mode: "run" });
  expect(await house.turn(session, "echo once")).toMatchObject({ outcome: "completed", text: "once\n" });
  await house.until(session, async () => (await house.session(session)).state === "closed");
  await house.gone(session);
});

test("a stale session of another gateway is not touched, nor are its processes", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent());
  const other = await Controlled.open({}, { home: house.home, instanceId: "in_else" });
  const before = await house.session(session);
  for (const act of [
    other.acp.closeSession(session, { actor: "test" }),
    other.acp.cancelTurn(session, { actor: "test" }),
    other.ask(session, "echo mine"),
  ])
    await expect(act).rejects.toMatchObject({ code: "ACP_NOT_HELD", heldBy: "in_acp" });
  expect(await other.acp.verifyOwnedTree(session)).toMatchObject({ verified: false, processes: [] });
  expect(await house.session(session)).toEqual(before);
  expect(await house.turn(session, "echo still here")).toMatchObject({ text: "still here\n" });
  await house.acp.closeSession(session, { actor: "test" });
  await house.gone(session);
});

test("a session whose gateway goes on with it meanwhile is not closed as lost", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent("resume"));
  await killed(house, session);
  await house.until(session, async () => (await house.session(session)).state === "down");
  const through = (store: Store): Store =>
    withMethods(store, {
      listAcpPermissions: async (filter) => {
        await house.turn(session, "echo up again");
        return store.listAcpPermissions(filter);
      },
    });
  const other = await Controlled.open({}, { home: house.home, instanceId: "in_else", through });
  const closing = other.acp.closeSession(session, { actor: "test" });
  await expect(closing).rejects.toMatchObject({ code: "ACP_NOT_HELD", heldBy: "in_acp" });
  expect(await house.turn(session, "echo still here")).toMatchObject({ text: "still here\n" });
  await house.acp.closeSession(session, { actor: "test" });
  await house.gone(session);
});

test("an agent that nobody has a session for is ended at the next start; the others go on", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent());
  const stray = await house.supervisor.spawn({ io: "pipe", argv: ["sleep", "3018"] }, { backendId: "acp" });
  const kin = await house.supervisor.spawn({ io: "pipe", argv: ["sleep", "3018"] });
  const pid = await house.pid(session);
  const second = await house.restart();
  expect(await second.supervisor.getRun(stray.runId)).toMatchObject({
    state: "exited",
    exit: { actor: "acp: its session is closed" },
  });
  expect(second.supervisor.run(kin.runId)?.state).toBe("running");
  expect(await second.acp.verifyOwnedTree(session)).toMatchObject({ verified: true });
  expect(await second.pid(session)).toBe(pid);
  await second.acp.closeSession(session, { actor: "test" });
  await second.supervisor.run(kin.runId)?.cancel({ graceMs: 0 });
});

test("what looks like a secret in a command line is not kept: without it, the agent is not started again", async () => {
  const house = await Controlled.open();
  const argv = [...shellAgent("resume"), "--api-key=sk-abcdefghijklmnop1234"];
  const session = await house.spawn(argv);
  expect(JSON.stringify(await house.session(session))).not.toContain("sk-abcdef");
  await killed(house, session);
  await house.until(session, async () => (await house.session(session)).state === "down");
  // This process still knows it.
  expect(await house.turn(session, "echo again")).toMatchObject({ text: "again\n" });
  await killed(house, session);
  await house.until(session, async () => (await house.session(session)).state === "down");
  const second = await house.restart();
  expect(await second.turn(session, "echo never")).toMatchObject({
    outcome: "failed",
    problem: { code: "ACP_NOT_RESTARTABLE" },
  });
  await second.acp.closeSession(session, { actor: "test" });
  await second.gone(session);
});

test("an answer that comes after the agent's process has died is recorded, and not relied on", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent());
  const turn = await house.ask(session, "ghost");
  await house.said(turn, "the ghost is there");
  await killed(house, session);
  expect(await house.ended(turn)).toMatchObject({ outcome: "interrupted", stopReason: "end_turn" });
  await house.acp.closeSession(session, { actor: "test" });
  await house.gone(session);
});

test("an agent has its own TMPDIR, and marks and a token of its session in its environment", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent());
  const { text } = await house.turn(session, 'env; ls -d "$TMPDIR"');
  const { runId, tmpdir } = await house.session(session);
  const record = await house.supervisor.getRun(runId ?? "");
  expect(text).toContain(`HOLDFAST_LEASE_ID=${record?.leaseId}\n`);
  expect(text).toContain(`HOLDFAST_GATEWAY_INSTANCE_ID=in_acp\n`);
  expect(text).toContain("HOLDFAST_SESSION_KEY=one\n");
  expect(text).toMatch(/^HOLDFAST_TOKEN=\S+$/m);
  expect(text.trimEnd().endsWith(`\n${tmpdir}`)).toBe(true);
  expect(record).toMatchObject({ sessionId: session, backendId: "acp" });
  await house.acp.closeSession(session, { actor: "test" });
  expect(existsSync(tmpdir ?? "/")).toBe(false);
});

test("what an agent said while no gateway was there is kept, also when it has died since", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent("resume"), { rules: [{ effect: "ask" }] });
  const go = join(house.home, "go");
  const turn = await house.ask(session, `echo before; while ! [ -e ${go} ]; do sleep 0.02; done; echo after`);
  await house.said(turn, "before");
  const pid = await house.pid(session);
  const { runId } = await house.session(session);
  await house.leave();
  await writeFile(go, "");
  // Its answer is in the spool, and nobody has read it.
  const spooled = async () =>
    Buffer.from((await house.supervisor.readOutput(runId ?? "", "stdout")).bytes).toString();
  await until("it has answered", async () => (await spooled()).includes("end_turn"));
  // oxlint-disable-next-line no-restricted-properties -- the agent that this test started, by the number its run has
  process.kill(pid, "SIGKILL");
  await house.supervisor.run(runId ?? "")?.wait();
  const second = await house.restart();
  expect(await second.ended(turn)).toMatchObject({
    outcome: "interrupted",
    stopReason: "end_turn",
    text: "before\nafter\n",
    toolCalls: [{ kind: "execute" }],
  });
  expect(await second.session(session)).toMatchObject({ state: "down", tmpdir: null });
  await second.acp.closeSession(session, { actor: "test" });
  await second.gone(session);
});
