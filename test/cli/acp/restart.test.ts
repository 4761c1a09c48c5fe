import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { WatchedUpdate } from "../../../src/cli/acp/view/notice-texts.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { startGateway } from "../../../src/gateway/start-in-background.js";
import { cliPath, waitForText } from "../../support/cli/cli-fixture.js";
import { openScriptedSession, scriptedPrompt } from "../../support/agents/scripted-agent.js";
import { repetitions } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

const BEFORE = 200;
const AFTER = repetitions(400, 1_000);

describe("a gateway that ends during a turn", () => {
  let directory: string;
  let gatewayFixture: BackgroundGateway;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "hf-"));
    gatewayFixture = await BackgroundGateway.open();
  });
  afterAll(async () => {
    await gatewayFixture[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  test.each([
    ["is killed: the command starts the next", "SIGKILL"],
    ["is stopped: the command waits for the next", "SIGTERM"],
  ] as const)(
    "%s, and no text of the agent is lost or shown twice",
    async (_, signal) => {
      await startGateway(gatewayFixture.home, cliPath);
      await openScriptedSession(gatewayFixture, signal);
      const gate = join(directory, signal);
      const prompt = scriptedPrompt(
        { times: BEFORE, each: { say: "<#>" } },
        { wait: gate },
        { times: AFTER, each: { say: "[#]" } },
      );
      const text = gatewayFixture.start("acp", "prompt", signal, prompt);
      const watch = gatewayFixture.start("acp", "watch", signal, "--json");
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
        await startGateway(gatewayFixture.home, cliPath);
      }
      const { code, stdout } = await text.finished;
      const numbered = (count: number, [left, right]: string): string =>
        Array.from({ length: count }, (__, at) => `${left}${at}${right}`).join("");
      expect(stdout).toBe(`${numbered(BEFORE, "<>")}${numbered(AFTER, "[]")}\n`);
      expect(code).toBe(0);

      // A watcher has seen the same, and the end.
      await (await gatewayFixture.client()).acpClose({ params: { id: signal } });
      const lines = (await watch.finished).stdout.trimEnd().split("\n");
      const updates = lines.map((line) => JSON.parse(line) as WatchedUpdate);
      expect(updates.map(({ seq }) => seq)).toEqual(updates.map((__, at) => at + 1));
      expect(updates.filter(({ type }) => type === "update")).toHaveLength(BEFORE + AFTER);
      expect(updates.at(-1)).toMatchObject({ type: "session", data: { state: "closed" } });
    },
    60_000,
  );

  test("is killed at any moment of a prompt: the agent gets the prompt once", async () => {
    await startGateway(gatewayFixture.home, cliPath);
    const id = await openScriptedSession(gatewayFixture, "r");
    const client = await gatewayFixture.client();
    const moments = {
      "the turn is recorded": async () => (await client.acpShow({ params: { id } })).turns.length > 0,
      "the agent answers": async () => (await client.acpShow({ params: { id } })).session.seq > 10,
    };
    for (const [moment, isReached] of Object.entries(moments)) {
      const { pid } = (await startGateway(gatewayFixture.home, cliPath)).status;
      const prompt = scriptedPrompt({ times: 300, each: { say: `(${moment} #)` } });
      const { finished } = gatewayFixture.start("acp", "prompt", "r", prompt);
      await waitFor(moment, isReached);
      // oxlint-disable-next-line no-restricted-properties -- its own gateway
      process.kill(pid, "SIGKILL");
      const text = Array.from({ length: 300 }, (_, at) => `(${moment} ${at})`).join("");
      expect(await finished).toMatchObject({ code: 0, stdout: `${text}\n` });
    }
    await startGateway(gatewayFixture.home, cliPath);
    const { turns } = await (await gatewayFixture.client()).acpHistory({ params: { id: "r" } });
    expect(turns.map(({ outcome }) => outcome)).toEqual(["completed", "completed"]);
  });
});
