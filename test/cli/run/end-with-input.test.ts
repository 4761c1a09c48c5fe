import { describe, expect, test } from "vitest";
import { CliFixture, waitForText } from "../../support/cli/cli-fixture.js";
import { fixtureFactory, SUPERVISION_MODES } from "../../support/cli/supervision-modes.js";
import { scaled } from "../../support/scale.js";

/** Ends neither at the end of its input nor by itself, and has a child in a session of its own. */
const DEAF = "setsid sleep 3600 & echo up; exec sleep 3600";
const STOPPED = /^holdfast: stopped: it did not end with its input \(--end-with-input\)/;

describe.each(SUPERVISION_MODES)("%s", (mode) => {
  const open = fixtureFactory(mode);

  test("a command that ignores the end of its input is stopped with everything it started", async () => {
    await using fixture = await open();
    const { child, finished } = fixture.start("run", "--end-with-input", "100ms", "--", "sh", "-c", DEAF);
    await waitForText(child.stdout, "up\n");
    const before = performance.now();
    child.stdin.end();
    const { code, stderr } = await finished;
    expect(stderr).toMatch(STOPPED);
    expect(code).toBe(143);
    expect(performance.now() - before).toBeLessThan(scaled(3_000));
  });

  test("a command that ends with its input keeps its exit code, and nothing is reported", async () => {
    await using fixture = await open();
    const script = "echo up; cat; sleep 0.2; exit 7";
    const { child, finished } = fixture.start("run", "--end-with-input", "1m", "--", "sh", "-c", script);
    await waitForText(child.stdout, "up\n");
    child.stdin.end("last words");
    const { code, stdout, stderr } = await finished;
    expect({ code, stdout, stderr }).toEqual({ code: 7, stdout: "up\nlast words", stderr: "" });
  });

  test("a command that has closed its input is stopped when the input ends, not before", async () => {
    await using fixture = await open();
    const script = "exec 0<&-; echo up; sleep 0.5; echo still; exec sleep 3600";
    const { child, finished } = fixture.start("run", "--end-with-input", "0", "--", "sh", "-c", script);
    await waitForText(child.stdout, "up\n");
    child.stdin.write("nobody reads this\n".repeat(10_000));
    await waitForText(child.stdout, "still\n");
    child.stdin.end();
    expect((await finished).stderr).toMatch(STOPPED);
  });
});

test("in the background it is refused, because there is no input", async () => {
  await using fixture = await CliFixture.open();
  const { code, stderr } = await fixture.holdfast("run", "-d", "--end-with-input", "1s", "--", "true");
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr:
      "holdfast: --end-with-input is for a command in the foreground: leave out --detach; nothing was started\n",
  });
});
