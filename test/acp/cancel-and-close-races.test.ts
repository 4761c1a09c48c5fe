import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { deferred } from "../../src/async/deferred.js";
import { StateUnusable } from "../../src/errors.js";
import { newTurnId } from "../../src/model/ids.js";
import type { Store } from "../../src/store/store.js";
import { AcpFixture, openAcpSession, overrideStore, shellAgent } from "../support/agents/acp-fixture.js";
import { waitFor } from "../support/wait-for.js";

test("the next gateway carries out a cancel that was recorded before a crash", async () => {
  const { fixture, session } = await openAcpSession(shellAgent());
  const turn = await fixture.promptUntil(session, "echo on; sleep 3106", "on");
  await fixture.detach();
  // As if the gateway had died before it sent the cancel to the agent.
  const { store } = await AcpFixture.open({}, { home: fixture.home, instanceId: "in_else" });
  const cancel = { actor: "ada", at: 1, reapTools: true };
  const { turnId } = turn;
  await store.commitAcpChange(session, "in_acp", { turns: [{ turnId, from: "running", set: { cancel } }] });
  const second = await fixture.restart();
  expect(await second.waitForTurnEnd(turn)).toMatchObject({
    outcome: "cancelled",
    stopReason: "cancelled",
    cancel: { actor: "ada", at: 1, reapTools: true },
  });
});

test("a cancel that the agent got before a crash is not sent again, and keeps its time", async () => {
  const fixture = await AcpFixture.open({ cancelMs: 60_000 });
  const session = await fixture.spawn(shellAgent("deaf"));
  const turn = await fixture.promptUntil(session, "echo on; sleep 3106", "on");
  const { turnId } = turn;
  void fixture.cancel(session).catch(() => undefined);
  const sent = await fixture.waitFor(session, async () => {
    const { cancel } = (await fixture.store.getAcpTurn(turnId)) ?? {};
    return cancel?.sentAt === undefined ? null : cancel;
  });
  const cancels = (): number => fixture.log.split("\n").filter((line) => line === "cancel").length;
  await waitFor("the agent got it", () => cancels() === 1);
  const second = await fixture.restart({ cancelMs: 300 });
  expect(await second.waitForTurnEnd(turn)).toMatchObject({ outcome: "cancel-unconfirmed", cancel: sent });
  expect(cancels()).toBe(1);
});

test("a session for one run whose gateway died before its prompt was stored closes itself", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent(), { mode: "run" });
  const second = await fixture.restart({ unusedRunMs: 100 });
  await second.waitForState(session, "closed");
  await second.waitForAgentExit(session);
});

test("a closed session reads no further prompt, also if the store fails", async () => {
  const looked = deferred<void>();
  const gate = deferred<void>();
  let asked = 0;
  const problems: string[] = [];
  const through = (store: Store): Store =>
    overrideStore(store, {
      listAcpTurns: async (filter) => {
        // The second read is for the prompt after the first.
        if (filter.states?.includes("queued") === true && filter.limit === 1 && ++asked === 2) {
          looked.resolve();
          await gate.promise;
        }
        return store.listAcpTurns(filter);
      },
    });
  const fixture = await AcpFixture.open({}, { through, onProblem: (message) => problems.push(message) });
  const session = await fixture.spawn(shellAgent());
  const turn = await fixture.prompt(session, "echo on");
  await fixture.waitForTurnEnd(turn);
  await looked.promise;
  await fixture.close(session);
  await fixture.detach();
  gate.resolve();
  await setImmediate();
  expect(problems).toEqual([]);
});

test("a cancel finds a turn that is sent while the queue is searched", async () => {
  let turnSent = Promise.resolve();
  const through = (store: Store): Store =>
    overrideStore(store, {
      listAcpTurns: async (filter) => {
        const seen = await store.listAcpTurns(filter);
        if (filter.states?.includes("queued") === true && filter.limit === undefined) await turnSent;
        return seen;
      },
    });
  const fixture = await AcpFixture.open({}, { through });
  const session = await fixture.spawn(shellAgent());
  const sent = deferred<void>();
  turnSent = sent.promise;
  const turn = await fixture.prompt(session, "echo on; sleep 3106");
  const cancelled = fixture.cancel(session);
  await fixture.waitForText(turn, "on");
  sent.resolve();
  expect(await cancelled).toMatchObject({ turnId: turn.turnId, outcome: "cancelled" });
});

test("a late cancel does not reach the next turn", async () => {
  const ending = deferred<void>();
  const goOn = deferred<void>();
  const through = (store: Store): Store =>
    overrideStore(store, {
      commitAcpChange: async (...change) => {
        if (change[2].turns?.some(({ set }) => set.outcome === "completed") === true) {
          ending.resolve();
          await goOn.promise;
        }
        return store.commitAcpChange(...change);
      },
    });
  const fixture = await AcpFixture.open({}, { through });
  const session = await fixture.spawn(shellAgent());
  const turn = await fixture.prompt(session, "echo first");
  await ending.promise;
  const cancelled = fixture.cancel(session);
  goOn.resolve();
  expect(await cancelled).toMatchObject({ turnId: turn.turnId, outcome: "completed", cancel: null });
  expect(await fixture.promptAndWait(session, "echo second")).toMatchObject({ outcome: "completed" });
  expect(fixture.log).not.toContain("cancel");
});

test("a close cancels every queued prompt, also if the first is sent meanwhile", async () => {
  const listed = deferred<void>();
  const sent = deferred<void>();
  const through = (store: Store): Store =>
    overrideStore(store, {
      listAcpTurns: async (filter) => {
        const seen = await store.listAcpTurns(filter);
        // The search of a cancel has no limit; the queue itself reads one turn.
        if (filter.states?.includes("queued") === true && filter.limit === undefined) {
          listed.resolve();
          await sent.promise;
        }
        return seen;
      },
    });
  const fixture = await AcpFixture.open({}, { through });
  const session = await fixture.spawn(shellAgent());
  const first = await fixture.prompt(session, "echo on; sleep 3106");
  const second = await fixture.prompt(session, "echo never");
  const closed = fixture.close(session);
  await listed.promise;
  await fixture.waitForText(first, "on");
  sent.resolve();
  await closed;
  expect(await fixture.waitForTurnEnd(first)).toMatchObject({ outcome: "cancelled" });
  expect(await fixture.waitForTurnEnd(second)).toMatchObject({ outcome: "cancelled", startedAt: null });
});

test("an agent is not started for a session that is being closed", async () => {
  const asked = deferred<void>();
  const goOn = deferred<void>();
  let held = false;
  const through = (store: Store): Store =>
    overrideStore(store, {
      issueToken: async (...token) => {
        if (held) {
          asked.resolve();
          await goOn.promise;
        }
        return store.issueToken(...token);
      },
    });
  const fixture = await AcpFixture.open({}, { through });
  const session = await fixture.spawn(shellAgent());
  const { runId } = await fixture.session(session);
  await fixture.supervisor.stop(runId ?? "");
  await fixture.waitForState(session, "down");
  held = true;
  const turn = await fixture.prompt(session, "echo never");
  await asked.promise;
  const closed = fixture.close(session);
  await fixture.waitForState(session, "closing");
  goOn.resolve();
  await closed;
  expect(await fixture.waitForTurnEnd(turn)).toMatchObject({ outcome: "cancelled" });
  expect(await fixture.supervisor.listRuns({ sessionId: session })).toHaveLength(1);
});

test("a repeated prompt is one turn, and the turn id of another session is refused", async () => {
  const { fixture, session } = await openAcpSession(shellAgent());
  const request = { text: "echo once", askedBy: "test", turnId: newTurnId() };
  const both = await Promise.all([1, 2].map(() => fixture.acp.prompt(session, request)));
  expect(both.map(({ ordinal }) => ordinal)).toEqual([1, 1]);
  expect(await fixture.promptAndWait(session, "echo next")).toMatchObject({ ordinal: 2, text: "next\n" });
  expect(fixture.log).toBe("session/new\nprompt echo once\nprompt echo next\n");
  const other = await fixture.spawn(shellAgent(), { key: "two" });
  await expect(fixture.acp.prompt(other, request)).rejects.toMatchObject({ code: "BAD_INPUT" });
  for (const each of [session, other]) await fixture.close(each);
});

test("a close stops the agent while the store fails, and is recorded later", async () => {
  let broken = false;
  const through = (store: Store): Store =>
    overrideStore(store, {
      commitAcpChange: async (...change) => {
        if (broken) throw new StateUnusable("store", "no space is left");
        return store.commitAcpChange(...change);
      },
    });
  const limits = { cancelMs: 200, closeMs: 200 };
  const problems: string[] = [];
  const onProblem = (message: string): void => void problems.push(message);
  const fixture = await AcpFixture.open(limits, { through, onProblem });
  const session = await fixture.spawn(shellAgent());
  const turn = await fixture.promptUntil(session, "echo on; sleep 3106", "on");
  const run = await fixture.run(session);
  broken = true;
  const closed = fixture.close(session);
  expect(await run.wait()).toMatchObject({ emptiness: "proven" });
  expect(await fixture.session(session)).toMatchObject({ state: "ready" });
  broken = false;
  expect(await closed).toMatchObject({ session: { state: "closed" } });
  expect(await fixture.waitForTurnEnd(turn)).toMatchObject({ state: "ended" });
  expect(problems).toEqual([`ACP session ${session} could not be written; retrying`]);
});
