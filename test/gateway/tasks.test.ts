import { DatabaseSync } from "@photostructure/sqlite";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import type { GatewayClient } from "../../src/gateway/client.js";
import { parseConfig } from "../../src/gateway/config.js";
import type { AnswerOf } from "../../src/gateway/contract/contract.js";
import { followLines } from "../../src/gateway/follow-lines.js";
import { StateUnusable } from "../../src/errors.js";
import { SqlTaskStore } from "../../src/store/sql/sql-task-store.js";
import type { Notification } from "../../src/store/task-record.js";
import { shellAgent } from "../acp/controlled.js";
import { fakeAgents } from "../agents/fake-agents.js";
import { newRunId } from "../../src/supervisor/ids.js";
import { processesOf } from "../supervisor/real-supervisor.js";
import { oneGateway, refusal, sh, until } from "./real-gateway.js";

const place = mkdtempSync(join(tmpdir(), "hf-tasks-"));
afterAll(() => rmSync(place, { recursive: true }));
const heard = join(place, "heard");
writeFileSync(heard, "");
/** The user's channel: a program that notes what it is told. */
const config = parseConfig(
  `${fakeAgents}
[[exec]]
effect = "allow"
[channels.user]
kind = "command"
argv = ["/bin/sh", "-c", "cat >> ${heard}"]
[channels.deaf]
kind = "telegram"
token = { env = "NO_BOT_OF_OURS" }`,
  "",
);
const stage = oneGateway({ config });
const origin = { channel: "user" } as const;

type Task = AnswerOf<"getTask">["task"];

function userHeard(): (Pick<Notification, "id" | "taskId" | "status" | "text"> & {
  readonly type: string;
})[] {
  return readFileSync(heard, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as { readonly type: string; readonly data: Notification })
    .map(({ type, data: { id, taskId, status, text } }) => ({ type, id, taskId, status, text }));
}

async function shown(id: string, client: GatewayClient = stage.client): Promise<AnswerOf<"getTask">> {
  return client.getTask({ params: { id } });
}

async function ended(id: string, client: GatewayClient = stage.client): Promise<Task> {
  let { task } = await shown(id, client);
  await until(`${id} has ended`, async () => {
    ({ task } = await shown(id, client));
    return task.endedAt !== null;
  });
  return task;
}

async function told(id: string, delivery: Task["delivery"]): Promise<Task> {
  let { task } = await shown(id);
  await until(`${id} is ${delivery}`, async () => {
    ({ task } = await shown(id));
    return task.delivery === delivery;
  });
  return task;
}

const typesOf = async (id: string): Promise<string[]> => (await shown(id)).events.map(({ type }) => type);

/** A session that speaks with the gateway, and an agent of its own that says every prompt again. */
async function boss(key: string): Promise<{ readonly client: GatewayClient; readonly id: string }> {
  const { session } = await stage.client.acpSpawn({
    body: { argv: shellAgent("echo"), cwd: place, key, permissions: "approve-all" },
  });
  const { token } = await stage.client.openSession({ body: { key } });
  return { client: stage.as(token), id: session.sessionId };
}

describe("exec", () => {
  test("one that speaks and ends at once has a history in order, and nothing in it was refused", async () => {
    for (let times = 0; times < 20; times += 1) {
      const { run } = await stage.client.exec({
        body: { ...sh("echo out; echo err >&2; exit 3"), background: true },
      });
      await ended(run.runId);
      const [created, started, ...rest] = await typesOf(run.runId);
      expect([created, started]).toEqual(["created", "started"]);
      expect(rest.filter((type) => type !== "progress")).toEqual(["ended"]);
    }
  });

  test("in the background: recorded before it begins, with its start, its progress, its last lines, and nobody told", async () => {
    const gate = join(place, "exec-gate");
    const { run } = await stage.client.exec({
      body: {
        ...sh(`echo compiling; while [ ! -e ${gate} ]; do sleep 0.02; done; echo 'all 12 built'`),
        background: true,
      },
    });
    const { task } = await shown(run.runId);
    expect(task).toMatchObject({ runtime: "exec", status: "running", policy: "silent", runId: run.runId });
    expect(task.createdAt).toBeLessThanOrEqual(run.createdAt);
    await until("its progress is known", async () => (await shown(run.runId)).task.progress === "compiling");
    writeFileSync(gate, "");
    expect(await ended(run.runId)).toMatchObject({
      status: "succeeded",
      outcome: "succeeded",
      delivery: "not_applicable",
      summary: "compiling\nall 12 built",
      error: null,
    });
    const { events, run: record, messages } = await shown(task.taskId);
    expect(events.map(({ type }) => type)).toEqual(["created", "started", "progress", "ended"]);
    expect(record).toMatchObject({ runId: run.runId, emptiness: "proven", exit: { code: 0 } });
    expect(messages).toEqual([]);
  });

  test("that yields is a task from then on; one that ends before is none", async () => {
    const quick = await stage.client.exec({ body: sh("true") });
    expect(await refusal(shown(quick.run.runId))).toMatchObject({ code: "NOT_FOUND" });
    const slow = await stage.client.exec({ body: { ...sh("sleep 0.3; exit 3"), yieldMs: 10 } });
    expect(slow.running).toBe(true);
    expect(await ended(slow.run.runId)).toMatchObject({ status: "failed", error: "it ended with code 3" });
    expect(await typesOf(slow.run.runId)).toEqual(["created", "started", "ended"]);
  });

  test("that yields while the store cannot be written is answered, and a task as soon as it can", async () => {
    const full = new StateUnusable("/full", "the disk is full");
    vi.spyOn(SqlTaskStore.prototype, "insertTask").mockRejectedValueOnce(full);
    const { run, running } = await stage.client.exec({
      body: { ...sh("sleep 0.3; echo fine"), yieldMs: 10 },
    });
    expect(running).toBe(true);
    expect(await refusal(shown(run.runId))).toMatchObject({ code: "NOT_FOUND" });
    await stage.client.maintainTasks({ body: { apply: true } });
    expect(await ended(run.runId)).toMatchObject({ status: "succeeded", summary: "fine" });
  });

  test.for([
    ["ends while its caller waits", { origin }, "silent", "not_applicable"],
    [
      "ends while its caller waits, who wants to hear of it",
      { origin, notify: "done_only" },
      "done_only",
      "delivered",
    ],
    ["goes on when its caller is sent away", { origin, yieldMs: 10 }, "done_only", "delivered"],
  ] as const)(
    "that somebody is to hear of is a task from before it begins, one that %s",
    async ([, said, policy, delivery], { task: { id } }) => {
      const gate = join(place, `gate-${id}`);
      const runId = newRunId();
      const script = sh(`while [ ! -e ${gate} ]; do sleep 0.02; done; echo built`);
      const asked = stage.client.exec({ body: { ...script, runId, yieldMs: 60_000, ...said } });
      await until("it is said to run", async () => {
        const { tasks } = await stage.client.listTasks({ query: { open: "1" } });
        return tasks.some((task) => task.runId === runId && task.status === "running");
      });
      if ("yieldMs" in said) expect((await asked).running).toBe(true);
      writeFileSync(gate, "");
      await asked;
      const { taskId, ...task } = await told(runId, delivery);
      expect(task).toMatchObject({ status: "succeeded", summary: "built", policy });
      expect(userHeard().filter((each) => each.taskId === taskId)).toHaveLength(
        delivery === "delivered" ? 1 : 0,
      );
    },
  );

  test("that ends at the moment when its caller is sent away is told: that caller has no answer", async () => {
    const [runId, gate] = [newRunId(), join(place, "sent-away")];
    const { supervisor } = stage.gateway;
    const read = supervisor.readOutput.bind(supervisor);
    // Between the decision that it goes on and the answer that says so.
    vi.spyOn(supervisor, "readOutput").mockImplementationOnce(async (...asked) => {
      writeFileSync(gate, "");
      await ended(runId);
      return read(...asked);
    });
    const script = sh(`while [ ! -e ${gate} ]; do sleep 0.02; done; echo built`);
    const { running } = await stage.client.exec({ body: { ...script, runId, origin, yieldMs: 10 } });
    expect(running).toBe(true);
    expect(await told(runId, "delivered")).toMatchObject({ status: "succeeded", policy: "done_only" });
  });

  test("that cannot be started has failed; and what is no command is no task", async () => {
    const { run, failure } = await stage.client.exec({ body: { argv: ["/nowhere"], background: true } });
    expect(failure).toBe("not-found");
    expect(await ended(run.runId)).toMatchObject({ status: "failed" });
    const services = await stage.client.exec({
      body: { argv: ["sleep", "100"], kind: "service", background: true },
    });
    expect(await refusal(shown(services.run.runId))).toMatchObject({ code: "NOT_FOUND" });
    await stage.client.kill({ params: { runId: services.run.runId } });
  });

  test("asked for twice under one id is one task", async () => {
    const body = { argv: ["true"], background: true, runId: "run_asked0tw1ce0" };
    await stage.client.exec({ body });
    expect(await refusal(stage.client.exec({ body }))).toMatchObject({ code: "RUN_EXISTS" });
    expect(await ended(body.runId)).toMatchObject({ status: "succeeded" });
    const { tasks } = await stage.client.listTasks({ query: { runtime: "exec" } });
    expect(tasks.filter(({ runId }) => runId === body.runId)).toHaveLength(1);
  });

  test("named like somebody else's run is refused, and gives no hold of that run", async () => {
    const { client: thief } = await boss("thief");
    const { run } = await stage.client.exec({
      body: { argv: ["sleep", "1000"], kind: "service", background: true },
    });
    const { runId } = run;
    const body = { background: true, runId };
    for (const take of [
      () => thief.exec({ body: { ...body, argv: ["true"] } }),
      () => thief.runAgent({ params: { id: "codex" }, body: { ...body, prompt: "hello" } }),
    ])
      expect(await refusal(take())).toMatchObject({ code: "RUN_EXISTS" });
    expect((await thief.listTasks()).tasks).toEqual([]);
    expect(await refusal(thief.cancelTask({ params: { id: runId } }))).toMatchObject({ code: "NOT_FOUND" });
    expect(await processesOf(runId)).not.toEqual([]);
    await stage.client.kill({ params: { runId } });
  });

  test("asked for again under the id of one that was refused is refused, too: its task has ended", async () => {
    const body = { ...sh("echo fine"), background: true, runId: "run_asked0aga1n0" };
    const wrong = { ...body, env: { HOLDFAST_RUN_ID: "x" } };
    expect(await refusal(stage.client.exec({ body: wrong }))).toMatchObject({ code: "BAD_INPUT" });
    expect(await ended(body.runId)).toMatchObject({ status: "failed" });
    expect(await refusal(stage.client.exec({ body }))).toMatchObject({ code: "TASK_REFUSED" });
    expect((await shown(body.runId)).run).toBeNull();
  });

  test("cancelled while it begins: nothing of it is left", async () => {
    for (let round = 0; round < 10; round++) {
      const runId = newRunId();
      const starting = stage.client.exec({ body: { argv: ["sleep", "1000"], background: true, runId } });
      await until("there is something to cancel", () =>
        stage.client.cancelTask({ params: { id: runId } }).then(
          () => true,
          () => false,
        ),
      );
      await starting.catch(() => undefined);
      expect((await shown(runId)).task).toMatchObject({ status: "cancelled" });
      expect(await processesOf(runId)).toEqual([]);
    }
  });

  test("cancelled: until its processes are proven gone, told once, as cancelled", async () => {
    const { run } = await stage.client.exec({
      body: { ...sh("sleep 1000 & sleep 1000"), background: true, origin },
    });
    const answer = await stage.client.cancelTask({ params: { id: run.runId }, body: { reason: "enough" } });
    expect(answer).toMatchObject({
      outcome: "cancelled",
      survivors: [],
      task: { status: "cancelled", error: "it was cancelled by operator (enough)" },
    });
    expect(await processesOf(run.runId)).toEqual([]);
    const { taskId } = await told(run.runId, "delivered");
    expect((await stage.client.cancelTask({ params: { id: taskId } })).outcome).toBe("ended-before");
    expect(userHeard().filter((each) => each.taskId === taskId)).toEqual([
      {
        type: "task.terminal",
        id: `task-terminal:${taskId}`,
        taskId,
        status: "cancelled",
        text: expect.stringMatching(
          /^Task “.*sleep.*” was cancelled: it was cancelled by operator \(enough\)$/,
        ),
      },
    ]);
  });
});

describe("a session's background work", () => {
  test("is told to it alone, at its next turn, and delivered when its agent has answered that", async () => {
    const parent = await boss("boss-1");
    const before = userHeard();
    const { session, turn } = await parent.client.acpSpawn({
      body: {
        argv: shellAgent(),
        cwd: place,
        mode: "run",
        background: true,
        prompt: "echo 42 is the answer",
      },
    });
    const {
      tasks: [task],
    } = await parent.client.listTasks({ query: { session: session.sessionId } });
    expect(task).toMatchObject({
      runtime: "acp",
      ownerSessionId: parent.id,
      childSessionId: session.sessionId,
      turnId: turn?.turnId,
      runId: session.runId,
      policy: "done_only",
      targets: [{ kind: "session", sessionId: parent.id }],
    });
    const done = await ended(task?.taskId ?? "", parent.client);
    expect(done).toMatchObject({ status: "succeeded", summary: "42 is the answer" });
    await told(done.taskId, "session_queued");
    const { turn: next } = await stage.client.acpPrompt({
      params: { id: parent.id },
      body: { text: "well?" },
    });
    expect(next.text).toBe(
      "Notice from Holdfast, not from a person:\n> Task “echo 42 is the answer” succeeded: 42 is the answer\n\nwell?",
    );
    await told(done.taskId, "delivered");
    const { messages } = await shown(done.taskId);
    expect(messages).toMatchObject([
      { id: `task-terminal:${done.taskId}`, status: "delivered", attempts: 1 },
    ]);
    expect(await typesOf(done.taskId)).toEqual(["created", "started", "ended"]);
    // Nothing of it came to the user, neither the end nor that it was at work.
    expect(userHeard()).toEqual(before);
  });

  test("that fails is told with why, and without what its agent had said on the way", async () => {
    const parent = await boss("boss-2");
    const { turn } = await parent.client.acpSpawn({
      body: {
        argv: shellAgent("echo"),
        cwd: place,
        mode: "run",
        background: true,
        prompt: "DIE while chattering",
      },
    });
    const {
      tasks: [task],
    } = await parent.client.listTasks({ query: { runtime: "acp" } });
    expect(task?.turnId).toBe(turn?.turnId);
    const id = task?.taskId ?? "";
    expect(await ended(id)).toMatchObject({ status: "failed", summary: null, outcome: null });
    await told(id, "session_queued");
    const { turns } = await stage.client.acpShow({ params: { id: turn?.sessionId ?? "" } });
    expect(turns).toMatchObject([{ text: "on the way" }]);
    const { messages } = await shown(id);
    expect(messages[0]?.text).toMatch(/^Task “DIE while chattering” failed: /);
    expect(JSON.stringify(messages)).not.toContain("on the way");
    expect(messages).toHaveLength(1);
  });

  test("that it waits for is a task, and no message is due: it has the answer", async () => {
    const parent = await boss("boss-3");
    const goOn = join(place, "go-on");
    const { session, turn } = await parent.client.acpSpawn({
      body: { argv: shellAgent(), cwd: place, key: "its-child", prompt: "echo one", wait: true },
    });
    expect(turn).toMatchObject({ outcome: "completed", text: "one\n" });
    const first = await ended(session.sessionId);
    expect(first).toMatchObject({ delivery: "not_applicable", summary: "one", turnId: turn?.turnId });
    // A turn of a session with a parent, asked for and left alone.
    const { turn: second } = await parent.client.acpPrompt({
      params: { id: "its-child" },
      body: { text: `until test -e ${goOn}; do sleep 0.1; done; echo two`, wait: false, background: true },
    });
    // By its session's name the one that goes on is meant, of several none, and afterwards the newest.
    expect((await shown("its-child", parent.client)).task.turnId).toBe(second.turnId);
    const { turn: third } = await parent.client.acpPrompt({
      params: { id: "its-child" },
      body: { text: "echo three", wait: false, background: true },
    });
    const named = await refusal(shown("its-child", parent.client));
    expect(named).toMatchObject({ code: "BAD_INPUT" });
    expect(named.message).toContain("may mean several tasks");
    writeFileSync(goOn, "");
    await ended(third.turnId);
    expect((await shown("its-child", parent.client)).task.turnId).toBe(third.turnId);
    const { tasks } = await parent.client.listTasks({ query: { session: "its-child" } });
    expect(tasks.map(({ turnId }) => turnId)).toEqual([third.turnId, second.turnId, turn?.turnId]);
    const id = tasks[1]?.taskId ?? "";
    expect(await ended(id)).toMatchObject({ status: "succeeded", summary: "two" });
    await told(id, "session_queued");
    // It ends before it has read it: nobody is left to be told.
    await stage.client.acpClose({ params: { id: parent.id } });
    await stage.client.maintainTasks({ body: { apply: true } });
    await told(id, "parent_missing");
  });

  test("that it waited for, and did not wait long enough, is told after all", async () => {
    const parent = await boss("boss-12");
    const gate = join(place, "left-gate");
    await parent.client.acpSpawn({ body: { argv: shellAgent(), cwd: place, key: "child-12" } });
    const patience = new AbortController();
    const asking = parent.client.acpPrompt(
      {
        params: { id: "child-12" },
        body: { text: `while [ ! -e ${gate} ]; do sleep 0.02; done; echo late` },
      },
      patience.signal,
    );
    const left = refusal(asking);
    await until("it is at work", async () => {
      const [task] = (await parent.client.listTasks()).tasks;
      return task?.status === "running";
    });
    patience.abort();
    expect(await left).toMatchObject({ code: "ABORT_ERR" });
    writeFileSync(gate, "");
    expect(await told("child-12", "session_queued")).toMatchObject({ summary: "late", policy: "done_only" });
  });

  test("is told until it is had: a turn that comes to nothing does not count", async () => {
    const parent = await boss("boss-13");
    const { task } = await parent.client.createTask({ body: { label: "index" } });
    const params = { id: task.taskId };
    await parent.client.finishTask({ params, body: { status: "succeeded", summary: "12 files" } });
    await told(task.taskId, "session_queued");
    const ask = async (text: string) =>
      (await stage.client.acpPrompt({ params: { id: "boss-13" }, body: { text } })).turn;
    expect(await ask("DIE")).toMatchObject({ outcome: "interrupted" });
    const { messages } = await parent.client.sessionInbox({ params: { id: parent.id } });
    expect(messages).toMatchObject([{ turnId: null, inVain: 1, deliveredAt: null }]);
    expect((await shown(task.taskId)).task.delivery).toBe("session_queued");
    expect((await ask("go on")).text).toContain("> (again) Task “index” succeeded: 12 files");
    await told(task.taskId, "delivered");
  });

  test("that it asks for by a message is told like a turn; what others say to its child is talk", async () => {
    const parent = await boss("boss-9");
    const child = { argv: shellAgent("echo"), cwd: place, key: "child-9" };
    await parent.client.acpSpawn({ body: child });
    const params = { id: "child-9" };
    await stage.client.sendMessage({ params, body: { text: "hello" } });
    const { message } = await parent.client.sendMessage({ params, body: { text: "and what now?" } });
    await until("its end is told", async () => {
      const { tasks } = await parent.client.listTasks({ query: { delivery: "session_queued" } });
      return tasks.length > 0;
    });
    const { tasks } = await stage.client.listTasks({ query: { session: "child-9" } });
    expect(tasks).toMatchObject([
      {
        runtime: "acp",
        label: "and what now?",
        ownerSessionId: parent.id,
        status: "succeeded",
        turnId: `turn_${message.id.slice(4)}`,
        summary: "Message from session boss-9 (no agent):\n> and what now?",
      },
    ]);
  });

  test("by an agent's command is a task of its own session, with the agent's answer as its result", async () => {
    const parent = await boss("boss-4");
    const gate = join(place, "agent-gate");
    const environment = { PATH: process.env["PATH"] ?? "", GATE: gate };
    const asked = await parent.client.runAgent({
      params: { id: "codex" },
      body: { prompt: "wait", background: true, environment, notify: "state_changes" },
    });
    const { task } = await shown(asked.run.runId, parent.client);
    expect(task).toMatchObject({
      runtime: "subagent",
      status: "running",
      ownerSessionId: parent.id,
      childSessionId: asked.session.id,
      agentId: "codex",
      text: "wait",
    });
    await until("it was heard of", async () => {
      const { startedAt, lastEventAt } = (await shown(asked.run.runId)).task;
      return startedAt !== null && lastEventAt > startedAt;
    });
    writeFileSync(gate, "");
    const done = { status: "succeeded", summary: "done", progress: null };
    expect(await ended(asked.run.runId)).toMatchObject(done);
    await told(asked.run.runId, "session_queued");
    // It was at work, and what it said meanwhile is nobody's business.
    const texts = (await shown(asked.run.runId)).messages.map(({ text }) => text);
    expect(texts.at(-1)).toBe("Task “wait” succeeded: done");
    expect(texts.join()).not.toContain("working");
    const failed = await parent.client.runAgent({ params: { id: "codex" }, body: { prompt: "quiet" } });
    expect(await ended(failed.run.runId)).toMatchObject({
      status: "failed",
      error: "the model said no",
      delivery: "not_applicable",
    });
    const stumbled = await parent.client.runAgent({
      params: { id: "codex" },
      body: { prompt: "stumble", background: true },
    });
    const { runId } = stumbled.run;
    expect(await ended(runId)).toMatchObject({ status: "failed", summary: null });
    await told(runId, "session_queued");
    const { messages } = await shown(runId);
    expect(messages.map(({ text }) => text)).toEqual([
      "Task “stumble” failed: it ended with code 3: the model said no",
    ]);
    // It is not forgotten: the session has it.
    expect((await stage.client.agentResult({ params: { runId } })).result).toMatchObject({
      error: "it ended with code 3: the model said no",
      text: "working",
    });
    // All that it says is its answer: there is nothing else that could be the error.
    const chatty = await parent.client.runAgent({ params: { id: "text" }, body: { prompt: "fail" } });
    expect(await ended(chatty.run.runId)).toMatchObject({
      status: "failed",
      error: "it ended with code 3",
      summary: null,
    });
  });

  test("of an agent's command is told to that with its next prompt, and delivered when it has answered", async () => {
    const first = await stage.client.runAgent({ params: { id: "codex" }, body: { prompt: "hello" } });
    const { key, id } = first.session;
    const self = stage.as((await stage.client.openSession({ body: { key } })).token);
    const { run } = await self.exec({ body: { ...sh("echo built"), background: true, notify: "done_only" } });
    const { task } = await shown(run.runId);
    await told(task.taskId, "session_queued");
    const body = { prompt: "and now?", resume: id };
    const { result } = await stage.client.runAgent({ params: { id: "codex" }, body });
    expect(result?.text).toContain(
      `: Notice from Holdfast, not from a person:\n> Task “${task.label}” succeeded: built\n\nand now?`,
    );
    await told(task.taskId, "delivered");
    const again = await stage.client.runAgent({ params: { id: "codex" }, body });
    expect(again.result?.text).not.toContain("Notice");
  });

  test("cannot be silenced by who does it, nor said to be another agent's", async () => {
    const parent = await boss("boss-13");
    const body = { argv: shellAgent(), cwd: place, key: "child-13", prompt: "sleep 1000", background: true };
    await parent.client.acpSpawn({ body });
    const child = stage.as((await stage.client.openSession({ body: { key: "child-13" } })).token);
    const { task } = await shown("child-13", child);
    const change = { params: { id: task.taskId }, body: { policy: "silent" } } as const;
    expect(await refusal(child.notifyTask(change))).toMatchObject({ code: "BAD_INPUT" });
    expect((await shown(task.taskId)).task.policy).toBe("done_only");
    expect((await parent.client.notifyTask(change)).changed).toBe(true);
    const forged = { label: "mine", agentId: "codex" };
    expect(await refusal(child.createTask({ body: forged }))).toMatchObject({ code: "BAD_INPUT" });
    expect((await stage.client.createTask({ body: forged })).task.agentId).toBe("codex");
    await parent.client.cancelTask({ params: { id: task.taskId } });
  });

  test("is seen by it and by the operator, and by nobody else: as if there were none", async () => {
    const parent = await boss("boss-5");
    const stranger = (await stage.client.openSession({ body: { key: "stranger-5" } })).token;
    const { run } = await parent.client.exec({ body: { argv: ["sleep", "100"], background: true } });
    const { taskId } = (await shown(run.runId, parent.client)).task;
    const others = stage.as(stranger);
    const missing = await refusal(shown("task_000000000000", others));
    for (const name of [taskId, run.runId, taskId.slice(0, -1), "boss-5"]) {
      const { code, message } = await refusal(shown(name, others));
      expect([code, message.replace(name, "task_000000000000")]).toEqual([missing.code, missing.message]);
    }
    for (const act of ["cancelTask", "notifyTask", "taskProgress", "finishTask"] as const)
      expect(
        await refusal(
          others[act]({
            params: { id: taskId },
            body: (act === "notifyTask"
              ? { policy: "silent" }
              : act === "finishTask"
                ? { status: "failed" }
                : {}) as never,
          }),
        ),
      ).toMatchObject({ code: "NOT_FOUND" });
    expect((await others.listTasks()).tasks).toEqual([]);
    expect(await refusal(others.listTasks({ query: { session: "boss-5" } }))).toMatchObject({
      code: "NOT_FOUND",
    });
    expect((await parent.client.listTasks()).tasks.map((task) => task.taskId)).toEqual([taskId]);
    for (const verb of ["retryTask", "dismissTask", "auditTasks", "maintainTasks"] as const)
      expect(await refusal(parent.client[verb]({ params: { id: taskId } } as never))).toMatchObject({
        code: "NOT_FOUND",
      });
    const lines: { readonly type: string; readonly data: Record<string, unknown> }[] = [];
    const waiting = (async () => {
      const path = `/v1/tasks/${taskId}/events?follow=1`;
      for await (const line of followLines<(typeof lines)[number]>(stage, path)) lines.push(line);
    })();
    expect(await parent.client.cancelTask({ params: { id: taskId.slice(0, -2) } })).toMatchObject({
      outcome: "cancelled",
    });
    await waiting;
    expect(lines.map(({ type }) => type)).toEqual(["created", "started", "ended"]);
    expect(lines.at(-1)?.data).toMatchObject({ status: "cancelled", actor: "session:boss-5" });
  });
});

describe("who is told of work that the operator starts", () => {
  const agent = { argv: shellAgent(), cwd: place };
  const heardOf = (taskId: string): number => userHeard().filter((each) => each.taskId === taskId).length;
  const newest = async (): Promise<string> => {
    const [task] = (await stage.client.listTasks({ query: { limit: 1 } })).tasks;
    return task?.taskId ?? "";
  };

  test("for a user who speaks alone with an agent: the user, there", async () => {
    await stage.client.acpSpawn({
      body: { ...agent, key: "alone", prompt: "echo hi", background: true, origin },
    });
    const id = await newest();
    await told(id, "delivered");
    expect(heardOf(id)).toBe(1);
    // The conversation in the foreground has no task, and nobody is told.
    await stage.client.acpPrompt({ params: { id: "alone" }, body: { text: "echo and you?" } });
    expect(await newest()).toBe(id);
  });

  test("in a group, and for a child in the background: its session, whatever is said of the user", async () => {
    const parent = await boss("boss-10");
    for (const body of [
      { ...agent, key: "grouped", prompt: "echo 1", origin: { ...origin, chat: "group" as const } },
      { ...agent, mode: "run" as const, prompt: "echo 2", origin },
    ]) {
      await stage.client.acpSpawn({ body: { ...body, parentSessionKey: "boss-10", background: true } });
      const id = await newest();
      expect((await shown(id)).task.targets).toEqual([{ kind: "session", sessionId: parent.id }]);
      await told(id, "session_queued");
      expect(heardOf(id)).toBe(0);
    }
  });

  test("for a session that has ended meanwhile: nobody, and that is said", async () => {
    const parent = await boss("boss-11");
    const { run } = await stage.client.exec({
      body: { argv: ["sleep", "1000"], background: true, sessionKey: "boss-11", notify: "done_only" },
    });
    expect((await shown(run.runId)).task.ownerSessionId).toBe(parent.id);
    await stage.client.acpClose({ params: { id: parent.id } });
    await stage.client.cancelTask({ params: { id: run.runId } });
    await told(run.runId, "parent_missing");
    expect((await stage.client.auditTasks()).findings).toMatchObject(
      expect.arrayContaining([expect.objectContaining({ code: "delivery_failed" })]),
    );
  });
});

describe("an agent's turn that is cancelled", () => {
  test("of a session: the turn is over, its agent stays, and who asked is told so", async () => {
    const parent = await boss("boss-6");
    const child = { argv: shellAgent(), cwd: place, key: "child-6" };
    await parent.client.acpSpawn({ body: child });
    const { turn } = await parent.client.acpPrompt({
      params: { id: "child-6" },
      body: { text: "sleep 1000", wait: false, background: true },
    });
    await until("it is at work", async () => (await shown("child-6")).task.progress === "sleep 1000");
    const { turn: next } = await parent.client.acpPrompt({
      params: { id: "child-6" },
      body: { text: "echo 2", wait: false, background: true },
    });
    expect((await parent.client.cancelTask({ params: { id: next.turnId } })).task).toMatchObject({
      status: "cancelled",
      startedAt: null,
      error: "it was cancelled by session:boss-6",
    });
    const { task, outcome } = await parent.client.cancelTask({ params: { id: turn.turnId } });
    expect([outcome, task.status, task.turnId]).toEqual(["cancelled", "cancelled", turn.turnId]);
    await told(task.taskId, "session_queued");
    expect((await stage.client.acpShow({ params: { id: "child-6" } })).session.state).toBe("ready");
    const refused = await refusal(
      stage.client.notifyTask({ params: { id: task.taskId }, body: { policy: "silent" } }),
    );
    expect(refused).toMatchObject({ code: "TASK_REFUSED" });
  });

  test("by ending its agent's process: the task says who did it", async () => {
    const { session } = await stage.client.acpSpawn({
      body: { argv: shellAgent(), cwd: place, key: "ended-6", prompt: "sleep 1000", background: true },
    });
    await until("it is at work", async () => (await shown("ended-6")).task.status === "running");
    await stage.client.kill({ params: { runId: session.runId ?? "" }, body: { reason: "too loud" } });
    expect(await ended("ended-6")).toMatchObject({
      status: "cancelled",
      error: "it was cancelled by operator (too loud)",
      runId: session.runId,
    });
  });

  test("of a run: its session ends with it, and nothing is left", async () => {
    const { session } = await stage.client.acpSpawn({
      body: { argv: shellAgent(), cwd: place, mode: "run", prompt: "sleep 1000", background: true, origin },
    });
    await until("it is at work", async () => (await shown(session.sessionId)).task.status === "running");
    const { task, outcome } = await stage.client.cancelTask({ params: { id: session.sessionId } });
    expect([outcome, task.status]).toEqual(["cancelled", "cancelled"]);
    expect(await processesOf(session.runId ?? "")).toEqual([]);
    await told(task.taskId, "delivered");
    const about = userHeard().filter(({ taskId }) => taskId === task.taskId);
    expect(about.map(({ status }) => status)).toEqual(["cancelled"]);
  });
});

describe("another program's work", () => {
  test("is created once for a name, heard of, finished, and told where its user is", async () => {
    const body = { label: "nightly", key: "nightly-1", queued: true, origin };
    const { task, created } = await stage.client.createTask({ body });
    expect([created, task.status, task.policy]).toEqual([true, "queued", "done_only"]);
    expect(await stage.client.createTask({ body })).toEqual({ task, created: false });
    const params = { id: task.taskId };
    const early = await refusal(stage.client.finishTask({ params, body: { status: "succeeded" } }));
    expect(early).toMatchObject({ code: "TASK_REFUSED" });
    expect(await stage.client.taskProgress({ params, body: { text: "half way" } })).toMatchObject({
      stop: false,
      task: { status: "running", progress: "half way" },
    });
    const end = { status: "succeeded", outcome: "blocked", summary: "needs a password" } as const;
    expect(await stage.client.finishTask({ params, body: end })).toMatchObject({ changed: true });
    expect(await stage.client.finishTask({ params, body: end })).toMatchObject({ changed: false });
    const late = await refusal(stage.client.finishTask({ params, body: { status: "failed" } }));
    expect(late).toMatchObject({ code: "TASK_REFUSED" });
    await told(task.taskId, "delivered");
    expect(userHeard().filter(({ taskId }) => taskId === task.taskId)).toMatchObject([
      { type: "task.terminal", text: "Task “nightly” is blocked: needs a password" },
    ]);
    expect(await typesOf(task.taskId)).toEqual([
      "created",
      "refused",
      "started",
      "progress",
      "ended",
      "refused",
    ]);
  });

  test("that is cancelled hears so at its next heartbeat", async () => {
    const { task } = await stage.client.createTask({ body: { text: "dig", heartbeatMs: 60_000 } });
    const params = { id: task.taskId };
    expect((await stage.client.taskProgress({ params })).stop).toBe(false);
    expect((await stage.client.cancelTask({ params })).outcome).toBe("cancelled");
    expect(await stage.client.taskProgress({ params })).toMatchObject({
      stop: true,
      task: { status: "cancelled" },
    });
    expect(await typesOf(task.taskId)).toEqual(["created", "started", "ended"]);
  });

  test.for([
    ["done_only", ["task.terminal"]],
    ["state_changes", ["task.state", "task.terminal"]],
    ["silent", []],
  ] as const)("under the policy %s the user hears %j", async ([notify, types]) => {
    const { task } = await stage.client.createTask({ body: { label: `under ${notify}`, notify, origin } });
    const params = { id: task.taskId };
    if (notify === "state_changes")
      await until("its start is told", () => userHeard().some(({ taskId }) => taskId === task.taskId));
    // Told so soon after the start, it gives way to the end.
    await stage.client.taskProgress({ params, body: { text: "chatter" } });
    await stage.client.finishTask({ params, body: { status: "failed", error: "no luck" } });
    await told(task.taskId, notify === "silent" ? "not_applicable" : "delivered");
    const about = userHeard().filter(({ taskId }) => taskId === task.taskId);
    expect(about.map(({ type }) => type)).toEqual(types);
    expect(about.at(-1)?.text ?? "none").toBe(
      notify === "silent" ? "none" : `Task “under ${notify}” failed: no luck`,
    );
  });

  test("a policy can be changed on the way, and wrong ones are refused wherever they are said", async () => {
    const { task } = await stage.client.createTask({ body: { label: "quiet", origin } });
    const params = { id: task.taskId };
    expect(await stage.client.notifyTask({ params, body: { policy: "silent" } })).toMatchObject({
      changed: true,
      task: { delivery: "not_applicable" },
    });
    await stage.client.finishTask({ params, body: { status: "succeeded" } });
    expect((await shown(task.taskId)).messages).toEqual([]);
    const wrong = { notify: "always", policy: "always" } as never;
    for (const asked of [
      () => stage.client.notifyTask({ params, body: wrong }),
      () => stage.client.createTask({ body: { label: "x", ...(wrong as object) } }),
      () => stage.client.exec({ body: { argv: ["true"], ...(wrong as object) } }),
      () => stage.client.createTask({ body: { label: "x", origin: { channel: "nobody" } } }),
      () => stage.client.createTask({ body: {} }),
      () => stage.client.createTask({ body: { label: "x", key: "a\0b" } }),
      () => stage.client.createTask({ body: { label: "x", origin: { ...origin, address: "\ud800" } } }),
      () => shown("a\0b"),
      async () => stage.client.taskProgress({ params: { id: await aBackgroundRun() } }),
    ])
      expect(await refusal(asked())).toMatchObject({ code: "BAD_INPUT" });
    const nobody = { origin: { channel: "nobody" } };
    const sessions = (await stage.client.acpList()).sessions.length;
    for (const asked of [
      () => stage.client.exec({ body: { argv: ["true"], ...nobody } }),
      () => stage.client.acpSpawn({ body: { argv: shellAgent(), cwd: place, prompt: "x", ...nobody } }),
      () => stage.client.runAgent({ params: { id: "codex" }, body: { prompt: "x", ...nobody } }),
    ])
      expect(await refusal(asked())).toMatchObject({ code: "BAD_INPUT" });
    // Nothing was begun.
    expect((await stage.client.acpList()).sessions).toHaveLength(sessions);
    const { client } = await boss("boss-7");
    expect(await refusal(client.createTask({ body: { label: "x", origin } }))).toMatchObject({
      code: "BAD_INPUT",
    });
  });
});

async function aBackgroundRun(): Promise<string> {
  const { run } = await stage.client.exec({ body: { argv: ["true"], background: true } });
  return run.runId;
}

test("what cannot be delivered is a dead letter, which an operator can have tried again, or dismiss", async () => {
  const { task } = await stage.client.createTask({ body: { label: "unheard", origin: { channel: "deaf" } } });
  const params = { id: task.taskId };
  await stage.client.finishTask({ params, body: { status: "succeeded" } });
  await told(task.taskId, "failed");
  const found = async (): Promise<unknown> =>
    (await stage.client.auditTasks()).findings.filter(({ taskId }) => taskId === task.taskId);
  expect(await found()).toMatchObject([{ code: "delivery_failed" }]);
  expect(await stage.client.retryTask({ params })).toMatchObject({ messages: 1 });
  await told(task.taskId, "failed");
  const [message] = (await shown(task.taskId)).messages;
  expect(message).toMatchObject({ status: "failed", attempts: 2 });
  expect(message?.error).toContain("no Telegram chat is named");
  expect(await stage.client.dismissTask({ params })).toMatchObject({
    messages: 1,
    task: { delivery: "not_applicable" },
  });
  expect(await stage.client.dismissTask({ params })).toMatchObject({ messages: 0 });
  expect(await found()).toEqual([]);
});

test("reading changes nothing, whoever reads", async () => {
  const { client: session } = await boss("boss-8");
  const { run } = await session.exec({ body: { argv: ["sleep", "1000"], background: true } });
  const { task } = await shown(run.runId);
  const everything = (): unknown => {
    using db = new DatabaseSync(join(stage.home, "store.sqlite"), { readOnly: true });
    const tables = ["tasks", "task_events", "task_outbox", "session_messages", "sessions"];
    return tables.map((table): unknown => db.prepare(`select * from ${table} order by 1, 2`).all());
  };
  const before = everything();
  for (const client of [stage.client, session])
    for (const id of [task.taskId, run.runId, task.taskId.slice(0, -1)]) {
      await client.listTasks({ query: { status: "running,failed", limit: 3 } });
      await client.getTask({ params: { id } });
      await client.taskEvents({ params: { id } });
    }
  await stage.client.auditTasks();
  expect((await stage.client.maintainTasks()).applied).toBe(false);
  expect(everything()).toEqual(before);
  await session.cancelTask({ params: { id: task.taskId } });
  expect(everything()).not.toEqual(before);
});

test("hostile words are kept as words", async () => {
  const hostile = "\u001b[2J\0 \ud800 <b>&\u202e' or 1=1; --";
  const { task } = await stage.client.createTask({ body: { label: hostile, text: hostile, origin } });
  const params = { id: task.taskId };
  await stage.client.taskProgress({ params, body: { text: hostile } });
  await stage.client.finishTask({ params, body: { status: "failed", error: hostile, summary: hostile } });
  const { label, progress, error, summary } = await told(task.taskId, "delivered");
  // oxlint-disable-next-line no-control-regex -- what must not be there
  for (const text of [label, progress, error, summary]) expect(text).not.toMatch(/[\0\u001b\u202e\ud800]/);
  expect(label).toContain("<b>&");
  expect(userHeard().filter(({ taskId }) => taskId === task.taskId)).toHaveLength(1);
});

test("a list is read page by page, each task once", async () => {
  const all = (await stage.client.listTasks({ query: { limit: 1_000 } })).tasks.map(({ taskId }) => taskId);
  const read: string[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await stage.client.listTasks({
      query: { limit: 3, ...(cursor === undefined ? {} : { cursor }) },
    });
    read.push(...page.tasks.map(({ taskId }) => taskId));
    if (page.next === null) break;
    cursor = page.next;
  }
  expect(read).toEqual(all);
  expect(all.length).toBeGreaterThan(3);
  expect(await refusal(stage.client.listTasks({ query: { cursor: "x" } }))).toMatchObject({
    code: "BAD_INPUT",
  });
  expect(await refusal(stage.client.listTasks({ query: { status: "happy" } }))).toMatchObject({
    code: "BAD_INPUT",
  });
});
