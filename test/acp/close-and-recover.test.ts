import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Store } from "../../src/store/store.js";
import { AcpFixture, shellAgent, overrideStore } from "../support/agents/acp-fixture.js";
import { waitFor } from "../support/wait-for.js";

async function killed(fixture: AcpFixture, session: string): Promise<void> {
  // oxlint-disable-next-line no-restricted-properties -- the agent that this test started, by the number its run has
  process.kill(await fixture.pid(session), "SIGKILL");
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
    const fixture = await AcpFixture.open();
    const session = await fixture.spawn(shellAgent(...offers));
    expect(await fixture.promptAndWait(session, "echo one")).toMatchObject({
      text: "one\n",
      contextLost: false,
    });
    const lost = await fixture.prompt(session, "echo lost; sleep 3106");
    await fixture.waitForText(lost, "lost");
    await killed(fixture, session);
    expect(await fixture.waitForTurnEnd(lost)).toMatchObject({
      outcome: "interrupted",
      text: "lost\n",
      problem: { code: "ACP_CLOSED" },
    });
    expect(await fixture.session(session)).toMatchObject({ state: "down", tmpdir: null });
    const next = await fixture.promptAndWait(session, "echo two");
    // What `session/load` tells again is no output of the turn.
    expect(next).toMatchObject({ outcome: "completed", text: "two\n", contextLost });
    expect(fixture.log).toBe(log);
    const updates = await fixture.store.listAcpUpdates({ sessionId: session });
    expect(JSON.stringify(updates)).not.toContain("told again");
    expect(updates.filter(({ type }) => type === "context-lost")).toHaveLength(contextLost ? 1 : 0);
    expect(await fixture.promptAndWait(session, "echo three")).toMatchObject({ contextLost: false });
    await fixture.acp.closeSession(session, { actor: "test" });
    await fixture.waitForAgentExit(session);
  },
);

test("a close uses the agent's session/close, and session/delete on request", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent("close", "delete"));
  await fixture.acp.closeSession(session, { actor: "test", discardPersistentState: true });
  expect(fixture.log).toBe("session/new\nsession/close\nsession/delete\n");
  await fixture.waitForAgentExit(session);
  // Again, and by a second: the same answer.
  expect(await fixture.acp.closeSession(session, { actor: "test" })).toMatchObject({
    session: { state: "closed" },
    survivors: [],
  });
});

test("a close during a turn ends the turn and the queued prompts", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent("deaf"), {});
  const running = await fixture.prompt(session, "echo on; sleep 3106");
  const queued = await fixture.prompt(session, "echo never");
  await fixture.waitForText(running, "on");
  const short = await fixture.restart({ cancelMs: 300 });
  await short.acp.closeSession(session, { actor: "test" });
  expect(await short.waitForTurnEnd(running)).toMatchObject({ outcome: "cancel-unconfirmed" });
  expect(await short.waitForTurnEnd(queued)).toMatchObject({ outcome: "cancelled", startedAt: null });
  expect(fixture.log).not.toContain("never");
  await short.waitForAgentExit(session);
});

test("a session in mode run closes itself after one prompt", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent(), { mode: "run" });
  expect(await fixture.promptAndWait(session, "echo once")).toMatchObject({
    outcome: "completed",
    text: "once\n",
  });
  await fixture.waitFor(session, async () => (await fixture.session(session)).state === "closed");
  await fixture.waitForAgentExit(session);
});

test("a stale session of another gateway and its processes are left alone", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent());
  const other = await AcpFixture.open({}, { home: fixture.home, instanceId: "in_else" });
  const before = await fixture.session(session);
  for (const act of [
    other.acp.closeSession(session, { actor: "test" }),
    other.acp.cancelTurn(session, { actor: "test" }),
    other.prompt(session, "echo mine"),
  ])
    await expect(act).rejects.toMatchObject({ code: "ACP_NOT_HELD", heldBy: "in_acp" });
  expect(await other.acp.verifyProcessTree(session)).toMatchObject({ verified: false, processes: [] });
  expect(await fixture.session(session)).toEqual(before);
  expect(await fixture.promptAndWait(session, "echo still here")).toMatchObject({ text: "still here\n" });
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});

test("a session whose gateway came back is not closed as lost", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent("resume"));
  await killed(fixture, session);
  await fixture.waitFor(session, async () => (await fixture.session(session)).state === "down");
  const through = (store: Store): Store =>
    overrideStore(store, {
      listAcpPermissionRequests: async (filter) => {
        await fixture.promptAndWait(session, "echo up again");
        return store.listAcpPermissionRequests(filter);
      },
    });
  const other = await AcpFixture.open({}, { home: fixture.home, instanceId: "in_else", through });
  const closing = other.acp.closeSession(session, { actor: "test" });
  await expect(closing).rejects.toMatchObject({ code: "ACP_NOT_HELD", heldBy: "in_acp" });
  expect(await fixture.promptAndWait(session, "echo still here")).toMatchObject({ text: "still here\n" });
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});

test("an agent without a session is stopped at the next start, and the others continue", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent());
  const stray = await fixture.supervisor.spawn({ io: "pipe", argv: ["sleep", "3018"] }, { backendId: "acp" });
  const kin = await fixture.supervisor.spawn({ io: "pipe", argv: ["sleep", "3018"] });
  const pid = await fixture.pid(session);
  const second = await fixture.restart();
  expect(await second.supervisor.getRun(stray.runId)).toMatchObject({
    state: "exited",
    exit: { actor: "acp: its session is closed" },
  });
  expect(second.supervisor.run(kin.runId)?.state).toBe("running");
  expect(await second.acp.verifyProcessTree(session)).toMatchObject({ verified: true });
  expect(await second.pid(session)).toBe(pid);
  await second.acp.closeSession(session, { actor: "test" });
  await second.supervisor.run(kin.runId)?.cancel({ graceMs: 0 });
});

test("a command line with a secret is not stored, so the agent is not restarted", async () => {
  const fixture = await AcpFixture.open();
  const argv = [...shellAgent("resume"), "--api-key=sk-abcdefghijklmnop1234"];
  const session = await fixture.spawn(argv);
  expect(JSON.stringify(await fixture.session(session))).not.toContain("sk-abcdef");
  await killed(fixture, session);
  await fixture.waitFor(session, async () => (await fixture.session(session)).state === "down");
  // This process still knows it.
  expect(await fixture.promptAndWait(session, "echo again")).toMatchObject({ text: "again\n" });
  await killed(fixture, session);
  await fixture.waitFor(session, async () => (await fixture.session(session)).state === "down");
  const second = await fixture.restart();
  expect(await second.promptAndWait(session, "echo never")).toMatchObject({
    outcome: "failed",
    problem: { code: "ACP_NOT_RESTARTABLE" },
  });
  await second.acp.closeSession(session, { actor: "test" });
  await second.waitForAgentExit(session);
});

test("an answer after the death of the agent's process is recorded as interrupted", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent());
  const turn = await fixture.prompt(session, "ghost");
  await fixture.waitForText(turn, "the ghost is there");
  await killed(fixture, session);
  expect(await fixture.waitForTurnEnd(turn)).toMatchObject({
    outcome: "interrupted",
    stopReason: "end_turn",
  });
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});

test("an agent has its own TMPDIR, and the markers and token of its session in its environment", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent());
  const { text } = await fixture.promptAndWait(session, 'env; ls -d "$TMPDIR"');
  const { runId, tmpdir } = await fixture.session(session);
  const record = await fixture.supervisor.getRun(runId ?? "");
  expect(text).toContain(`HOLDFAST_LEASE_ID=${record?.leaseId}\n`);
  expect(text).toContain(`HOLDFAST_GATEWAY_INSTANCE_ID=in_acp\n`);
  expect(text).toContain("HOLDFAST_SESSION_KEY=one\n");
  expect(text).toMatch(/^HOLDFAST_TOKEN=\S+$/m);
  expect(text.trimEnd().endsWith(`\n${tmpdir}`)).toBe(true);
  expect(record).toMatchObject({ sessionId: session, backendId: "acp" });
  await fixture.acp.closeSession(session, { actor: "test" });
  expect(existsSync(tmpdir ?? "/")).toBe(false);
});

test("the output of an agent while no gateway ran is stored, also if the agent has died", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent("resume"), { rules: [{ effect: "ask" }] });
  const go = join(fixture.home, "go");
  const turn = await fixture.prompt(
    session,
    `echo before; while ! [ -e ${go} ]; do sleep 0.02; done; echo after`,
  );
  await fixture.waitForText(turn, "before");
  const pid = await fixture.pid(session);
  const { runId } = await fixture.session(session);
  await fixture.detach();
  await writeFile(go, "");
  // The answer is in the spool and was not read.
  const spooled = async () =>
    Buffer.from((await fixture.supervisor.readOutput(runId ?? "", "stdout")).bytes).toString();
  await waitFor("it has answered", async () => (await spooled()).includes("end_turn"));
  // oxlint-disable-next-line no-restricted-properties -- the agent that this test started, by the number its run has
  process.kill(pid, "SIGKILL");
  await fixture.supervisor.run(runId ?? "")?.wait();
  const second = await fixture.restart();
  expect(await second.waitForTurnEnd(turn)).toMatchObject({
    outcome: "interrupted",
    stopReason: "end_turn",
    text: "before\nafter\n",
    toolCalls: [{ kind: "execute" }],
  });
  expect(await second.session(session)).toMatchObject({ state: "down", tmpdir: null });
  await second.acp.closeSession(session, { actor: "test" });
  await second.waitForAgentExit(session);
});
