import { afterAll, beforeAll, expect, test } from "vitest";
import { startGateway } from "../../../src/gateway/start-in-background.js";
import { whyNoTerminal } from "../../support/cli/recovery-fixture.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { cliPath } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

let gatewayFixture: BackgroundGateway;
beforeAll(async () => (gatewayFixture = await BackgroundGateway.started()), 60_000);
afterAll(() => gatewayFixture[Symbol.asyncDispose]());

async function atWork(label: string): Promise<string> {
  const client = await gatewayFixture.client();
  const { task } = await client.createTask({ body: { label } });
  await client.taskProgress({ params: { id: task.taskId }, body: { text: "half of it" } });
  return task.taskId;
}

test.skipIf(whyNoTerminal !== null)(
  "progress is shown after a name of any length; Ctrl-C ends only the wait",
  async () => {
    const id = await atWork(`typing${" on".repeat(50)}`);
    const { code, stdout } = await gatewayFixture.atTerminal(
      ["tasks", "wait", id],
      ["…: half of it", "\u0003"],
    );
    expect(code).toBe(130);
    expect(stdout).toContain(`stopped waiting; ${id} continues`);
    const client = await gatewayFixture.client();
    expect(await client.getTask({ params: { id } })).toMatchObject({ task: { status: "running" } });
  },
  30_000,
);

test.skipIf(whyNoTerminal !== null).each([
  ["is killed: the command starts the next", "SIGKILL", "the gateway is gone"],
  // A user stopped it, so the command starts none.
  ["is stopped: the command waits for the next", "SIGTERM", "the gateway was stopped"],
] as const)(
  "a gateway that %s, and what happened meanwhile is shown",
  async (_, signal, reason) => {
    const id = await atWork("counting");
    const { pid } = await gatewayFixture.status();
    const goesOn = async (text: string): Promise<unknown> => {
      const client = await gatewayFixture.client();
      return client.taskProgress({ params: { id }, body: { text } });
    };
    const { code, stdout } = await gatewayFixture.atTerminal(
      ["tasks", "wait", id],
      ["counting: half of it", () => goesOn("two thirds")],
      // oxlint-disable-next-line no-restricted-properties -- its own gateway
      ["counting: two thirds", async () => process.kill(pid, signal)],
      [
        `${reason}; waiting for the next gateway`,
        async () => {
          if (signal === "SIGTERM") await startGateway(gatewayFixture.home, cliPath);
          await waitFor("another gateway is ready", async () =>
            gatewayFixture.status().then(
              (status) => status.ready && status.pid !== pid,
              () => false,
            ),
          );
          await goesOn("nearly all");
        },
      ],
      [
        "counting: nearly all",
        async () => {
          const client = await gatewayFixture.client();
          await client.finishTask({ params: { id }, body: { status: "succeeded", summary: "twelve" } });
        },
      ],
    );
    expect(code).toBe(0);
    // The progress line is cleared before the result.
    expect(stdout).toMatch(
      /\u001b\[2K(?:\u001b\[\d+m)?holdfast: task_\w+ \(counting\): succeeded after [^\n]*\ntwelve\n$/,
    );
  },
  60_000,
);
