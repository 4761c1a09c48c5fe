import { afterAll, beforeAll, expect, test } from "vitest";
import { startGateway } from "../../../src/gateway/start.js";
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
  "how it is going is seen behind a name of any length; Ctrl-C stops waiting, and nothing else",
  async () => {
    const id = await atWork(`typing${" on".repeat(50)}`);
    const { code, stdout } = await gatewayFixture.atTerminal(
      ["tasks", "wait", id],
      ["…: half of it", "\u0003"],
    );
    expect(code).toBe(130);
    expect(stdout).toContain(`not waiting any more; ${id} goes on`);
    const client = await gatewayFixture.client();
    expect(await client.getTask({ params: { id } })).toMatchObject({ task: { status: "running" } });
  },
  30_000,
);

test.skipIf(whyNoTerminal !== null).each([
  ["is killed, and the command starts the next", "SIGKILL", "the gateway is gone"],
  // Who stopped it wants it so: the command starts none.
  ["is stopped, and somebody starts the next", "SIGTERM", "the gateway was stopped"],
] as const)(
  "a gateway that %s is waited for, and what happened meanwhile is shown",
  async (_, signal, said) => {
    const id = await atWork("counting");
    const { pid } = await gatewayFixture.status();
    const goesOn = async (text: string): Promise<unknown> => {
      const client = await gatewayFixture.client();
      return client.taskProgress({ params: { id }, body: { text } });
    };
    const { code, stdout } = await gatewayFixture.atTerminal(
      ["tasks", "wait", id],
      ["counting: half of it", () => goesOn("two thirds")],
      // It hears by now what happens.
      // oxlint-disable-next-line no-restricted-properties -- its own gateway
      ["counting: two thirds", async () => process.kill(pid, signal)],
      [
        `${said}; waiting for the next one`,
        async () => {
          if (signal === "SIGTERM") await startGateway(gatewayFixture.home, cliPath);
          await waitFor("there is another gateway", async () =>
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
    // The line of progress is gone when the result comes.
    expect(stdout).toMatch(
      /\u001b\[2K(?:\u001b\[\d+m)?holdfast: task_\w+ \(counting\): succeeded after [^\n]*\ntwelve\n$/,
    );
  },
  60_000,
);
