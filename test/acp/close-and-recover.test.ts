import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Store } from "../../src/store/store.js";
import { AcpFixture, openAcpSession, overrideStore, shellAgent } from "../support/agents/acp-fixture.js";
import { CgroupFreezer } from "../support/anchor/cgroups.js";
import { waitFor } from "../support/wait-for.js";

test.each([
  ["resume", ["resume", "load"], "session/resume", false],
  ["load", ["load"], "session/load", false],
  ["neither", [], "session/new", true],
  ["both, which fail", ["resume", "load", "lies"], "session/resume\nsession/load\nsession/new", true],
] as const)(
  "the turn of an agent that dies is interrupted and not sent again, and the session continues, with %s",
  async (_, offers, reopened, contextLost) => {
    const { fixture, session } = await openAcpSession(shellAgent(...offers));
    await fixture.echo(session, "one", { contextLost: false });
    const lost = await fixture.promptUntil(session, "echo lost; sleep 3106", "lost");
    await fixture.signalAgent(session);
    expect(await fixture.waitForTurnEnd(lost)).toMatchObject({
      outcome: "interrupted",
      text: "lost\n",
      problem: { code: "ACP_CLOSED" },
    });
    expect(await fixture.session(session)).toMatchObject({ state: "down", tmpdir: null });
    const next = await fixture.promptAndWait(session, "echo two");
    // History that `session/load` replays is no output of the turn.
    expect(next).toMatchObject({ outcome: "completed", text: "two\n", contextLost });
    expect(fixture.log).toBe(
      `session/new\nprompt echo one\nprompt echo lost\n${reopened}\nprompt echo two\n`,
    );
    const updates = await fixture.store.listAcpUpdates({ sessionId: session });
    expect(JSON.stringify(updates)).not.toContain("told again");
    expect(updates.filter(({ type }) => type === "context-lost")).toHaveLength(contextLost ? 1 : 0);
    expect(await fixture.promptAndWait(session, "echo three")).toMatchObject({ contextLost: false });
  },
);

test("a close uses the agent's session/close, and session/delete on request", async () => {
  const { fixture, session } = await openAcpSession(shellAgent("close", "delete"));
  await fixture.acp.closeSession(session, { actor: "test", discardPersistentState: true });
  expect(fixture.log).toBe("session/new\nsession/close\nsession/delete\n");
  await fixture.waitForAgentExit(session);
  // A second close has the same answer.
  expect(await fixture.close(session)).toMatchObject({ session: { state: "closed" }, survivors: [] });
});

test("a close during a turn ends the turn and the queued prompts", async () => {
  const { fixture, session } = await openAcpSession(shellAgent("deaf"), {});
  const running = await fixture.prompt(session, "echo on; sleep 3106");
  const queued = await fixture.prompt(session, "echo never");
  await fixture.waitForText(running, "on");
  const short = await fixture.restart({ cancelMs: 300 });
  await short.close(session);
  expect(await short.waitForTurnEnd(running)).toMatchObject({ outcome: "cancel-unconfirmed" });
  expect(await short.waitForTurnEnd(queued)).toMatchObject({ outcome: "cancelled", startedAt: null });
  expect(fixture.log).not.toContain("never");
});

test("a session in mode run closes itself after one prompt", async () => {
  const { fixture, session } = await openAcpSession(shellAgent(), { mode: "run" });
  await fixture.echo(session, "once");
  await fixture.waitForState(session, "closed");
});

test("a stale session of another gateway and its processes are left alone", async () => {
  const { fixture, session } = await openAcpSession(shellAgent());
  const other = await AcpFixture.open({}, { home: fixture.home, instanceId: "in_else" });
  const before = await fixture.session(session);
  for (const act of [other.close(session), other.cancel(session), other.prompt(session, "echo mine")])
    await expect(act).rejects.toMatchObject({ code: "ACP_NOT_HELD", heldBy: "in_acp" });
  expect(await other.acp.verifyProcessTree(session)).toMatchObject({ verified: false, processes: [] });
  expect(await fixture.session(session)).toEqual(before);
  await fixture.echo(session, "still here");
});

test("a session whose gateway came back is not closed as lost", async () => {
  const { fixture, session } = await openAcpSession(shellAgent("resume"));
  await fixture.signalAgent(session);
  await fixture.waitForState(session, "down");
  const through = (store: Store): Store =>
    overrideStore(store, {
      listAcpPermissionRequests: async (filter) => {
        await fixture.promptAndWait(session, "echo up again");
        return store.listAcpPermissionRequests(filter);
      },
    });
  const other = await AcpFixture.open({}, { home: fixture.home, instanceId: "in_else", through });
  const closing = other.close(session);
  await expect(closing).rejects.toMatchObject({ code: "ACP_NOT_HELD", heldBy: "in_acp" });
  await fixture.echo(session, "still here");
});

test("an agent without a session is stopped at the next start, and the others continue", async () => {
  const { fixture, session } = await openAcpSession(shellAgent());
  const stray = await fixture.supervisor.spawn({ io: "pipe", argv: ["sleep", "3018"] }, { backendId: "acp" });
  const other = await fixture.supervisor.spawn({ io: "pipe", argv: ["sleep", "3018"] });
  const pid = await fixture.pid(session);
  const second = await fixture.restart();
  expect(await second.supervisor.getRun(stray.runId)).toMatchObject({
    state: "exited",
    exit: { actor: "acp: its session is closed" },
  });
  expect(second.supervisor.run(other.runId)?.state).toBe("running");
  expect(await second.acp.verifyProcessTree(session)).toMatchObject({ verified: true });
  expect(await second.pid(session)).toBe(pid);
  await second.supervisor.run(other.runId)?.cancel({ graceMs: 0 });
});

test("a command line with a secret is not stored, so the agent is not restarted", async () => {
  const fixture = await AcpFixture.open();
  const argv = [...shellAgent("resume"), "--api-key=sk-abcdefghijklmnop1234"];
  const session = await fixture.spawn(argv);
  expect(JSON.stringify(await fixture.session(session))).not.toContain("sk-abcdef");
  await fixture.signalAgent(session);
  await fixture.waitForState(session, "down");
  // This process still knows the command line.
  await fixture.echo(session, "again");
  await fixture.signalAgent(session);
  await fixture.waitForState(session, "down");
  const second = await fixture.restart();
  expect(await second.promptAndWait(session, "echo never")).toMatchObject({
    outcome: "failed",
    problem: { code: "ACP_NOT_RESTARTABLE" },
  });
});

test("an answer after the death of the agent's process is recorded as interrupted", async () => {
  const { fixture, session } = await openAcpSession(shellAgent());
  const turn = await fixture.promptUntil(session, "ghost", "the ghost is there");
  await fixture.signalAgent(session);
  expect(await fixture.waitForTurnEnd(turn)).toMatchObject({
    outcome: "interrupted",
    stopReason: "end_turn",
  });
});

test("an agent has its own TMPDIR, and the markers and token of its session in its environment", async () => {
  const { fixture, session } = await openAcpSession(shellAgent());
  const { text } = await fixture.promptAndWait(session, 'env; ls -d "$TMPDIR"');
  const { runId, tmpdir } = await fixture.session(session);
  const record = await fixture.supervisor.getRun(runId ?? "");
  expect(text).toContain(`HOLDFAST_LEASE_ID=${record?.leaseId}\n`);
  expect(text).toContain(`HOLDFAST_GATEWAY_INSTANCE_ID=in_acp\n`);
  expect(text).toContain("HOLDFAST_SESSION_KEY=one\n");
  expect(text).toMatch(/^HOLDFAST_TOKEN=\S+$/m);
  expect(text.trimEnd().endsWith(`\n${tmpdir}`)).toBe(true);
  expect(record).toMatchObject({ sessionId: session, backendId: "acp" });
  await fixture.close(session);
  expect(existsSync(tmpdir ?? "/")).toBe(false);
});

test("the output of an agent while no gateway ran is stored, also if the agent has died", async () => {
  const { fixture, session } = await openAcpSession(shellAgent("resume"), { rules: [{ effect: "ask" }] });
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
});

test.skipIf(!CgroupFreezer.isAvailable)(
  "a session whose tool survives KILL stays closing, names it, and closes when it is gone",
  async () => {
    const problems: string[] = [];
    const fixture = await AcpFixture.open({}, { onRunProblem: ({ message }) => problems.push(message) });
    const session = await fixture.spawn(shellAgent());
    const { text } = await fixture.promptAndWait(session, "sleep 3119 >/dev/null 2>&1 & echo $!");
    // Its shell prints the pid before the process has become `sleep`.
    const commandPath = `/proc/${text.trim()}/comm`;
    await waitFor("it is sleep", async () => (await readFile(commandPath, "utf8")) === "sleep\n");
    {
      await using frozen = new CgroupFreezer();
      frozen.freeze(Number(text));
      await frozen.frozen();
      const closing = await fixture.close(session);
      expect(closing.survivors).toMatchObject([{ pid: Number(text), command: "sleep" }]);
      expect(closing.session.state).toBe("closing");
      expect(problems.filter((message) => message.includes("processes survived KILL"))).toHaveLength(1);
      await expect(fixture.prompt(session, "echo on")).rejects.toMatchObject({ code: "ACP_SESSION_CLOSED" });
      const again = await fixture.close(session);
      expect(again).toMatchObject({
        session: { state: "closing" },
        survivors: [{ pid: Number(text), command: "sleep" }],
      });
    }
    await fixture.waitForState(session, "closed");
  },
);
