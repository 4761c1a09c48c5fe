import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CompiledQuery } from "kysely";
import { describe, expect, test, vi } from "vitest";
import { StateUnusable } from "../../../src/errors.js";
import { SqliteConnection } from "../../../src/store/sqlite/retrying-connection.js";
import { newRunId } from "../../../src/model/ids.js";
import { findProcessesOfRun } from "../../support/supervisor/real-supervisor.js";
import { errorOf, shellCommand } from "../../support/gateway/real-gateway.js";
import { userOrigin, taskGateway } from "../../support/gateway/task-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const { stage: fixture, place, userHeard, shown, ended, told, typesOf, boss } = taskGateway();

describe("exec", () => {
  test("of a command that writes and ends at once has its events in order, and no event was refused", async () => {
    for (let times = 0; times < 20; times += 1) {
      const { run } = await fixture.client.exec({
        body: { ...shellCommand("echo out; echo err >&2; exit 3"), background: true },
      });
      await ended(run.runId);
      const [created, started, ...rest] = await typesOf(run.runId);
      expect([created, started]).toEqual(["created", "started"]);
      expect(rest.filter((type) => type !== "progress")).toEqual(["ended"]);
    }
  });

  test("in the background is recorded before it starts, with its start, its progress and its last lines, and sends no notification", async () => {
    const gate = join(place, "exec-gate");
    const { run } = await fixture.client.exec({
      body: {
        ...shellCommand(`echo compiling; while [ ! -e ${gate} ]; do sleep 0.02; done; echo 'all 12 built'`),
        background: true,
      },
    });
    const { task } = await shown(run.runId);
    expect(task).toMatchObject({ runtime: "exec", status: "running", policy: "silent", runId: run.runId });
    expect(task.createdAt).toBeLessThanOrEqual(run.createdAt);
    await waitFor(
      "its progress is known",
      async () => (await shown(run.runId)).task.progress === "compiling",
    );
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

  test("that yields is a task from then on; one that ends before is not", async () => {
    const quick = await fixture.client.exec({ body: shellCommand("true") });
    expect(await errorOf(shown(quick.run.runId))).toMatchObject({ code: "NOT_FOUND" });
    const slow = await fixture.client.exec({
      body: { ...shellCommand("sleep 0.3; exit 3"), yieldMs: 10 },
    });
    expect(slow.running).toBe(true);
    expect(await ended(slow.run.runId)).toMatchObject({ status: "failed", error: "it exited with code 3" });
    expect(await typesOf(slow.run.runId)).toEqual(["created", "started", "ended"]);
  });

  test("that yields while the store cannot be written is answered, and becomes a task when it can", async () => {
    const full = new StateUnusable("/full", "the disk is full");
    const rejected = rejectStatements('insert into "tasks"', full);
    const { run, running } = await fixture.client.exec({
      body: { ...shellCommand("sleep 0.3; echo fine"), yieldMs: 10 },
    });
    expect(running).toBe(true);
    expect(rejected.count()).toBeGreaterThan(0);
    expect(await errorOf(shown(run.runId))).toMatchObject({ code: "NOT_FOUND" });
    rejected.stop();
    await fixture.client.maintainTasks({ body: { apply: true } });
    expect(await ended(run.runId)).toMatchObject({ status: "succeeded", summary: "fine" });
  });

  test.for([
    ["ends while its caller waits", { origin: userOrigin }, "silent", "not_applicable"],
    [
      "ends while its caller waits and has set notify",
      { origin: userOrigin, notify: "done_only" },
      "done_only",
      "delivered",
    ],
    [
      "continues after its caller got an answer (yieldMs)",
      { origin: userOrigin, yieldMs: 10 },
      "done_only",
      "delivered",
    ],
  ] as const)(
    "with a notification target is a task before it starts, one that %s",
    async ([, said, policy, delivery], { task: { id } }) => {
      const gate = join(place, `gate-${id}`);
      const runId = newRunId();
      const script = shellCommand(`while [ ! -e ${gate} ]; do sleep 0.02; done; echo built`);
      const asked = fixture.client.exec({ body: { ...script, runId, yieldMs: 60_000, ...said } });
      await waitFor("it is said to run", async () => {
        const { tasks } = await fixture.client.listTasks({ query: { open: "1" } });
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

  test("that ends when its caller is disconnected sends a notification: that caller has no answer", async () => {
    const [runId, gate] = [newRunId(), join(place, "sent-away")];
    const { supervisor } = fixture.gateway;
    const spawn = supervisor.spawn.bind(supervisor);
    vi.spyOn(supervisor, "spawn").mockImplementationOnce(async (...asked) => {
      const run = await spawn(...asked);
      const read = run.read.bind(run);
      // Between the decision to yield and the answer to the caller.
      vi.spyOn(run, "read").mockImplementationOnce(async (...wanted) => {
        writeFileSync(gate, "");
        await ended(runId);
        return read(...wanted);
      });
      return run;
    });
    const script = shellCommand(`while [ ! -e ${gate} ]; do sleep 0.02; done; echo built`);
    const { running } = await fixture.client.exec({
      body: { ...script, runId, origin: userOrigin, yieldMs: 10 },
    });
    expect(running).toBe(true);
    expect(await told(runId, "delivered")).toMatchObject({ status: "succeeded", policy: "done_only" });
  });

  test("that cannot be started is a failed task; a bad request is no task", async () => {
    const { run, failure } = await fixture.client.exec({
      body: { argv: ["/nowhere"], background: true },
    });
    expect(failure).toBe("not-found");
    expect(await ended(run.runId)).toMatchObject({ status: "failed" });
    const services = await fixture.client.exec({
      body: { argv: ["sleep", "100"], kind: "service", background: true },
    });
    expect(await errorOf(shown(services.run.runId))).toMatchObject({ code: "NOT_FOUND" });
    await fixture.client.kill({ params: { runId: services.run.runId } });
  });

  test("requested twice under one id is one task", async () => {
    const body = { argv: ["true"], background: true, runId: "run_asked0tw1ce0" };
    await fixture.client.exec({ body });
    expect(await errorOf(fixture.client.exec({ body }))).toMatchObject({ code: "RUN_EXISTS" });
    expect(await ended(body.runId)).toMatchObject({ status: "succeeded" });
    const { tasks } = await fixture.client.listTasks({ query: { runtime: "exec" } });
    expect(tasks.filter(({ runId }) => runId === body.runId)).toHaveLength(1);
  });

  test("with the id of another session's run is refused, and gives no access to that run", async () => {
    const { client: thief } = await boss("thief");
    const { run } = await fixture.client.exec({
      body: { argv: ["sleep", "1000"], kind: "service", background: true },
    });
    const { runId } = run;
    const body = { background: true, runId };
    for (const take of [
      () => thief.exec({ body: { ...body, argv: ["true"] } }),
      () => thief.runAgent({ params: { id: "codex" }, body: { ...body, prompt: "hello" } }),
    ])
      expect(await errorOf(take())).toMatchObject({ code: "RUN_EXISTS" });
    expect((await thief.listTasks()).tasks).toEqual([]);
    expect(await errorOf(thief.cancelTask({ params: { id: runId } }))).toMatchObject({ code: "NOT_FOUND" });
    expect(await findProcessesOfRun(runId)).not.toEqual([]);
    await fixture.client.kill({ params: { runId } });
  });

  test("requested again under the id of a refused one is refused: its task has ended", async () => {
    const body = { ...shellCommand("echo fine"), background: true, runId: "run_asked0aga1n0" };
    const wrong = { ...body, env: { HOLDFAST_RUN_ID: "x" } };
    expect(await errorOf(fixture.client.exec({ body: wrong }))).toMatchObject({ code: "BAD_INPUT" });
    expect(await ended(body.runId)).toMatchObject({ status: "failed" });
    expect(await errorOf(fixture.client.exec({ body }))).toMatchObject({ code: "TASK_REFUSED" });
    expect((await shown(body.runId)).run).toBeNull();
  });

  test("cancelled while it starts leaves no process", async () => {
    for (let round = 0; round < 10; round++) {
      const runId = newRunId();
      const starting = fixture.client.exec({
        body: { argv: ["sleep", "1000"], background: true, runId },
      });
      await waitFor("there is something to cancel", () =>
        fixture.client.cancelTask({ params: { id: runId } }).then(
          () => true,
          () => false,
        ),
      );
      await starting.catch(() => undefined);
      expect((await shown(runId)).task).toMatchObject({ status: "cancelled" });
      expect(await findProcessesOfRun(runId)).toEqual([]);
    }
  });

  test("cancelled ends when its processes are proven gone, with one notification, as cancelled", async () => {
    const { run } = await fixture.client.exec({
      body: { ...shellCommand("sleep 1000 & sleep 1000"), background: true, origin: userOrigin },
    });
    const answer = await fixture.client.cancelTask({
      params: { id: run.runId },
      body: { reason: "enough" },
    });
    expect(answer).toMatchObject({
      outcome: "cancelled",
      survivors: [],
      task: { status: "cancelled", error: "it was cancelled by operator (enough)" },
    });
    expect(await findProcessesOfRun(run.runId)).toEqual([]);
    const { taskId } = await told(run.runId, "delivered");
    expect((await fixture.client.cancelTask({ params: { id: taskId } })).outcome).toBe("ended-before");
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

/** Rejects the statements that begin with this text, in whatever transaction, until it is stopped. */
function rejectStatements(start: string, error: Error): { count(): number; stop(): void } {
  const execute = Reflect.get(SqliteConnection.prototype, "execute");
  let rejected = 0;
  const spy = vi.spyOn(SqliteConnection.prototype, "execute").mockImplementation(function <Row>(
    this: SqliteConnection,
    query: CompiledQuery<Row>,
  ) {
    if (!query.sql.startsWith(start)) return execute.call(this, query);
    rejected += 1;
    throw error;
  });
  return { count: () => rejected, stop: () => spy.mockRestore() };
}
