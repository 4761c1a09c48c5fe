import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import type { ResponseOf, RequestOf } from "../../../src/api/contract.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { fakeAgentsConfig } from "../../support/agents/fake-agents.js";
import { SCRIPTED_AGENT, scriptedPrompt } from "../../support/agents/scripted-agent.js";
import { BatchCli } from "../../support/cli/batch-cli.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { waitFor } from "../../support/wait-for.js";

type Task = ResponseOf<"getTask">["task"];

let gatewayFixture: BackgroundGateway;
let batchCli: BatchCli;
let client: GatewayClient;
/** What a user's channel was told, one notification on a line. */
let heard: string;
beforeAll(async () => {
  gatewayFixture = await BackgroundGateway.open();
  const config = join(gatewayFixture.home, "config.toml");
  heard = join(gatewayFixture.home, "heard");
  await writeFile(heard, "");
  await writeFile(
    config,
    [
      fakeAgentsConfig,
      '[channels.deaf]\nkind = "telegram"\ntoken = { env = "NO_BOT_OF_OURS" }',
      `[channels.user]\nkind = "command"\nargv = ["/bin/sh", "-c", "cat >> ${heard}"]`,
    ].join("\n"),
  );
  const env = { ...gatewayFixture.env, HOLDFAST_CONFIG: config };
  await gatewayFixture.startWith(env, "gateway", "start").finished;
  batchCli = new BatchCli(env);
  client = await gatewayFixture.client();
});
afterAll(async () => {
  await batchCli[Symbol.asyncDispose]();
  await gatewayFixture[Symbol.asyncDispose]();
});

async function external(body: Partial<RequestOf<"createTask">["body"]> = {}): Promise<string> {
  return (await client.createTask({ body: { label: "count the words", ...body } })).task.taskId;
}

async function finished(
  body: RequestOf<"finishTask">["body"],
  more: Partial<RequestOf<"createTask">["body"]> = {},
): Promise<string> {
  const id = await external(more);
  await client.finishTask({ params: { id }, body });
  return id;
}

const json = async <Value>(...words: readonly string[]): Promise<Value> =>
  JSON.parse((await batchCli.holdfast(...words, "--json")).stdout) as Value;

test("show reaches what does a task: its processes, output, end, and who asked for that", async () => {
  const runId = await gatewayFixture.startScript(String.raw`printf 'up\033]0;owned\007\n'; sleep 7031`);
  await gatewayFixture.waitForOutput(runId, "up");
  const before = await batchCli.holdfast("tasks", "show", runId);
  expect(before).toMatchObject({ code: 0, stderr: "" });
  expect(before.stdout).toMatch(/^task_\w+ {2}running {2}sh -c .*sleep 7031/);
  expect(before.stdout).not.toMatch(/[\u001b\u0007]/);
  expect(before.stdout).toMatch(/\nprocesses\n.*\n {2}└─ \d+ sh {2}\(the command\)\n {5}└─ \d+ sleep\n/);
  expect(before.stdout).toMatch(/\noutput\n {2}up\n/);

  const cancelled = await batchCli.holdfast("tasks", "cancel", runId.slice(0, -2));
  expect(cancelled).toMatchObject({ code: 0, stderr: "" });
  const [taskId = ""] = cancelled.stdout.split(" ");
  expect(cancelled.stdout).toBe(`${taskId} is cancelled\n`);
  const after = await batchCli.holdfast("tasks", "show", taskId);
  expect(after.stdout).toMatch(/\n {2}reason +manual-cancel\n {2}actor +operator\n/);
  expect(after.stdout).toMatch(/ended +cancelled, by operator\n$/);
  expect(await batchCli.holdfast("tasks", "cancel", taskId)).toMatchObject({
    code: 0,
    stdout: `${taskId} had ended before: cancelled\n`,
  });
  const shown = await json<ResponseOf<"getTask"> & { readonly output: { readonly stdout: string } }>(
    "tasks",
    "show",
    taskId,
  );
  expect(shown).toMatchObject({
    task: { taskId, status: "cancelled", runId },
    run: { runId, exit: { reason: "manual-cancel", actor: "operator" } },
    output: { stdout: expect.stringMatching(/^up/) as string },
  });
});

test.each([
  ["exec", "twelve", ["run", "--detach"], ["--", "echo", "twelve"]],
  ["subagent", "you said: hello", ["agent", "run", "text", "--background"], ["hello"]],
  [
    "acp",
    "twelve",
    ["acp", "spawn", "--agent-command", SCRIPTED_AGENT, "--background"],
    [scriptedPrompt({ say: "twelve" })],
  ],
])(
  "%s: what is put in the background can tell a channel that it is over, once",
  async (runtime, result, front, back) => {
    const before = (await json<Task[]>("tasks")).map(({ taskId }) => taskId);
    const untold = await batchCli.holdfast(
      ...front.filter((word) => !/^--(detach|background)$/.test(word)),
      "--tell",
      "user",
      ...back,
    );
    expect(untold).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--tell is for work in the background") as string,
    });
    expect(await batchCli.holdfast(...front, "--tell", "nobody", ...back)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(
        /there is no channel nobody in the config; nothing was started\n$/,
      ) as string,
    });
    const started = await batchCli.holdfast(...front, "--tell", "user", ...back);
    expect(started).toMatchObject({ code: 0, stdout: expect.stringMatching(/^(run|turn)_\w+\n$/) as string });
    const [task, ...others] = (await json<Task[]>("tasks")).filter(({ taskId }) => !before.includes(taskId));
    expect(others).toEqual([]);
    const id = task?.taskId ?? "";
    const waited = await batchCli.holdfast("tasks", "wait", started.stdout.trim());
    expect(waited).toMatchObject({ code: 0, stdout: `${result}\n` });
    await waitFor(
      "its user was told",
      async () => (await client.getTask({ params: { id } })).task.delivery === "delivered",
    );
    expect(task).toMatchObject({ runtime, policy: "done_only" });
    const told = (await readFile(heard, "utf8")).split("\n").filter((line) => line.includes(id));
    expect(told.map((line) => (JSON.parse(line) as { readonly type: string }).type)).toEqual([
      "task.terminal",
    ]);
  },
);

test("asked to tell of work, and not whom, it is refused where nobody would hear, and said where that is seen later", async () => {
  const notify = ["--notify", "state_changes"];
  for (const words of [
    ["run", "--detach", ...notify, "--", "true"],
    ["agent", "run", "text", "--background", ...notify, "hello"],
  ])
    expect(await batchCli.holdfast(...words)).toMatchObject({
      code: 2,
      stdout: "",
      stderr:
        "holdfast: --notify state_changes has no target: add --notify-channel <channel>; nothing was started\n",
    });
  const spawn = ["acp", "spawn", "--agent-command", SCRIPTED_AGENT, "--background", ...notify];
  const spawned = await batchCli.holdfast(...spawn, scriptedPrompt({ say: "x" }));
  expect(spawned).toMatchObject({ code: 0, stdout: expect.stringMatching(/^turn_\w+\n$/) as string });
  expect(spawned.stderr).toMatch(/task_\w+ has no notification target, so no notification will be sent\n$/);
  // A session hears itself, and who is silent need not be told.
  expect(await batchCli.holdfast("run", "--detach", "--notify", "silent", "--", "true")).toMatchObject({
    code: 0,
    stderr: "",
  });
  const body = { key: "hearer", execRules: [{ effect: "allow" as const }] };
  const { token } = await client.openSession({ body });
  await using session = new BatchCli({ ...gatewayFixture.env, HOLDFAST_TOKEN: token });
  expect(await session.holdfast("run", "--detach", ...notify, "--", "true")).toMatchObject({
    code: 0,
    stderr: "",
  });
});

test("a token that is empty acts for nobody, and not for the operator", async () => {
  await using nobody = new BatchCli({ ...gatewayFixture.env, HOLDFAST_TOKEN: "" });
  for (const words of [["tasks"], ["run", "--", "true"], ["ps"], ["gateway", "stop"]])
    expect(await nobody.holdfast(...words)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining("HOLDFAST_TOKEN is set and empty, and acts for nobody") as string,
    });
});

test("list shows the newest first, by status, runtime and session, and says when there are more", async () => {
  const { session, token } = await client.openSession({ body: { key: "reader" } });
  await using reader = new BatchCli({ ...gatewayFixture.env, HOLDFAST_TOKEN: token });
  const own = await external();
  const done = await finished({ status: "succeeded", summary: "twelve\nand more" });
  const ids = async (...words: readonly string[]): Promise<string[]> =>
    (await json<Task[]>("tasks", ...words)).map(({ taskId }) => taskId);
  expect((await ids()).slice(0, 2)).toEqual([done, own]);
  expect(await ids("--status", "succeeded,failed", "--runtime", "external")).toContain(done);
  expect(await ids("--status", "succeeded,failed")).not.toContain(own);
  expect(await ids("list", "--runtime", "exec")).not.toContain(done);
  expect(await ids("--session", session.id)).toEqual([]);
  const one = await batchCli.holdfast("tasks", "--limit", "1");
  expect(one.stderr).toBe("holdfast: there may be more tasks; --limit lists more\n");
  expect(one.stdout).toMatch(
    new RegExp(`^TASK .*\n${done} +succeeded +external +- +\\S+ ago +count the words +twelve …\n$`),
  );
  const { run } = await client.exec({ body: { command: "echo one; echo two", background: true } });
  await batchCli.holdfast("tasks", "wait", run.runId);
  expect((await batchCli.holdfast("tasks", "--limit", "1")).stdout).toMatch(/ echo one; echo two +two\n$/);
  expect(await reader.holdfast("tasks")).toMatchObject({ code: 0, stdout: "" });
  expect(await batchCli.holdfast("tasks", "--session", "nobody")).toMatchObject({
    code: 1,
    stderr: "holdfast: there is no session nobody\n",
  });
});

test("a session has its own tasks, behind however many that it may not see", async () => {
  const { token } = await client.openSession({ body: { key: "worker" } });
  await using worker = new BatchCli({ ...gatewayFixture.env, HOLDFAST_TOKEN: token });
  const own = createClient({ socketPath: gatewaySocketPath(gatewayFixture.home), token });
  const { task } = await own.createTask({ body: { label: "its own" } });
  const { taskId } = task;
  crowd(await finished({ status: "succeeded" }), 6_000);
  try {
    const page = await own.listTasks();
    expect(page).toEqual({ tasks: [], next: expect.any(String) as string });
    // Where it goes on is at a task of which it may not even know the name.
    expect(Buffer.from(page.next ?? "", "base64url").toString("latin1")).not.toContain("crowd");
    expect(page.next).not.toContain("crowd");
    expect((await worker.holdfast("tasks")).stdout).toContain(taskId);
    expect((await batchCli.holdfast("tasks", "cancel", "crowd")).stderr).toMatch(
      /"crowd" may mean several tasks: (task_crowd\d+, ){5}…; nothing was done\n$/,
    );
    expect((await gatewayFixture.json<Task[]>("tasks", "--limit", "6500")).length).toBeGreaterThan(6_000);
    expect((await json<Task[]>("tasks", "--session", "worker")).map((each) => each.taskId)).toEqual([taskId]);
  } finally {
    gatewayFixture.sql("delete from tasks where task_id like 'task_crowd%'");
  }
  expect(await worker.holdfast("tasks", "notify", taskId, "silent")).toMatchObject({ code: 0 });
  expect(await worker.holdfast("tasks", "cancel", taskId)).toMatchObject({ code: 0 });
  expect(await worker.holdfast("tasks", "wait", taskId)).toMatchObject({ code: 130 });
  // Whoever does it is told when it next says how it is going.
  expect(await own.taskProgress({ params: { id: taskId } })).toMatchObject({ stop: true });
});

/** Many more like one. */
function crowd(taskId: string, count: number): void {
  const db = new DatabaseSync(gatewayFixture.store, { timeout: 5_000 });
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

test("what cannot be meant is refused in one sentence, and changes nothing", async () => {
  const one = await external();
  const other = await finished({ status: "succeeded" });
  const { token } = await client.openSession({ body: { key: "stranger" } });
  await using stranger = new BatchCli({ ...gatewayFixture.env, HOLDFAST_TOKEN: token });
  const before = await json<Task[]>("tasks");
  const refusals: readonly (readonly [number, RegExp, ...string[]])[] = [
    [2, /'often' is invalid .* done_only, state_changes, silent/, "notify", one, "often"],
    [2, /of queued,running,.*lost/, "list", "--status", "finished"],
    [2, /of acp,subagent,exec,external/, "list", "--runtime", "shell"],
    [1, /there is no task task_zzzz$/, "cancel", "task_zzzz"],
    [1, /there is no task run_zzzz$/, "wait", "run_zzzz"],
    // Even if there is only one.
    [
      2,
      /"task_" is too little to name a task: .* 4 characters after task_; nothing was done$/,
      "cancel",
      "task_",
    ],
    [2, /"run_z" is too little to name a task: .* after run_; nothing was done$/, "cancel", "run_z"],
    [
      2,
      new RegExp(`"${one.slice(5, 8)}" is no session that may be seen, and too little to name a task`),
      "show",
      one.slice(5, 8),
    ],
    [1, /has no message that could not be delivered$/, "retry", other],
    [1, /has no message that could not be delivered$/, "dismiss", one],
  ];
  for (const [code, said, ...words] of refusals) {
    const answer = await batchCli.holdfast("tasks", ...words);
    expect({ words, ...answer }).toMatchObject({ words, code, stdout: "" });
    expect(answer.stderr.trimEnd()).toMatch(said);
    expect(answer.stderr.split("\n")).toHaveLength(2);
  }
  // What belongs to somebody else answers like what is not there.
  for (const words of [["show"], ["wait"], ["cancel"], ["notify", "silent"]]) {
    const [verb = "", ...more] = words;
    const hidden = await stranger.holdfast("tasks", verb, one, ...more);
    const missing = await stranger.holdfast("tasks", verb, "task_000000000000", ...more);
    expect(hidden).toMatchObject({ code: 1, stdout: "" });
    expect(hidden.stderr.replaceAll(one, "task_000000000000")).toBe(missing.stderr);
  }
  expect(await json<Task[]>("tasks")).toEqual(before);
});

test("a message that could not be delivered is seen, tried again, and given up", async () => {
  const id = await finished({ status: "failed", error: "no words" }, { origin: { channel: "deaf" } });
  const failed = async (): Promise<Task> => {
    let task: Task | null = null;
    await waitFor("it has failed", async () => {
      ({ task } = await client.getTask({ params: { id } }));
      return task.delivery === "failed";
    });
    return task as unknown as Task;
  };
  await failed();
  const shown = await batchCli.holdfast("tasks", "show", id);
  expect(shown.stdout).toMatch(
    new RegExp(
      `\n {2}task-terminal:${id} {2}failed at .*, channel deaf, 1 attempt: no Telegram chat is named`,
    ),
  );
  const audit = await batchCli.holdfast("tasks", "audit");
  expect(audit).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("`tasks retry` sends it again") as string,
  });
  expect(audit.stdout).toMatch(new RegExp(`^delivery_failed +${id} `, "m"));
  expect(await batchCli.holdfast("tasks", "retry", id)).toMatchObject({
    code: 0,
    stdout: `${id}: 1 message is tried again\n`,
  });
  await failed();
  expect(await batchCli.holdfast("tasks", "dismiss", id)).toMatchObject({
    code: 0,
    stdout: `${id}: 1 message is dismissed\n`,
  });
  expect(await client.getTask({ params: { id } })).toMatchObject({ task: { delivery: "not_applicable" } });
  expect((await batchCli.holdfast("tasks", "show", id)).stdout).toMatch(
    /retried +by operator\n.* dismissed +by operator\n$/,
  );
  expect(await json<unknown[]>("tasks", "audit")).not.toContainEqual(expect.objectContaining({ taskId: id }));
});

test("show has what was asked for, line by line", async () => {
  const id = await external({ label: "count", text: "Count the words.\nAll of them.", kind: "counting" });
  const { stdout } = await batchCli.holdfast("tasks", "show", id);
  expect(stdout).toMatch(/\n {2}runtime +external, counting\n/);
  expect(stdout).toContain("\nrequest\n  Count the words.\n  All of them.\n");
});

test("the policy of a task is changed while it goes on, and not afterwards", async () => {
  const id = await external();
  expect(await batchCli.holdfast("tasks", "notify", id, "silent")).toMatchObject({
    code: 0,
    stdout: `${id}: silent\n`,
  });
  expect((await batchCli.holdfast("tasks", "notify", id, "silent")).stdout).toBe(
    `${id}: silent, as before\n`,
  );
  expect(await batchCli.holdfast("tasks", "notify", id, "done_only")).toMatchObject({
    code: 0,
    stdout: `${id}: done_only\n`,
    stderr: `holdfast: ${id} has no notification target, so no notification will be sent\n`,
  });
  await client.finishTask({ params: { id }, body: { status: "succeeded" } });
  expect(await batchCli.holdfast("tasks", "notify", id, "silent")).toMatchObject({
    code: 1,
    stdout: "",
    stderr: `holdfast: task ${id} has ended (succeeded), which is final; nothing was changed\n`,
  });
  expect(await client.getTask({ params: { id } })).toMatchObject({ task: { policy: "done_only" } });
});

test("maintenance says what it would do, and does it only when told to", async () => {
  const id = await external({ heartbeatMs: 1_000 });
  const longAgo = Date.now() - 3_600_000;
  gatewayFixture.sql(
    `update tasks set last_event_at = ${longAgo}, missing_since = ${longAgo} where task_id = '${id}'`,
  );
  const old = await finished({ status: "succeeded" });
  gatewayFixture.sql(`update tasks set cleanup_after = 1 where task_id = '${old}'`);
  const before = await json<Task[]>("tasks");
  const preview = await batchCli.holdfast("tasks", "maintenance");
  expect(preview).toMatchObject({ code: 0, stderr: "holdfast: nothing was changed; --apply does it\n" });
  expect(preview.stdout).toMatch(new RegExp(`^${id} +tell +it has ended: lost \\(.*60 min\\)$`, "m"));
  expect(preview.stdout).toMatch(new RegExp(`^${old} +forget +it ended long ago`, "m"));
  expect(await json<Task[]>("tasks")).toEqual(before);

  const applied = await json<ResponseOf<"maintainTasks">>("tasks", "maintenance", "--apply");
  expect(applied.applied).toBe(true);
  expect(applied.measures.map(({ taskId }) => taskId)).toEqual(expect.arrayContaining([id, old]));
  expect(await batchCli.holdfast("tasks", "wait", id)).toMatchObject({ code: 125, stdout: "" });
  expect(await batchCli.holdfast("tasks", "show", old)).toMatchObject({ code: 1 });
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
  ] as const)("ends with how %j ended", async (body, code, stdout, remark) => {
    const id = await finished(body);
    const answer = await batchCli.holdfast("tasks", "wait", id);
    expect(answer).toMatchObject({ code, stdout });
    expect(answer.stderr.trimEnd()).toMatch(remark);
    expect(await json<Task>("tasks", "wait", id)).toMatchObject({ taskId: id, status: body.status });
  });
});
