import { expect, test } from "vitest";
import { expectEnd, fixtureCommand, GRACE_MS, OsFixture, readFinalOutput } from "./os-fixture.js";
import { waitFor } from "../../support/wait-for.js";

/** Far apart for a terminal, and well below the limit on a loaded machine. */
const EVERY_MS = 250;
const SILENCE_MS = 1_500;

test("pty-interactive: intermittent output never times out, and the answer is heard", async () => {
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
  await waitFor("it asks", () => seen.includes("terminal true"));
  await run.write("hello\r");
  await waitFor("it has heard", () => seen.includes("heard hello"));
  // Twice as long as the limit, in words rather than by the clock.
  const words = (2 * SILENCE_MS) / EVERY_MS;
  await waitFor("it has spoken often", () => seen.split("still here").length > words, 20_000);
  expect(run.state).toBe("running");
  await run.write("bye\r");
  const record = await run.wait();
  await watching;
  expect(record.exit).toMatchObject({ reason: "exit", code: 5 });
  expect((await readFinalOutput(run)).stdout).toBe(seen);
  await expectEnd(supervisor, record, [root]);
  expect(context.problems).toEqual([]);
});
