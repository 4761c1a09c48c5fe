import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyNoTerminal } from "../../support/cli/recovery-fixture.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { waitForText } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

const DETACH = "\u001d";
const ATTACHED = "attached; C-] detaches";

let gatewayFixture: BackgroundGateway;
beforeAll(async () => {
  gatewayFixture = await BackgroundGateway.started();
});
afterAll(() => gatewayFixture[Symbol.asyncDispose]());

describe.concurrent("attach", () => {
  test("shows past and new output, sends keys, and detaches with C-] while the run continues", async (context) => {
    if (whyNoTerminal !== null) context.skip(whyNoTerminal);
    const runId = await gatewayFixture.startBash();
    const { code, stdout } = await gatewayFixture.atTerminal(
      ["attach", runId],
      [ATTACHED, ""],
      ["ready> ", "echo at$((3+3))\r"],
      ["at6", DETACH],
    );
    expect(code).toBe(0);
    expect(stdout).toContain(`holdfast: detached from ${runId}; the run continues`);
    // Bracketed paste is turned off again on this terminal.
    expect(stdout.lastIndexOf("\u001b[?2004l")).toBeGreaterThan(stdout.lastIndexOf("\u001b[?2004h"));
    expect(await gatewayFixture.record(runId)).toMatchObject({ state: "running" });
    await gatewayFixture.holdfast("process", "submit", runId, "echo still$((4+4))");
    await gatewayFixture.waitForScreen(runId, "still8");
  });

  test("shows several viewers the input of each other", async (context) => {
    if (whyNoTerminal !== null) context.skip(whyNoTerminal);
    const runId = await gatewayFixture.startBash();
    const viewers = await Promise.all([
      gatewayFixture.atTerminal(["attach", runId], [ATTACHED, "echo one$((1+1))\r"], ["two3", DETACH]),
      gatewayFixture.atTerminal(["attach", runId], [ATTACHED, "echo two$((1+2))\r"], ["one2", DETACH]),
    ]);
    expect(viewers.map(({ code }) => code)).toEqual([0, 0]);
    expect(await gatewayFixture.record(runId)).toMatchObject({ state: "running" });
  });

  test("gives the run the size of this terminal, and resets the terminal after a full-screen program", async (context) => {
    if (whyNoTerminal !== null) context.skip(whyNoTerminal);
    const client = await gatewayFixture.client();
    const resized =
      "trap 'stty size' WINCH; printf '\\033[?1049h\\033[?1000hup\\n'; while :; do sleep 0.1; done";
    const runId = await gatewayFixture.startRun({ argv: ["sh", "-c", resized], pty: true });
    await gatewayFixture.waitForScreen(runId, "up");
    const viewing = gatewayFixture.atSizedTerminal({ rows: 11, cols: 44 }, ["attach", runId], [ATTACHED, ""]);
    await gatewayFixture.waitForScreen(runId, "11 44");
    expect((await client.screen({ params: { runId } })).rows).toHaveLength(11);
    await client.kill({ params: { runId }, body: { graceMs: 0 } });
    const { stdout } = await viewing;
    const end = stdout.slice(stdout.lastIndexOf("\u001b[?1049h"));
    expect(end).toContain("\u001b[?1049l");
    expect(end).toContain("\u001b[?1000l");
    expect(end).toContain("\u001b[?25h");
  });

  test("ends with the run and its exit code", async (context) => {
    if (whyNoTerminal !== null) context.skip(whyNoTerminal);
    const runId = await gatewayFixture.startBash();
    const { code, stdout } = await gatewayFixture.atTerminal(["attach", runId], [ATTACHED, "exit 9\r"]);
    expect(code).toBe(9);
    expect(stdout).toContain(`holdfast: ${runId} has ended: exit 9`);
  });

  test("is refused without a terminal, for an unknown run, and for an ended one", async () => {
    const runId = await gatewayFixture.startScript("exit 3");
    await gatewayFixture.waitForEnd(runId);
    await waitFor("the gateway has released the run", async () =>
      (await gatewayFixture.holdfast("attach", "--read-only", runId)).stderr.includes("has ended"),
    );
    expect(await gatewayFixture.holdfast("attach", runId)).toMatchObject({
      code: 2,
      stderr: "holdfast: attach needs a terminal for its keys; use --read-only to watch\n",
    });
    expect(await gatewayFixture.holdfast("attach", "--read-only", runId)).toMatchObject({
      code: 125,
      stderr: `holdfast: run ${runId} has ended; its output is in its log: holdfast logs ${runId}\n`,
    });
    expect(await gatewayFixture.holdfast("attach", "--read-only", "run_000000000000")).toMatchObject({
      code: 1,
      stderr: "holdfast: no run run_000000000000\n",
    });
  });
});

test("attach --read-only needs no terminal; the stop of the gateway is an error", async () => {
  const runId = await gatewayFixture.startScript("echo up; sleep 7011");
  const { child, finished } = gatewayFixture.start("attach", runId, "--read-only");
  await waitForText(child.stdout, "up");
  await gatewayFixture.stop();
  expect(await finished).toEqual({
    code: 125,
    signal: null,
    stdout: "up\n",
    stderr: `holdfast: the connection to the gateway was lost; ${runId} continues under its anchor. Attach again when a gateway is running\n`,
  });
});
