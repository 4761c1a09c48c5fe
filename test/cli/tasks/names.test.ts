import { afterAll, beforeAll, expect, test } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { BatchCli } from "../../support/cli/batch-cli.js";
import { tasksFixtureForFile } from "./tasks-fixture.js";

type Shown = ResponseOf<"getTask">;
type Task = Shown["task"];

const fixture = tasksFixtureForFile();
let parent: BatchCli;
beforeAll(async () => {
  const { token } = await fixture.client.openSession({ body: { key: "lead" } });
  parent = new BatchCli({ ...fixture.gatewayFixture.env, HOLDFAST_TOKEN: token });
});
afterAll(() => parent[Symbol.asyncDispose]());

async function openChild(key: string): Promise<{ readonly id: string; readonly client: GatewayClient }> {
  const body = { key, parentSessionKey: "lead", execRules: [{ effect: "allow" as const }] };
  const { session, token } = await fixture.client.openSession({ body });
  const client = createClient({ socketPath: gatewaySocketPath(fixture.gatewayFixture.home), token });
  return { id: session.id, client };
}

test("the name of a run means its task, while it runs and after its end", async () => {
  const { code } = await fixture.batchCli.holdfast("run", "-d", "--name", "nightly", "--", "echo", "done");
  expect(code).toBe(0);
  expect(await fixture.tasks("wait", "nightly")).toMatchObject({ code: 0, stdout: "done\n" });
  expect(await fixture.json<Shown>("show", "nightly")).toMatchObject({
    run: { labels: { name: "nightly" } },
  });
  expect(await fixture.batchCli.holdfast("wait", "nightly")).toMatchObject({ code: 0, stdout: "0\n" });
});

test("the name of a session means its task, for the operator and from inside its parent, also after its end", async () => {
  const { id, client } = await openChild("lead/build");
  const { run } = await client.exec({ body: { argv: ["echo", "built"], background: true } });
  expect(await fixture.tasks("wait", "lead/build")).toMatchObject({ code: 0, stdout: "built\n" });
  const check = async (): Promise<void> => {
    for (const [cli, name] of [
      [fixture.batchCli, "lead/build"],
      [fixture.batchCli, "build"],
      [parent, "build"],
      [parent, id],
    ] as const) {
      const json = async <Value>(...words: readonly string[]): Promise<Value> =>
        JSON.parse((await cli.holdfast(...words, "--json")).stdout) as Value;
      expect(await json<Shown>("tasks", "show", name)).toMatchObject({ task: { runId: run.runId } });
      expect(await cli.holdfast("tasks", "wait", name)).toMatchObject({ code: 0, stdout: "built\n" });
      expect(await json<Task[]>("tasks", "list", "--session", name)).toMatchObject([{ runId: run.runId }]);
      expect(await json("sessions", "status", name)).toMatchObject({ session: { id } });
      expect(await json("sessions", "history", name)).toMatchObject({ session: { id } });
    }
    const { runs } = await fixture.client.listRuns({ query: { all: "1", session: "build" } });
    expect(runs.map(({ runId }) => runId)).toEqual([run.runId]);
  };
  await check();
  expect(await fixture.batchCli.holdfast("sessions", "close", "build")).toMatchObject({ code: 0 });
  await check();
  expect(await fixture.batchCli.holdfast("sessions", "close", "build")).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^holdfast: ses_\w+ \(lead\/build\) was closed .* ago; nothing was done\n$/,
    ) as string,
  });
});

test("without a gateway, the same names are found in the store", async () => {
  await fixture.batchCli.holdfast("gateway", "stop");
  for (const words of [
    ["tasks", "show", "build"],
    ["tasks", "show", "nightly"],
    ["tasks", "list", "--session", "build"],
    ["sessions", "status", "lead/build"],
  ])
    expect({ words, ...(await fixture.batchCli.holdfast(...words)) }).toMatchObject({ words, code: 0 });
  expect(await fixture.tasks("show", "nothing")).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/: there is no task nothing; `holdfast tasks list` lists all\n$/) as string,
  });
});
