import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import type { ResponseOf } from "../../../src/api/contract.js";
import { SCRIPTED_AGENT, scriptedPrompt } from "../../support/agents/scripted-agent.js";
import { BatchCli } from "../../support/cli/batch-cli.js";
import { waitFor } from "../../support/wait-for.js";
import { tasksFixtureForFile } from "./tasks-fixture.js";

type Task = ResponseOf<"getTask">["task"];

const fixture = tasksFixtureForFile();

test.each([
  ["exec", "twelve", ["run", "--detach"], ["--", "echo", "twelve"]],
  ["subagent", "you said: hello", ["agent", "run", "text", "--background"], ["hello"]],
  [
    "acp",
    "twelve",
    ["acp", "spawn", "--agent-command", SCRIPTED_AGENT, "--background"],
    [scriptedPrompt({ say: "twelve" })],
  ],
])("%s: a background task notifies its channel once when it ends", async (runtime, result, front, back) => {
  const before = (await fixture.json<Task[]>()).map(({ taskId }) => taskId);
  const untold = await fixture.batchCli.holdfast(
    ...front.filter((word) => !/^--(detach|background)$/.test(word)),
    "--tell",
    "user",
    ...back,
  );
  expect(untold).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--tell is for work in the background") as string,
  });
  expect(await fixture.batchCli.holdfast(...front, "--tell", "nobody", ...back)).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringMatching(
      /there is no channel nobody in the config; nothing was started\n$/,
    ) as string,
  });
  const started = await fixture.batchCli.holdfast(...front, "--tell", "user", ...back);
  expect(started).toMatchObject({ code: 0, stdout: expect.stringMatching(/^(run|turn)_\w+\n$/) as string });
  const [task, ...others] = (await fixture.json<Task[]>()).filter(({ taskId }) => !before.includes(taskId));
  expect(others).toEqual([]);
  const id = task?.taskId ?? "";
  const waited = await fixture.tasks("wait", started.stdout.trim());
  expect(waited).toMatchObject({ code: 0, stdout: `${result}\n` });
  await waitFor(
    "the channel is notified",
    async () => (await fixture.client.getTask({ params: { id } })).task.delivery === "delivered",
  );
  expect(task).toMatchObject({ runtime, policy: "done_only" });
  const received = (await readFile(fixture.received, "utf8")).split("\n").filter((line) => line.includes(id));
  expect(received.map((line) => (JSON.parse(line) as { readonly type: string }).type)).toEqual([
    "task.terminal",
  ]);
});

test("--notify without a target is refused, or warned of if only the gateway knows the target", async () => {
  const notify = ["--notify", "state_changes"];
  for (const words of [
    ["run", "--detach", ...notify, "--", "true"],
    ["agent", "run", "text", "--background", ...notify, "hello"],
  ])
    expect(await fixture.batchCli.holdfast(...words)).toMatchObject({
      code: 2,
      stdout: "",
      stderr:
        "holdfast: --notify state_changes has no target: add --notify-channel <channel>, or set notify.channel in the config; nothing was started\n",
    });
  const spawn = ["acp", "spawn", "--agent-command", SCRIPTED_AGENT, "--background", ...notify];
  const spawned = await fixture.batchCli.holdfast(...spawn, scriptedPrompt({ say: "x" }));
  expect(spawned).toMatchObject({ code: 0, stdout: expect.stringMatching(/^turn_\w+\n$/) as string });
  expect(spawned.stderr).toMatch(/task_\w+ has no notification target, so no notification will be sent\n$/);
  // A session is its own target, and a silent task needs none.
  expect(
    await fixture.batchCli.holdfast("run", "--detach", "--notify", "silent", "--", "true"),
  ).toMatchObject({
    code: 0,
    stderr: "",
  });
  const body = { key: "hearer", execRules: [{ effect: "allow" as const }] };
  const { token } = await fixture.client.openSession({ body });
  await using session = new BatchCli({ ...fixture.gatewayFixture.env, HOLDFAST_TOKEN: token });
  expect(await session.holdfast("run", "--detach", ...notify, "--", "true")).toMatchObject({
    code: 0,
    stderr: "",
  });
});

test("an undelivered notification is listed, sent again and dismissed", async () => {
  const id = await fixture.finished({ status: "failed", error: "no words" }, { origin: { channel: "deaf" } });
  const failed = async (): Promise<Task> => {
    let task: Task | null = null;
    await waitFor("the delivery has failed", async () => {
      ({ task } = await fixture.client.getTask({ params: { id } }));
      return task.delivery === "failed";
    });
    return task as unknown as Task;
  };
  await failed();
  const shown = await fixture.tasks("show", id);
  expect(shown.stdout).toMatch(
    new RegExp(
      `\n {2}task-terminal:${id} {2}failed at .*, channel deaf, 1 attempt: neither the notification nor the config has a Telegram chat`,
    ),
  );
  const audit = await fixture.tasks("audit");
  expect(audit).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("`tasks retry` sends it again") as string,
  });
  expect(audit.stdout).toMatch(new RegExp(`^delivery_failed +${id} `, "m"));
  expect(await fixture.tasks("retry", id)).toMatchObject({
    code: 0,
    stdout: `${id}: 1 message is sent again\n`,
  });
  await failed();
  expect(await fixture.tasks("dismiss", id)).toMatchObject({
    code: 0,
    stdout: `${id}: 1 message is dismissed\n`,
  });
  expect(await fixture.client.getTask({ params: { id } })).toMatchObject({
    task: { delivery: "not_applicable" },
  });
  expect((await fixture.tasks("show", id)).stdout).toMatch(
    /retried +by operator\n.* dismissed +by operator\n$/,
  );
  expect(await fixture.json<unknown[]>("audit")).not.toContainEqual(expect.objectContaining({ taskId: id }));
});

test("the notify policy of a task can be changed until the task ends", async () => {
  const id = await fixture.external();
  expect(await fixture.tasks("notify", id, "silent")).toMatchObject({
    code: 0,
    stdout: `${id}: silent\n`,
  });
  expect((await fixture.tasks("notify", id, "silent")).stdout).toBe(`${id}: silent, as before\n`);
  expect(await fixture.tasks("notify", id, "done_only")).toMatchObject({
    code: 0,
    stdout: `${id}: done_only\n`,
    stderr: `holdfast: ${id} has no notification target, so no notification will be sent\n`,
  });
  const refused = [
    [["--notify-address", "7"], "--notify-address needs --notify-channel <channel>"],
    [["--tell", "nowhere"], "there is no channel nowhere in the config"],
  ] as const;
  for (const [words, why] of refused)
    expect(await fixture.tasks("notify", id, "done_only", ...words)).toMatchObject({
      code: 2,
      stderr: `holdfast: ${why}; nothing was changed\n`,
    });
  const added = ["--tell", "user", "--notify-address", "7/8"];
  expect(await fixture.tasks("notify", id, "done_only", ...added)).toMatchObject({ code: 0, stderr: "" });
  expect((await fixture.tasks("notify", id, "done_only", ...added)).stdout).toBe(
    `${id}: done_only, as before\n`,
  );
  expect((await fixture.tasks("show", id)).stdout).toContain("channel user (7/8)");
  await fixture.client.finishTask({ params: { id }, body: { status: "succeeded" } });
  await waitFor("the added channel is notified", async () =>
    (await readFile(fixture.received, "utf8")).includes(`task-terminal:${id}`),
  );
  expect(await fixture.tasks("notify", id, "silent")).toMatchObject({
    code: 1,
    stdout: "",
    stderr: `holdfast: task ${id} has ended (succeeded), which is final; nothing was changed\n`,
  });
  expect(await fixture.client.getTask({ params: { id } })).toMatchObject({ task: { policy: "done_only" } });
});

test("maintenance prints its plan, and applies it only with --apply", async () => {
  const id = await fixture.external({ heartbeatMs: 1_000 });
  const longAgo = Date.now() - 3_600_000;
  fixture.gatewayFixture.sql(
    `update tasks set last_event_at = ${longAgo}, missing_since = ${longAgo} where task_id = '${id}'`,
  );
  const old = await fixture.finished({ status: "succeeded" });
  fixture.gatewayFixture.sql(`update tasks set cleanup_after = 1 where task_id = '${old}'`);
  const before = await fixture.json<Task[]>();
  const preview = await fixture.tasks("maintenance");
  expect(preview).toMatchObject({ code: 0, stderr: "holdfast: nothing was changed; --apply does it\n" });
  expect(preview.stdout).toMatch(new RegExp(`^${id} +tell +it has ended: lost \\(.*60 min\\)$`, "m"));
  expect(preview.stdout).toMatch(new RegExp(`^${old} +forget +it ended long ago`, "m"));
  expect(await fixture.json<Task[]>()).toEqual(before);

  const applied = await fixture.json<ResponseOf<"maintainTasks">>("maintenance", "--apply");
  expect(applied.applied).toBe(true);
  expect(applied.measures.map(({ taskId }) => taskId)).toEqual(expect.arrayContaining([id, old]));
  expect(await fixture.tasks("wait", id)).toMatchObject({ code: 125, stdout: "" });
  expect(await fixture.tasks("show", old)).toMatchObject({ code: 1 });
});
