import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { StateUnusable } from "../../src/errors.js";
import { newTurnId } from "../../src/model/ids.js";
import type { Store } from "../../src/store/store.js";
import {
  AcpFixture,
  misbehavingAgent,
  openAcpSession,
  overrideStore,
  shellAgent,
} from "../support/agents/acp-fixture.js";
import { waitFor } from "../support/wait-for.js";

test("a live agent that is not owned yet gets no second agent beside it", async () => {
  const { fixture, session } = await openAcpSession(shellAgent());
  const pid = await fixture.pid(session);
  const turn = await fixture.promptUntil(session, "echo on; sleep 3106", "on");
  const second = await fixture.restart({}, { blind: true });
  const refused = { code: "ACP_NOT_HELD", sessionId: session };
  await expect(second.prompt(session, "echo early")).rejects.toMatchObject(refused);
  await expect(second.close(session)).rejects.toMatchObject(refused);
  const { runs } = await second.supervisor.reconcile();
  // Prompted while the session is being resumed.
  const [next] = await Promise.all([second.prompt(session, "echo next"), second.acp.resumeSessionsOf(runs)]);
  expect(await second.cancel(session)).toMatchObject({ turnId: turn.turnId, outcome: "cancelled" });
  expect(await second.waitForTurnEnd(next)).toMatchObject({ outcome: "completed", text: "next\n" });
  expect(await second.pid(session)).toBe(pid);
  expect(await second.supervisor.listRuns({ sessionId: session })).toHaveLength(1);
});

test("an agent whose end is found later interrupts its turn, and the session continues", async () => {
  const { fixture, session } = await openAcpSession(shellAgent("resume"));
  const turn = await fixture.promptUntil(session, "echo on; sleep 3106", "on");
  const { runId } = await fixture.session(session);
  const second = await fixture.restart({}, { blind: true });
  await second.supervisor.stop(runId ?? "");
  const { runs } = await second.supervisor.reconcile();
  await second.acp.resumeSessionsOf(runs);
  expect(await second.waitForTurnEnd(turn)).toMatchObject({ outcome: "interrupted", text: "on\n" });
  await second.echo(session, "next");
});

test("the problem of a session stays after a restart", async () => {
  const { fixture, session } = await openAcpSession(shellAgent());
  await (await fixture.run(session)).cancel();
  await fixture.waitForState(session, "down");
  const { problem } = await fixture.session(session);
  expect(problem).toMatchObject({ code: "ACP_CLOSED" });
  const second = await fixture.restart();
  expect(await second.session(session)).toMatchObject({ state: "down", problem });
});

test.each(["starting", "closing"] as const)(
  "an agent that was %s when its gateway died is stopped and its TMPDIR removed",
  async (state) => {
    const { fixture, session } = await openAcpSession(shellAgent());
    const { runId, tmpdir } = await fixture.session(session);
    await fixture.detach();
    const { store } = await AcpFixture.open({}, { home: fixture.home, instanceId: "in_else" });
    await store.commitAcpChange(session, "in_acp", { session: { state } });
    const second = await fixture.restart();
    await second.waitForState(session, state === "starting" ? "down" : "closed");
    expect(existsSync(tmpdir ?? "/")).toBe(false);
    await second.waitForAgentExit(session);
    if (state === "closing") return;
    await second.echo(session, "next");
    expect((await second.session(session)).runId).not.toBe(runId);
  },
);

test("a prompt during the exit of the agent goes to the next agent", async () => {
  const fixture = await AcpFixture.open({ ownExitMs: 1_500 });
  const session = await fixture.spawn(misbehavingAgent("answers-and-closes-stdout"));
  const run = await fixture.run(session);
  expect(await fixture.promptAndWait(session, "go")).toMatchObject({ outcome: "completed" });
  // Its output has ended, and its process runs on.
  for await (const { stream } of run.follow({ streams: ["stdout"] })) expect(stream).toBe("stdout");
  expect(await fixture.promptAndWait(session, "go")).toMatchObject({ outcome: "completed", ordinal: 2 });
  expect((await fixture.session(session)).runId).not.toBe(run.runId);
});

test.each([
  { what: "time", timeoutMs: 200, outcome: "failed", code: "ACP_TIMEOUT" },
  { what: "agent", timeoutMs: undefined, outcome: "interrupted", code: "ACP_CLOSED" },
])("a prompt whose $what ends before its turn can be stored is one turn, which has ended", async (given) => {
  const store = { away: false, refused: 0 };
  const fixture = await AcpFixture.open(
    {},
    {
      onProblem: () => undefined,
      through: (whole) =>
        overrideStore(whole, {
          commitAcpChange: async (...change) => {
            if (!store.away) return whole.commitAcpChange(...change);
            store.refused += 1;
            throw new StateUnusable("store", "it cannot be written");
          },
        }),
    },
  );
  const session = await fixture.spawn(shellAgent());
  await fixture.echo(session, "earlier");
  const agent = await fixture.run(session);
  store.away = true;
  const late = fixture.prompt(session, "echo late", given.timeoutMs);
  if (given.what === "agent") {
    await waitFor("its turn is being stored", () => store.refused > 0);
    await fixture.signalAgent(session);
  }
  await agent.wait();
  store.away = false;
  expect(await fixture.waitForTurnEnd(await late)).toMatchObject({
    outcome: given.outcome,
    problem: { code: given.code },
  });
  await fixture.echo(session, "next");
  const turns = await fixture.store.listAcpTurns({ sessionId: session });
  expect(turns.map(({ prompt, state }) => [prompt, state])).toEqual([
    ["echo earlier", "ended"],
    ["echo late", "ended"],
    ["echo next", "ended"],
  ]);
});

/** The gateway of a session stops writing before or after this write of the turn. */
const crashes = [0, 1, 2, 3, 4, 5].flatMap((at) => [
  { at, written: false },
  { at, written: true },
]);

test.each([
  { prompt: "a prompt that is queued first", earlier: 0, leastWrites: 5 },
  { prompt: "a prompt that is sent at once", earlier: 1, leastWrites: 4 },
])(
  "after a crash at any step of the turn of $prompt, it is sent once and the request answered once",
  async ({ earlier, leastWrites }) => {
    const dying = new Map<string, (typeof crashes)[number]>();
    const counts = new Map<string, number>();
    const dead = new Set<string>();
    const never = new Promise<never>(() => undefined);
    const through = (store: Store): Store =>
      overrideStore(store, {
        commitAcpChange: async (...change) => {
          const [id] = change;
          const crash = dying.get(id);
          const count = counts.get(id) ?? 0;
          counts.set(id, count + 1);
          if (crash === undefined || count < crash.at) return store.commitAcpChange(...change);
          if (crash.written) await store.commitAcpChange(...change);
          dead.add(id);
          return never;
        },
      });
    const fixture = await AcpFixture.open({}, { through });
    const sessions = await Promise.all(
      crashes.map((_, at) => fixture.spawn(shellAgent(), { key: `s${at}`, rules: [{ effect: "allow" }] })),
    );
    for (let n = 0; n < earlier; n++)
      await Promise.all(sessions.map((session) => fixture.echo(session, "earlier")));
    const prompts = sessions.map((session, at) => {
      counts.set(session, 0);
      dying.set(session, crashes[at]!);
      return { session, crash: crashes[at]!, turnId: newTurnId() };
    });
    const request = { text: "ask echo hi", askedBy: "test" };
    // The gateway of a prompt dies before it answers.
    for (const { session, turnId } of prompts)
      fixture.acp.prompt(session, { ...request, turnId }).catch(() => undefined);
    await waitFor("every session has stopped writing, or has ended its turn", async () => {
      const turns = await Promise.all(prompts.map(({ turnId }) => fixture.store.getAcpTurn(turnId)));
      return turns.every((turn, at) => dead.has(sessions[at]!) || (turn?.audit ?? null) !== null);
    });
    expect(dead.size).toBeGreaterThanOrEqual(2 * leastWrites);
    const second = await fixture.restart();
    for (const { session, turnId, crash } of prompts) {
      const stored = await second.store.getAcpTurn(turnId);
      expect(stored === null).toBe(crash.at === 0 && !crash.written);
      // Its caller got no answer, and repeats it.
      const turn = stored ?? (await second.acp.prompt(session, { ...request, turnId }));
      expect(await second.waitForTurnEnd(turn)).toMatchObject({ outcome: "completed", text: "<yes>hi\n" });
      await waitFor("the audit", async () => (await second.store.getAcpTurn(turnId))?.audit ?? null);
      const updates = await second.store.listAcpUpdates({ sessionId: session, turnId });
      expect(JSON.stringify(updates).match(/"tool_call"/g)).toHaveLength(1);
      const steps = updates.filter(({ type }) => type === "turn" || type === "audit");
      expect(
        steps.map(({ type, data }) => (type === "turn" ? (data as { state: string }).state : type)),
      ).toEqual(["queued", "running", "ended", "audit"]);
      expect(await second.store.listAcpPermissionRequests({ sessionId: session })).toMatchObject([
        { answered: true },
      ]);
    }
    expect(second.log.match(/^prompt/gm)).toHaveLength((1 + earlier) * sessions.length);
  },
);
