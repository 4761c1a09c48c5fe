import { describe, expect, test } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import type { Run } from "../../../src/supervisor/api.js";
import {
  findProcessesOfRun,
  plantLookalike,
  readOutput,
  realSupervisor,
  shellInput,
  waitForOutput,
} from "../../support/supervisor/real-supervisor.js";

describe("an escape", () => {
  /** A daemon, and two processes without the run's environment, all in other sessions. Each prints a line. */
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
    "of a %s run under `fail` is the reason of its end, with the leader's code and all processes named",
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
    // On a loaded machine it may take longer than `settleMs`: then it is an escape.
    const inTime = record.residueCount === 0;
    expect(record.exit).toMatchObject({ reason: inTime ? "exit" : "ownership-escape", code: 2 });
    if (inTime) expect((await readOutput(run)).stdout).toBe("late\n");
  });
});
