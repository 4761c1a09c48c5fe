import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, onTestFinished, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { CommandInput } from "../../../src/supervisor/api.js";
import {
  findProcessesOfRun,
  plantLookalike,
  readOutput,
  realSupervisor,
  waitForOutput,
} from "../../support/supervisor/real-supervisor.js";
import { withTimeout } from "../../support/wait-for.js";

function pty(script: string): CommandInput {
  return { io: "pty", argv: ["/bin/sh", "-c", script] };
}

describe("the end of a run does not wait for a process that holds the terminal", () => {
  const PROMPTLY_MS = 3_000;

  test.each([
    ["a background job", "sleep 3034 & exit 0", 0],
    ["a background job that ignores SIGHUP", "trap '' HUP; sleep 3034 & exit 0", 1],
    ["a background job that ignores all signals it can", "trap '' HUP TERM INT; sleep 3034 & exit 0", 1],
    [
      "background jobs that keep writing",
      "trap '' HUP; (while :; do echo busy; done) & (while :; do echo busy; done) & exit 0",
      2,
    ],
  ])("%s", async (_, script, residue) => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3034");
    const run = await supervisor.spawn(pty(script), { graceMs: 300 });
    const record = await withTimeout(PROMPTLY_MS, "the end", run.wait());
    expect(record).toMatchObject({
      exit: { reason: "exit", code: 0 },
      residueCount: residue,
      emptiness: "proven",
    });
    expect(record.residue.map(({ kind }) => kind)).toEqual(
      Array.from({ length: residue }, () => "background"),
    );
    expect(await findProcessesOfRun(run.runId)).toEqual([]);
  });

  test("a process outside the run, which is not touched", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(pty("tty; read line; echo last words; exit 6"));
    await waitForOutput(run, "\r\n");
    const terminal = Buffer.from((await run.read("stdout")).bytes)
      .toString("latin1")
      .trim();
    const stranger = spawn("sh", ["-c", `exec 3<>"$0"; echo holding; exec sleep 3035`, terminal], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    onTestFinished(() => void stranger.kill("SIGKILL"));
    await once(stranger.stdout, "data");
    await run.write("go\n");
    // The anchor waits at most `drainMs` for the last output.
    const record = await withTimeout(PROMPTLY_MS + defaults.drainMs, "the end", run.wait());
    expect(record).toMatchObject({ exit: { reason: "exit", code: 6 }, residueCount: 0, emptiness: "proven" });
    expect((await readOutput(run)).stdout).toContain("last words\r\n");
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
  });
});
