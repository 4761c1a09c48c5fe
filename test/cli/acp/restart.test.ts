import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { WatchedUpdate } from "../../../src/cli/acp/view/texts.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { startGateway } from "../../../src/gateway/start.js";
import { cliPath, waitForText } from "../../support/cli/cli-fixture.js";
import { openScriptedSession, scriptedPrompt } from "../../support/agents/scripted-agent.js";

const BEFORE = 200;
const AFTER = 1_000;

describe("a gateway that ends during a turn", () => {
  let directory: string;
  beforeAll(async () => (directory = await mkdtemp(join(tmpdir(), "hf-"))));
  afterAll(() => rm(directory, { recursive: true }));

  test.each([
    ["is killed: the command starts the next", "SIGKILL"],
    ["is stopped: the command waits for the next", "SIGTERM"],
  ] as const)(
    "%s, and no text of the agent is lost or shown twice",
    async (_, signal) => {
      await using gatewayFixture = await BackgroundGateway.started();
      await openScriptedSession(gatewayFixture, "r");
      const gate = join(directory, signal);
      const prompt = scriptedPrompt(
        { times: BEFORE, each: { say: "<#>" } },
        { wait: gate },
        { times: AFTER, each: { say: "[#]" } },
      );
      const text = gatewayFixture.start("acp", "prompt", "r", prompt);
      const watch = gatewayFixture.start("acp", "watch", "r", "--json");
      await Promise.all([
        waitForText(text.child.stdout, `<${BEFORE - 1}>`),
        waitForText(watch.child.stdout, `<${BEFORE - 1}>`),
      ]);
      const { pid } = await gatewayFixture.status();
      // oxlint-disable-next-line no-restricted-properties -- its own gateway
      process.kill(pid, signal);
      // The agent writes while no gateway runs.
      await writeFile(gate, "");
      if (signal === "SIGTERM") {
        await waitForText(text.child.stderr, "the gateway was stopped; the agent keeps running");
        await gatewayFixture.holdfast("gateway", "start");
      }
      const { code, stdout } = await text.finished;
      const said = (count: number, [left, right]: string): string =>
        Array.from({ length: count }, (__, at) => `${left}${at}${right}`).join("");
      expect(stdout).toBe(`${said(BEFORE, "<>")}${said(AFTER, "[]")}\n`);
      expect(code).toBe(0);

      // A watcher has seen the same, and the end.
      await gatewayFixture.holdfast("acp", "close", "r");
      const lines = (await watch.finished).stdout.trimEnd().split("\n");
      const updates = lines.map((line) => JSON.parse(line) as WatchedUpdate);
      expect(updates.map(({ seq }) => seq)).toEqual(updates.map((__, at) => at + 1));
      expect(updates.filter(({ type }) => type === "update")).toHaveLength(BEFORE + AFTER);
      expect(updates.at(-1)).toMatchObject({ type: "session", data: { state: "closed" } });
    },
    60_000,
  );

  test("is killed at any moment of a prompt: the agent gets the prompt once", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    await openScriptedSession(gatewayFixture, "r");
    const DELAYS_MS = [150, 450];
    for (const [round, ms] of DELAYS_MS.entries()) {
      const { pid } = (await startGateway(gatewayFixture.home, cliPath)).status;
      const { finished } = gatewayFixture.start(
        "acp",
        "prompt",
        "r",
        scriptedPrompt({ times: 300, each: { say: `(${round}.#)` } }),
      );
      await setTimeout(ms);
      // oxlint-disable-next-line no-restricted-properties -- its own gateway
      process.kill(pid, "SIGKILL");
      const { code, stdout, stderr } = await finished;
      const said = Array.from({ length: 300 }, (_, at) => `(${round}.${at})`).join("");
      expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: `${said}\n`, stderr });
    }
    await startGateway(gatewayFixture.home, cliPath);
    const { turns } = await (await gatewayFixture.client()).acpHistory({ params: { id: "r" } });
    expect(turns.map(({ outcome }) => outcome)).toEqual(DELAYS_MS.map(() => "completed"));
  });
});
