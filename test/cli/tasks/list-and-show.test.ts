import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, test } from "vitest";
import { createClient } from "../../../src/api/client.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { BatchCli } from "../../support/cli/batch-cli.js";
import { tasksFixtureForFile } from "./tasks-fixture.js";

type Task = ResponseOf<"getTask">["task"];

const fixture = tasksFixtureForFile();

test("show prints the processes, output and end of a task, and the requester of the stop", async () => {
  const runId = await fixture.gatewayFixture.startScript(
    String.raw`printf 'up\033]0;owned\007\n'; sleep 7031`,
  );
  await fixture.gatewayFixture.waitForOutput(runId, "up");
  const before = await fixture.tasks("show", runId);
  expect(before).toMatchObject({ code: 0, stderr: "" });
  expect(before.stdout).toMatch(/^task_\w+ {2}running {2}sh -c .*sleep 7031/);
  expect(before.stdout).not.toMatch(/[\u001b\u0007]/);
  expect(before.stdout).toMatch(/\nprocesses\n.*\n {2}└─ \d+ sh {2}\(the command\)\n {5}└─ \d+ sleep\n/);
  expect(before.stdout).toMatch(/\noutput\n {2}up\n/);

  const cancelled = await fixture.tasks("cancel", runId.slice(0, -2));
  expect(cancelled).toMatchObject({ code: 0, stderr: "" });
  const [taskId = ""] = cancelled.stdout.split(" ");
  expect(cancelled.stdout).toBe(`${taskId} is cancelled\n`);
  const after = await fixture.tasks("show", taskId);
  expect(after.stdout).toMatch(/\n {2}reason +manual-cancel\n {2}actor +operator\n/);
  expect(after.stdout).toMatch(/ended +cancelled, by operator\n$/);
  expect(await fixture.tasks("cancel", taskId)).toMatchObject({
    code: 0,
    stdout: `${taskId} had ended before: cancelled\n`,
  });
  const shown = await fixture.json<ResponseOf<"getTask"> & { readonly output: { readonly stdout: string } }>(
    "show",
    taskId,
  );
  expect(shown).toMatchObject({
    task: { taskId, status: "cancelled", runId },
    run: { runId, exit: { reason: "manual-cancel", actor: "operator" } },
    output: { stdout: expect.stringMatching(/^up/) as string },
  });
});

test("show prints the request line by line", async () => {
  const id = await fixture.external({
    label: "count",
    text: "Count the words.\nAll of them.",
    kind: "counting",
  });
  const { stdout } = await fixture.tasks("show", id);
  expect(stdout).toMatch(/\n {2}runtime +external, counting\n/);
  expect(stdout).toContain("\nrequest\n  Count the words.\n  All of them.\n");
});

test("list prints the newest tasks first, filtered by status, runtime and session, and says if there are more", async () => {
  const { session, token } = await fixture.client.openSession({ body: { key: "reader" } });
  await using reader = new BatchCli({ ...fixture.gatewayFixture.env, HOLDFAST_TOKEN: token });
  const own = await fixture.external();
  const done = await fixture.finished({ status: "succeeded", summary: "twelve\nand more" });
  const ids = async (...words: readonly string[]): Promise<string[]> =>
    (await fixture.json<Task[]>(...words)).map(({ taskId }) => taskId);
  expect((await ids()).slice(0, 2)).toEqual([done, own]);
  expect(await ids("--status", "succeeded,failed", "--runtime", "external")).toContain(done);
  expect(await ids("--status", "succeeded,failed")).not.toContain(own);
  expect(await ids("list", "--runtime", "exec")).not.toContain(done);
  expect(await ids("--session", session.id)).toEqual([]);
  const one = await fixture.tasks("--limit", "1");
  expect(one.stderr).toBe("holdfast: there may be more tasks; --limit lists more\n");
  expect(one.stdout).toMatch(
    new RegExp(`^TASK .*\n${done} +succeeded +external +- +\\S+ ago +count the words +twelve …\n$`),
  );
  const { run } = await fixture.client.exec({ body: { command: "echo one; echo two", background: true } });
  await fixture.tasks("wait", run.runId);
  expect((await fixture.tasks("--limit", "1")).stdout).toMatch(/ echo one; echo two +two\n$/);
  expect(await reader.holdfast("tasks")).toMatchObject({ code: 0, stdout: "" });
  expect(await fixture.tasks("--session", "nobody")).toMatchObject({
    code: 1,
    stderr: "holdfast: there is no session nobody; `holdfast sessions list --all` lists all\n",
  });
});

test("a session finds its own tasks behind any number of tasks that it may not see", async () => {
  const { token } = await fixture.client.openSession({ body: { key: "worker" } });
  await using worker = new BatchCli({ ...fixture.gatewayFixture.env, HOLDFAST_TOKEN: token });
  const own = createClient({ socketPath: gatewaySocketPath(fixture.gatewayFixture.home), token });
  const { task } = await own.createTask({ body: { label: "its own" } });
  const { taskId } = task;
  crowd(await fixture.finished({ status: "succeeded" }), 6_000);
  try {
    expect(await own.listTasks()).toMatchObject({ tasks: [{ taskId }], next: null });
    expect((await worker.holdfast("tasks")).stdout).toContain(taskId);
    expect((await fixture.tasks("cancel", "crowd")).stderr).toMatch(
      /"crowd" may mean several tasks: (task_crowd\d+, ){5}…; name one by its id. Nothing was done\n$/,
    );
    expect((await fixture.gatewayFixture.json<Task[]>("tasks", "--limit", "6500")).length).toBeGreaterThan(
      6_000,
    );
    expect((await fixture.json<Task[]>("--session", "worker")).map((each) => each.taskId)).toEqual([taskId]);
  } finally {
    fixture.gatewayFixture.sql("delete from tasks where task_id like 'task_crowd%'");
  }
  expect(await worker.holdfast("tasks", "notify", taskId, "silent")).toMatchObject({ code: 0 });
  expect(await worker.holdfast("tasks", "cancel", taskId)).toMatchObject({ code: 0 });
  expect(await worker.holdfast("tasks", "wait", taskId)).toMatchObject({ code: 130 });
  // The program that works on it gets the stop request at its next heartbeat.
  expect(await own.taskProgress({ params: { id: taskId } })).toMatchObject({ stop: true });
});

/** Copies a task many times. */
function crowd(taskId: string, count: number): void {
  const db = new DatabaseSync(fixture.gatewayFixture.store, { timeout: 5_000 });
  try {
    const columns = db.prepare("select name from pragma_table_info('tasks')").all() as {
      readonly name: string;
    }[];
    const values = columns.map(({ name }) => (name === "task_id" ? "printf('task_crowd%07d', i)" : name));
    db.exec(
      `with recursive number(i) as (select 1 union all select i + 1 from number where i < ${count})
       insert into tasks select ${values.join(", ")} from tasks, number where task_id = '${taskId}'`,
    );
  } finally {
    db.close();
  }
}

test("an invalid or ambiguous argument is refused in one sentence and changes nothing", async () => {
  const one = await fixture.external();
  const other = await fixture.finished({ status: "succeeded" });
  const { token } = await fixture.client.openSession({ body: { key: "stranger" } });
  await using stranger = new BatchCli({ ...fixture.gatewayFixture.env, HOLDFAST_TOKEN: token });
  const before = await fixture.json<Task[]>();
  const refusals: readonly (readonly [number, RegExp, ...string[]])[] = [
    [2, /'often' is invalid .* done_only, state_changes, silent/, "notify", one, "often"],
    [2, /of queued,running,.*lost/, "list", "--status", "finished"],
    [2, /of acp,subagent,exec,external/, "list", "--runtime", "shell"],
    [1, /there is no task task_zzzz; `holdfast tasks list` lists all$/, "cancel", "task_zzzz"],
    [1, /there is no task run_zzzz; `holdfast tasks list` lists all$/, "wait", "run_zzzz"],
    [2, /"task_" is too short: .* 4 characters after task_. Nothing was done$/, "cancel", "task_"],
    [2, /"run_z" is too short: .* after run_. Nothing was done$/, "cancel", "run_z"],
    [1, /there is no task ...; `holdfast tasks list` lists all$/, "show", one.slice(5, 8)],
    [1, /has no message that waits or could not be delivered$/, "retry", other],
    [1, /has no message that waits or could not be delivered$/, "dismiss", one],
  ];
  for (const [code, message, ...words] of refusals) {
    const answer = await fixture.tasks(...words);
    expect({ words, ...answer }).toMatchObject({ words, code, stdout: "" });
    expect(answer.stderr.trimEnd()).toMatch(message);
    expect(answer.stderr.split("\n")).toHaveLength(2);
  }
  // A task of another session is reported like a missing one.
  for (const words of [["show"], ["wait"], ["cancel"], ["notify", "silent"]]) {
    const [verb = "", ...more] = words;
    const hidden = await stranger.holdfast("tasks", verb, one, ...more);
    const missing = await stranger.holdfast("tasks", verb, "task_000000000000", ...more);
    expect(hidden).toMatchObject({ code: 1, stdout: "" });
    expect(hidden.stderr.replaceAll(one, "task_000000000000")).toBe(missing.stderr);
  }
  expect(await fixture.json<Task[]>()).toEqual(before);
});

describe("wait", () => {
  test.each([
    [{ status: "succeeded", summary: "twelve\n\u001b[31mwords" }, 0, "twelve\nwords\n", /: succeeded after /],
    [
      { status: "succeeded", outcome: "blocked", summary: "which ones?" },
      3,
      "which ones?\n",
      /: blocked after /,
    ],
    [{ status: "failed", error: "no\n\nwords" }, 1, "", /: failed after .*: no words$/],
    [{ status: "timed_out" }, 124, "", /: timed_out after /],
    [{ status: "cancelled" }, 130, "", /: cancelled after /],
  ] as const)("prints and exits with the result of %j", async (body, code, stdout, remark) => {
    const id = await fixture.finished(body);
    const answer = await fixture.tasks("wait", id);
    expect(answer).toMatchObject({ code, stdout });
    expect(answer.stderr.trimEnd()).toMatch(remark);
    expect(await fixture.json<Task>("wait", id)).toMatchObject({ taskId: id, status: body.status });
  });
});

test("an empty token does not act for the operator", async () => {
  await using tokenless = new BatchCli({ ...fixture.gatewayFixture.env, HOLDFAST_TOKEN: "" });
  for (const words of [["tasks"], ["run", "--", "true"], ["ps"], ["gateway", "stop"]])
    expect(await tokenless.holdfast(...words)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining("HOLDFAST_TOKEN is empty; nothing was done") as string,
    });
});
