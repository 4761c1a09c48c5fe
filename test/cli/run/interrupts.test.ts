import { expect, test } from "vitest";
import type { ForegroundRun } from "../../../src/cli/run/foreground-runner.js";
import { RunInterrupts } from "../../../src/cli/run/interrupts.js";
import { waitFor } from "../../support/wait-for.js";

test("a run that cannot be told to stop is a sentence each time, not a crash, and who insists leaves", async () => {
  const said: string[] = [];
  using interrupts = new RunInterrupts("me", (message) => said.push(message));
  const asked: unknown[] = [];
  interrupts.attach({
    service: null,
    cancel: async (options: unknown) => {
      asked.push(options);
      throw new Error("its anchor does not answer");
    },
  } as unknown as ForegroundRun);
  for (const word of ["cancelling…", "killing…"]) {
    said.length = 0;
    process.emit("SIGHUP", "SIGHUP");
    await waitFor("it is said", () => said.length === 2);
    expect(said).toEqual([word, "its anchor does not answer"]);
  }
  process.emit("SIGHUP", "SIGHUP");
  await interrupts.leaveRequested;
  expect(asked).toEqual([{ actor: "me" }, { actor: "me", graceMs: 0 }]);
  expect(interrupts.firstSignal).toBe("SIGHUP");
});
