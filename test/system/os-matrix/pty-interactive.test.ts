import { expect, test } from "vitest";
import { expectEnd, fixtureCommand, GRACE_MS, OsFixture, readFinalOutput } from "./os-fixture.js";
import { waitFor } from "../../support/wait-for.js";

/** Rare for a terminal, and well below the limit on a loaded machine. */
const EVERY_MS = 250;
const SILENCE_MS = 1_500;

test("pty-interactive: intermittent output never times out, and input arrives", async () => {
  await using context = await OsFixture.open();
  const supervisor = await context.supervisor();
  const argv = fixtureCommand("talk", String(EVERY_MS));
  const run = await supervisor.spawn(
    { io: "pty", argv },
    { graceMs: GRACE_MS, noOutputTimeoutMs: SILENCE_MS },
  );
  const root = run.rootPid ?? 0;
  let seen = "";
  const watching = (async () => {
    for await (const { bytes } of run.follow()) seen += Buffer.from(bytes).toString();
  })();
  await waitFor("it prints", () => seen.includes("terminal true"));
  await run.write("hello\r");
  await waitFor("it has read the input", () => seen.includes("heard hello"));
  // Twice the limit, counted in lines instead of time.
  const lines = (2 * SILENCE_MS) / EVERY_MS;
  await waitFor("it has printed often", () => seen.split("still here").length > lines, 20_000);
  expect(run.state).toBe("running");
  await run.write("bye\r");
  const record = await run.wait();
  await watching;
  expect(record.exit).toMatchObject({ reason: "exit", code: 5 });
  expect((await readFinalOutput(run)).stdout).toBe(seen);
  await expectEnd(supervisor, record, [root]);
  expect(context.problems).toEqual([]);
});
