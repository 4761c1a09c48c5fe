import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { RunEvent } from "../../../src/model/run-event.js";
import type { RunRecord } from "../../../src/model/run.js";
import type { Run, Supervisor } from "../../../src/supervisor/api.js";
import {
  plantLookalike,
  waitForOutput,
  findProcessesOfRun,
  realSupervisor,
  shellInput,
  readOutput,
} from "../../support/supervisor/real-supervisor.js";
import { scaled } from "../../support/scale.js";

const soak = process.env["HOLDFAST_SOAK"] === "1";
const rounds = soak ? 1_000 : 60;
/** Enough at once to load both cores: that is when races are lost. */
const atOnce = 6;

const STOPS = ["manual-cancel", "overall-timeout", "no-output-timeout", "shutdown"];

/** `round` is called `rounds` times, a few at once. */
async function again(round: (at: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < rounds) await round(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

/**
 * One end, one story: the record, its event and the event of the stop agree, and nothing changes afterwards.
 * `code` is what the program exits with when it is left alone.
 */
async function expectOneStory(supervisor: Supervisor, run: Run, code: number): Promise<RunRecord> {
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
    // Who is blamed at the end is who was seen to ask.
    expect(of("cancel").map(({ data }) => data)).toMatchObject([
      { reason: exit?.reason, actor: exit?.actor },
    ]);
    expect(exit?.actor).not.toBe("");
    expect.soft(run.firstStop).toMatchObject({ reason: exit?.reason, actor: exit?.actor });
    // It may have been as fast as the signal.
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
  test(`a timeout about as long as the program takes, ${rounds} times: one end, one story`, async () => {
    const supervisor = await realSupervisor();
    const reasons = await reasonsOf(async (at) => {
      const timeoutMs = 60 + (at % 30);
      const run = await supervisor.spawn(shellInput("sleep 0.07; exit 7"), { timeoutMs, graceMs: 50 });
      return expectOneStory(supervisor, run, 7);
    });
    for (const reason of reasons.keys()) expect(["exit", "overall-timeout"]).toContain(reason);
  });

  test(`silence as long as the program's pauses, ${rounds} times: one end, one story`, async () => {
    const supervisor = await realSupervisor();
    const reasons = await reasonsOf(async (at) => {
      const noOutputTimeoutMs = 30 + (at % 30);
      const run = await supervisor.spawn(shellInput("echo a; sleep 0.04; echo b; sleep 0.04; exit 7"), {
        noOutputTimeoutMs,
        graceMs: 50,
      });
      return expectOneStory(supervisor, run, 7);
    });
    for (const reason of reasons.keys()) expect(["exit", "no-output-timeout"]).toContain(reason);
  });

  test(`a cancel about when the program ends, ${rounds} times: one end, one story`, async () => {
    const supervisor = await realSupervisor();
    const reasons = await reasonsOf(async (at) => {
      const run = await supervisor.spawn(shellInput("read line; exit 7"), { graceMs: 50 });
      const told = run.write("go\n").catch(() => {});
      if (at % 3 === 1) await setImmediateTurns(at % 7);
      if (at % 3 === 2) await setTimeout(at % 4);
      await run.cancel({ actor: `racer ${at}` });
      await told;
      return expectOneStory(supervisor, run, 7);
    });
    for (const reason of reasons.keys()) expect(["exit", "manual-cancel"]).toContain(reason);
  });

  test(`a cancel in every phase of the start, ${rounds} times: it never runs on, and nothing is left`, async () => {
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

describe("several who stop one run", () => {
  test("a hundred at once, each under a name of its own: the first wins, and is the only one on record", async () => {
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
    const record = await expectOneStory(supervisor, run, 0);
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

  test("cancel, timeout and silence in the same moment: the first wins, and all records name the same", async () => {
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
      const record = await expectOneStory(supervisor, run, 0);
      expect(["one", "deadline"]).toContain(record.exit?.actor);
      return record;
    });
    expect(reasons.get("manual-cancel") ?? 0).toBeGreaterThan(0);
    expect(reasons.size).toBeGreaterThan(1);
  });

  test("the operator's signal to the anchor and a cancel in the same moment: all records name the same", async () => {
    const supervisor = await realSupervisor();
    const actors = new Set<string>();
    await again(async (at) => {
      const run = await supervisor.spawn(shellInput("sleep 3064"), { graceMs: 50 });
      const anchor = (await supervisor.getRun(run.runId))?.anchor?.pid ?? 0;
      if (at % 2 === 0) process.kill(anchor, "SIGTERM");
      await run.cancel({ actor: "caller" });
      const { exit } = await expectOneStory(supervisor, run, 0);
      actors.add(exit?.actor.replace(/\d+/, "N") ?? "");
    });
    for (const actor of actors) expect(["caller", "signal:TERM pid:N"]).toContain(actor);
    expect(actors.has("caller")).toBe(true);
  });
});

describe("an escape", () => {
  /** In other sessions, by every door: one daemon, and a pair without the run's environment. They say when they are out. */
  const escapes = (end: string): string => `
    setsid sh -c 'echo out; exec sleep 3065' &
    (env -i setsid /bin/sh -c '(echo out; exec /bin/sleep 3065) & echo out; exec /bin/sleep 3065' &)
    read line; ${end}`;

  async function escaped(run: Run): Promise<RunRecord> {
    let seen = "";
    for await (const { bytes } of run.follow({ streams: ["stdout"] })) {
      seen += Buffer.from(bytes).toString();
      if (seen.split("out").length > 3) break;
    }
    await run.write("go\n");
    return run.wait();
  }

  test.each(["pipe", "pty"] as const)(
    "of a %s run ends it as one under `fail`: with its own code, and all named",
    async (io) => {
      const supervisor = await realSupervisor();
      plantLookalike("sleep", "3065");
      const argv = ["/bin/sh", "-c", escapes("exit 0")];
      const run = await supervisor.spawn(io === "pipe" ? { io, argv } : { io, argv }, { graceMs: 200 });
      const record = await escaped(run);
      expect(record).toMatchObject({
        exit: { reason: "ownership-escape", code: 0, signal: null },
        residueCount: 3,
        emptiness: "proven",
      });
      expect(record.residue.map(({ kind }) => kind)).toEqual(["detached", "detached", "detached"]);
      const events = await supervisor.listEvents({ runId: run.runId });
      expect(events.map(({ type }) => type)).toEqual(["spawn", "escape", "cleanup", "exit"]);
      expect(events.find(({ type }) => type === "escape")?.data).toMatchObject({
        residue: record.residue.map(({ pid }) => ({ pid, kind: "detached" })),
      });
      expect(await findProcessesOfRun(run.runId)).toEqual([]);
    },
  );

  test("under `sweep` is swept and recorded, and the leader's outcome stands", async () => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3065");
    for (const [end, exit] of [
      ["exit 0", { reason: "exit", code: 0 }],
      ["exit 6", { reason: "exit", code: 6 }],
      ["kill -9 $$", { reason: "signal", signal: "SIGKILL" }],
    ] as const) {
      const run = await supervisor.spawn(shellInput(escapes(end)), { onEscape: "sweep", graceMs: 200 });
      const record = await escaped(run);
      expect(record).toMatchObject({ exit, residueCount: 3, emptiness: "proven" });
      const events = await supervisor.listEvents({ runId: run.runId });
      expect(events.map(({ type }) => type)).toEqual(["spawn", "escape", "cleanup", "exit"]);
      expect(await findProcessesOfRun(run.runId)).toEqual([]);
    }
  });

  test("is not recorded when the run was stopped", async () => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3065");
    const run = await supervisor.spawn(shellInput("setsid sleep 3065 & echo ready; wait"), { graceMs: 200 });
    await waitForOutput(run, "ready");
    await run.cancel({ actor: "test" });
    expect((await run.wait()).exit).toMatchObject({ reason: "manual-cancel", actor: "test" });
    expect(await findProcessesOfRun(run.runId)).toEqual([]);
  });

  test("is not recorded when a daemon ends by itself in time", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(shellInput("setsid sh -c 'echo late' & exit 2"));
    const record = await run.wait();
    // On a machine so loaded that it takes longer than `settleMs`, it is one.
    const inTime = record.residueCount === 0;
    expect(record.exit).toMatchObject({ reason: inTime ? "exit" : "ownership-escape", code: 2 });
    if (inTime) expect((await readOutput(run)).stdout).toBe("late\n");
  });

  test(`and a cancel in the same moment, ${rounds} times: one end, one story`, async () => {
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
});
