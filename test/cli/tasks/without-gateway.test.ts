import { expect, test } from "vitest";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import { BatchCli } from "../../support/cli/batch-cli.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const STORE = "holdfast: no gateway is running; showing what the store has\n";

test("without a gateway tasks are read from the store, and wait returns for an ended task", async () => {
  await using gatewayFixture = await BackgroundGateway.started();
  const client = await gatewayFixture.client();
  const runId = await gatewayFixture.startScript("echo twelve");
  await gatewayFixture.waitForEnd(runId);
  const { task: open } = await client.createTask({ body: { label: "not done" } });
  const waited = await gatewayFixture.holdfast("tasks", "wait", runId);
  expect(waited).toMatchObject({ code: 0, stdout: "twelve\n" });
  await gatewayFixture.stop();
  await using batchCli = new BatchCli(gatewayFixture.env);

  expect((await batchCli.holdfast("tasks", "wait", runId)).stdout).toBe("twelve\n");
  const shown = await batchCli.holdfast("tasks", "show", runId);
  expect(shown).toMatchObject({ code: 0, stderr: STORE });
  expect(shown.stdout).toMatch(
    /^task_\w+ {2}succeeded .*\n[^]*\nresult\n {2}twelve\n[^]*\noutput\n {2}twelve\n/,
  );
  expect(await batchCli.holdfast("tasks", "maintenance")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: `${STORE}holdfast: there is nothing to do\n`,
  });
  expect(await batchCli.holdfast("tasks", "show", "task_")).toMatchObject({ code: 2, stdout: "" });
  expect(await batchCli.holdfast("tasks", "list", "--session", "x")).toMatchObject({ code: 1, stdout: "" });

  // As after a gateway that was killed between the end of a run and the end of its task.
  const set = (what: string): void =>
    gatewayFixture.sql(`update tasks set ${what} where task_id = '${open.taskId}'`);
  set(`runtime = 'exec', run_id = '${runId}'`);
  const preview = await batchCli.holdfast("tasks", "maintenance");
  expect(preview.stdout.split("\n").slice(1)).toEqual([
    expect.stringMatching(new RegExp(`^${open.taskId} +tell +it has ended: succeeded$`)),
    "",
  ]);
  set("runtime = 'external', run_id = null, created_at = 1, started_at = 1, last_event_at = 1");
  const audit = await batchCli.holdfast("tasks", "audit");
  expect(audit).toMatchObject({ code: 1, stderr: STORE });
  expect(audit.stdout).toMatch(new RegExp(`^FINDING .*\nstale_running +${open.taskId} `));
  expect(await reachGateway(gatewayFixture.home)).toBeNull();

  // The wait for an open task starts a gateway.
  const waiting = gatewayFixture.start("tasks", "wait", open.taskId, "--json");
  waiting.child.stdin.end();
  await waitFor(
    "a gateway is ready",
    async () => (await reachGateway(gatewayFixture.home))?.status.ready === true,
  );
  const params = { id: open.taskId };
  await (
    await gatewayFixture.client()
  ).finishTask({ params, body: { status: "succeeded", outcome: "blocked" } });
  const { code, stdout } = await waiting.finished;
  expect(code).toBe(3);
  expect(JSON.parse(stdout)).toMatchObject({ taskId: open.taskId, outcome: "blocked" });
});
