import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { RunEvent } from "../../../src/model/run-event.js";
import type { RunRecord } from "../../../src/model/run.js";
import type { Run, Supervisor } from "../../../src/supervisor/api.js";
import {
  findProcessesOfRun,
  plantLookalike,
  realSupervisor,
  shellInput,
  waitForOutput,
} from "../../support/supervisor/real-supervisor.js";
import { repetitions, scaled } from "../../support/scale.js";

const rounds = repetitions(40, 1_000);
/** Enough to load both cores, which reveals races. */
const atOnce = 6;

const STOPS = ["manual-cancel", "overall-timeout", "no-output-timeout", "shutdown"];

/** Calls `round` `rounds` times, a few at once. */
async function again(round: (at: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < rounds) await round(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

/**
 * The record, its exit event and the event of the stop agree, and nothing changes afterwards. `code`: the exit code of
 * the program without a stop.
 */
async function expectConsistentEnd(supervisor: Supervisor, run: Run, code: number): Promise<RunRecord> {
  const record = await run.wait();
  const { exit } = record;
  expect(record).toMatchObject({ state: "exited", emptiness: "proven" });
  const events = await supervisor.listEvents({ runId: run.runId });
  const of = (type: RunEvent["type"]) => events.filter((event) => event.type === type);
  expect(of("exit")).toHaveLength(1);
  expect(of("exit")[0]?.data).toMatchObject({ reason: exit?.reason, actor: exit?.actor, code: exit?.code });
  expect(of("spawn")).toHaveLength(1);
  expect(of("cancel").length).toBeLessThanOrEqual(1);
  expect(events.at(-1)?.type).toBe("exit");
  if (STOPS.includes(exit?.reason ?? "")) {
    // The actor of the end is that of the recorded stop.
    expect(of("cancel").map(({ data }) => data)).toMatchObject([
      { reason: exit?.reason, actor: exit?.actor },
    ]);
    expect(exit?.actor).not.toBe("");
    expect.soft(run.firstStop).toMatchObject({ reason: exit?.reason, actor: exit?.actor });
    // The program may have ended before the signal.
    expect(exit?.code === code || exit?.signal === "SIGTERM" || exit?.signal === "SIGKILL").toBe(true);
  } else {
    expect(exit).toMatchObject({ reason: "exit", code, signal: null, actor: "" });
  }
  await run.cancel({ actor: "too late", graceMs: 0 });
  expect(await supervisor.getRun(run.runId)).toEqual(record);
  expect(await run.wait()).toEqual(record);
  return record;
}

async function reasonsOf(round: (at: number) => Promise<RunRecord>): Promise<Map<string, number>> {
  const reasons = new Map<string, number>();
  await again(async (at) => {
    const reason = (await round(at)).exit?.reason ?? "none";
    reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  });
  return reasons;
}

describe("races with the program's own end", () => {
  test(`a timeout about as long as the program takes, ${rounds} times: one consistent end`, async () => {
    const supervisor = await realSupervisor();
    const reasons = await reasonsOf(async (at) => {
      const timeoutMs = 60 + (at % 30);
      const run = await supervisor.spawn(shellInput("sleep 0.07; exit 7"), { timeoutMs, graceMs: 50 });
      return expectConsistentEnd(supervisor, run, 7);
    });
    for (const reason of reasons.keys()) expect(["exit", "overall-timeout"]).toContain(reason);
  });

  test(`silence as long as the program's pauses, ${rounds} times: one consistent end`, async () => {
    const supervisor = await realSupervisor();
    const reasons = await reasonsOf(async (at) => {
      const noOutputTimeoutMs = 30 + (at % 30);
      const run = await supervisor.spawn(shellInput("echo a; sleep 0.04; echo b; sleep 0.04; exit 7"), {
        noOutputTimeoutMs,
        graceMs: 50,
      });
      return expectConsistentEnd(supervisor, run, 7);
    });
    for (const reason of reasons.keys()) expect(["exit", "no-output-timeout"]).toContain(reason);
  });

  test(`a cancel about when the program ends, ${rounds} times: one consistent end`, async () => {
    const supervisor = await realSupervisor();
    const reasons = await reasonsOf(async (at) => {
      const run = await supervisor.spawn(shellInput("read line; exit 7"), { graceMs: 50 });
      const told = run.write("go\n").catch(() => {});
      if (at % 3 === 1) await setImmediateTurns(at % 7);
      if (at % 3 === 2) await setTimeout(at % 4);
      await run.cancel({ actor: `racer ${at}` });
      await told;
      return expectConsistentEnd(supervisor, run, 7);
    });
    for (const reason of reasons.keys()) expect(["exit", "manual-cancel"]).toContain(reason);
  });

  test(`a cancel in every phase of the start, ${rounds} times: the run ends, and no process is left`, async () => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3061");
    await again(async (at) => {
      const stop = new AbortController();
      const spawned = supervisor.spawn(shellInput("sleep 3061"), { signal: stop.signal, graceMs: 50 });
      await setImmediateTurns(at % 12);
      stop.abort();
      const answer = await spawned.then(
        (run) => run.wait(),
        (error: unknown) => error,
      );
      // Before its first instruction, or after.
      if (answer instanceof Error)
        expect(answer).toMatchObject({ code: expect.stringMatching(/SPAWN_FAILED|BAD_INPUT/) });
      else expect(answer).toMatchObject({ exit: { reason: "manual-cancel" }, emptiness: "proven" });
    });
    expect(await supervisor.listRuns({ states: ["starting", "running", "exiting"] })).toEqual([]);
    for (const { runId, exit } of await supervisor.listRuns()) {
      expect(["manual-cancel", "spawn-error"]).toContain(exit?.reason);
      expect(await findProcessesOfRun(runId)).toEqual([]);
    }
  });
});

async function setImmediateTurns(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve));
}

describe("several stops of one run", () => {
  test("a hundred at once, each with its own actor: only the first is recorded", async () => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3062");
    const run = await supervisor.spawn(shellInput("sleep 3062"), { graceMs: 500 });
    await Promise.all(
      Array.from({ length: 100 }, (_, at) =>
        run.cancel({
          actor: `actor ${at}`,
          requestId: `request ${at}`,
          reason: at % 2 === 0 ? "manual-cancel" : "shutdown",
        }),
      ),
    );
    const record = await expectConsistentEnd(supervisor, run, 0);
    expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "actor 0" });
    expect(run.firstStop).toMatchObject({ requestId: "request 0" });
    expect(await findProcessesOfRun(run.runId)).toEqual([]);
  });

  test("a later stop may shorten the grace period, but not lengthen it or change the reason", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(shellInput("trap '' TERM; echo ready; while :; do sleep 0.02; done"), {
      graceMs: 20_000,
    });
    await waitForOutput(run, "ready");
    await run.cancel({ actor: "patient" });
    await run.cancel({ actor: "even more patient", graceMs: 60_000 });
    await setTimeout(100);
    expect(run.state).toBe("exiting");
    const began = performance.now();
    await run.cancel({ actor: "impatient", graceMs: 0 });
    expect((await run.wait()).exit).toMatchObject({ actor: "patient", signal: "SIGKILL" });
    expect(performance.now() - began).toBeLessThan(scaled(2_000));
  });

  test("cancel and both deadlines at the same moment: the first counts in all records", async () => {
    const supervisor = await realSupervisor();
    const reasons = await reasonsOf(async (at) => {
      const limit = 40 + (at % 10);
      const run = await supervisor.spawn(shellInput("sleep 3063"), {
        timeoutMs: limit,
        noOutputTimeoutMs: limit,
        graceMs: 50,
      });
      await setTimeout(limit + (at % 5) - 3);
      await Promise.all([run.cancel({ actor: "one" }), run.cancel({ actor: "two" })]);
      const record = await expectConsistentEnd(supervisor, run, 0);
      expect(["one", "deadline"]).toContain(record.exit?.actor);
      return record;
    });
    expect(reasons.get("manual-cancel") ?? 0).toBeGreaterThan(0);
    expect(reasons.size).toBeGreaterThan(1);
  });

  test("a signal to the anchor and a cancel at the same moment: all records agree", async () => {
    const supervisor = await realSupervisor();
    const actors = new Set<string>();
    await again(async (at) => {
      const run = await supervisor.spawn(shellInput("sleep 3064"), { graceMs: 50 });
      const anchor = (await supervisor.getRun(run.runId))?.anchor?.pid ?? 0;
      if (at % 2 === 0) process.kill(anchor, "SIGTERM");
      await run.cancel({ actor: "caller" });
      const { exit } = await expectConsistentEnd(supervisor, run, 0);
      actors.add(exit?.actor.replace(/\d+/, "N") ?? "");
    });
    for (const actor of actors) expect(["caller", "signal:TERM pid:N"]).toContain(actor);
    expect(actors.has("caller")).toBe(true);
  });
});

test(`an escape and a cancel at the same moment, ${rounds} times: one consistent end`, async () => {
  const supervisor = await realSupervisor();
  plantLookalike("sleep", "3066");
  await again(async (at) => {
    const run = await supervisor.spawn(
      shellInput("setsid sh -c 'echo out; exec sleep 3066' & read line; exit 0"),
      {
        graceMs: 50,
      },
    );
    await waitForOutput(run, "out");
    await run.write("go\n").catch(() => {});
    // Before `settleMs`, around it, after it.
    await setTimeout(defaults.settleMs - 30 + (at % 50));
    await run.cancel({ actor: "racer" });
    const record = await run.wait();
    const events = await supervisor.listEvents({ runId: run.runId });
    expect(events.filter(({ type }) => type === "exit")).toHaveLength(1);
    expect(["manual-cancel", "ownership-escape"]).toContain(record.exit?.reason);
    expect(record).toMatchObject({ exit: { code: 0, signal: null }, emptiness: "proven" });
    expect(record.exit?.actor).toBe(record.exit?.reason === "manual-cancel" ? "racer" : "");
    expect(await findProcessesOfRun(run.runId)).toEqual([]);
  });
});
