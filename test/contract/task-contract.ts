import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import type { Store } from "../../src/store/store.js";
import type { TaskRecord } from "../../src/model/task.js";
import type { NewTask } from "../../src/store/tasks/contract.js";
import { AT } from "../support/store/session-samples.js";
import { endWithNotification, newTask, PARENT, SUCCEEDED, taskEvent } from "../support/store/task-samples.js";
import { type TestDatabase, twoSupervisors } from "../support/store/test-database.js";

/** The contract of every store for tasks. */
export function taskContract(name: string, createDatabase: () => Promise<TestDatabase<Store>>): void {
  describe(`${name} store of tasks`, () => {
    let store: Store;
    let other: Store;
    twoSupervisors(createDatabase, (opened) => {
      ({ store, other } = opened);
    });

    async function created(change: Partial<NewTask> = {}): Promise<TaskRecord> {
      return (await store.insertTask(newTask(change), [taskEvent("created")])).task;
    }

    test("a created task is read complete, with its first event", async () => {
      const task = newTask();
      const answer = await store.insertTask(task, [taskEvent("created", { by: "ada" })]);
      expect(answer).toEqual({ task: { ...task, seq: 1, version: 1 }, created: true });
      expect(await other.getTask(task.taskId)).toEqual(answer.task);
      expect(await other.getTaskByKey(task.key ?? "")).toEqual(answer.task);
      expect(await other.findTasks(task.taskId.slice(0, 10), 5)).toEqual([answer.task]);
      expect(await other.listTaskEvents(task.taskId)).toEqual([
        { taskId: task.taskId, seq: 1, at: AT, type: "created", data: { by: "ada" } },
      ]);
    });

    test("concurrent creations with one key create one task, and all get it", async () => {
      const all = await Promise.all(
        Array.from({ length: 12 }, (_, at) =>
          (at % 2 === 0 ? store : other).insertTask(newTask({ key: "run:same" }), [taskEvent("created")]),
        ),
      );
      expect(all.filter((answer) => answer.created)).toHaveLength(1);
      expect(new Set(all.map(({ task }) => task.taskId)).size).toBe(1);
      expect(await store.listTasks({ limit: 99 })).toHaveLength(1);
      expect(await store.listTaskEvents(all[0]?.task.taskId ?? "")).toHaveLength(1);
    });

    test("tasks without a key are distinct", async () => {
      await created({ key: null });
      await created({ key: null });
      expect(await store.listTasks({ limit: 9 })).toHaveLength(2);
    });

    test("one of two changes from the same version is written, with its events and messages", async () => {
      const { taskId } = await created();
      const lost = { set: { progress: "lost" }, events: [taskEvent("progress")] };
      const answers = await Promise.all([
        store.commitTask(taskId, 1, endWithNotification(taskId)),
        other.commitTask(taskId, 1, endWithNotification(taskId)),
      ]);
      expect(answers.filter((answer) => answer !== null)).toHaveLength(1);
      expect(await store.commitTask(taskId, 1, lost)).toBeNull();
      expect(await other.getTask(taskId)).toMatchObject({ ...SUCCEEDED, progress: null, seq: 3, version: 2 });
      expect((await other.listTaskEvents(taskId)).map(({ seq, type }) => [seq, type])).toEqual([
        [1, "created"],
        [2, "started"],
        [3, "ended"],
      ]);
      expect(await other.listOutbox({ taskId })).toHaveLength(1);
    });

    test("an end whose messages cannot be written is not written", async () => {
      const { taskId } = await created();
      // The key of a message to a target is unique.
      await expect(
        store.commitTask(taskId, 1, endWithNotification(taskId, [PARENT, PARENT])),
      ).rejects.toThrow();
      expect(await other.getTask(taskId)).toMatchObject({ endedAt: null, version: 1 });
      expect(await other.listTaskEvents(taskId)).toHaveLength(1);
      expect(await other.listOutbox({ taskId })).toEqual([]);
    });

    test("an ended task never changes; late events can still be recorded", async () => {
      const { taskId } = await created();
      await store.commitTask(taskId, 1, endWithNotification(taskId));
      const again = { set: { status: "failed", outcome: null, endedAt: AT + 9 } } as const;
      await expect(store.commitTask(taskId, 2, again)).rejects.toThrow(/never changes/);
      await expect(store.commitTask(taskId, 2, { set: { summary: "else" } })).rejects.toThrow(/never/);
      const noted = await store.commitTask(taskId, 2, { events: [taskEvent("refused", { why: "ended" })] });
      expect(noted).toMatchObject({ ...SUCCEEDED, version: 3, seq: 4 });
    });

    test("of a long history, the first, last and newest events are kept", async () => {
      const { taskId, ...first } = await created();
      let { version } = first;
      const say = async (...events: ReturnType<typeof taskEvent>[]): Promise<void> => {
        version = (await store.commitTask(taskId, version, { events }))?.version ?? expect.fail("refused");
      };
      await say(taskEvent("started"));
      const many = Array.from({ length: defaults.taskEventsKept }, (_, n) => taskEvent("progress", { n }));
      await say(...many);
      await store.commitTask(taskId, version, endWithNotification(taskId));
      version += 1;
      for (let n = 0; n < 3; n += 1) await say(...many);
      const kept = await other.listTaskEvents(taskId);
      expect(kept.length).toBeLessThanOrEqual(defaults.taskEventsKept + 4);
      expect(kept.map(({ type }) => type).filter((type) => type !== "progress")).toEqual([
        "created",
        "started",
        "started",
        "ended",
      ]);
      expect(kept.at(-1)).toMatchObject({ data: { n: defaults.taskEventsKept - 1 } });
    });

    test("lists are newest first, page by page, by status, runtime, session, run and delivery", async () => {
      const make = (at: number, change: Partial<NewTask> = {}): Promise<TaskRecord> =>
        created({ createdAt: AT + at, childSessionId: null, ownerSessionId: null, ...change });
      const tasks = [
        await make(1, { runtime: "acp", childSessionId: "ses_a" }),
        await make(2, { ownerSessionId: "ses_a" }),
        await make(2, { ownerSessionId: "ses_a", childSessionId: "ses_a", delivery: "failed" }),
        await make(3),
        await make(4),
      ];
      const ids = tasks
        .toSorted((a, b) => b.createdAt - a.createdAt || (a.taskId < b.taskId ? 1 : -1))
        .map(({ taskId }) => taskId);
      const list = async (filter: Partial<Parameters<Store["listTasks"]>[0]>): Promise<string[]> =>
        (await other.listTasks({ limit: 99, ...filter })).map(({ taskId }) => taskId);
      expect(await list({})).toEqual(ids);
      const paged: string[] = [];
      for (let page = await other.listTasks({ limit: 2 }); page.length > 0;) {
        paged.push(...page.map(({ taskId }) => taskId));
        page = await other.listTasks({ limit: 2, after: page.at(-1) ?? expect.fail("none") });
      }
      expect(paged).toEqual(ids);
      const [first, second, third, fourth] = tasks.map(({ taskId }) => taskId);
      expect(await list({ runtimes: ["acp"] })).toEqual([first]);
      expect(new Set(await list({ sessionId: "ses_a" }))).toEqual(new Set([first, second, third]));
      expect(await list({ sessionId: "ses_a", limit: 2 })).toEqual(ids.slice(2, 4));
      expect(await list({ childSessionId: "ses_a" })).toEqual([third, first]);
      expect(await list({ deliveries: ["failed"] })).toEqual([third]);
      expect(await list({ runId: tasks[3]?.runId ?? "" })).toEqual([fourth]);
      await store.commitTask(fourth ?? "", 1, endWithNotification(fourth ?? ""));
      expect(await list({ statuses: ["succeeded", "lost"] })).toEqual([fourth]);
      expect(await list({ open: false })).toEqual([fourth]);
      expect(await list({ open: true })).toHaveLength(4);
      expect(await list({ cleanupBefore: AT + 100 })).toEqual([]);
      expect(await list({ cleanupBefore: AT + 101 })).toEqual([fourth]);
      const beyond = { createdAt: AT + 4, taskId: "" };
      expect(await list({ cleanupBefore: AT + 101, after: beyond })).toEqual([fourth]);
      expect(await list({ cleanupBefore: AT + 101, after: { ...beyond, createdAt: AT + 3 } })).toEqual([]);
    });

    test("only ended tasks without pending messages are deleted, with all of their records", async () => {
      const { taskId } = await created();
      const { taskId: open } = newTask();
      await store.insertTask(newTask({ taskId: open, delivery: "not_applicable" }), [taskEvent("created")]);
      await store.commitTask(taskId, 1, endWithNotification(taskId));
      const settled = async (status: "parent_missing" | "session_queued"): Promise<void> => {
        for (const entry of await store.claimOutbox({ owner: "a", limit: 9, leaseMs: 9_000 }))
          await store.settleOutbox(entry, { status, at: AT });
      };
      await settled("parent_missing");
      // An operator retries the message after a sweep found the task old.
      await other.retryOutbox(taskId, taskEvent("retried"));
      expect(await store.deleteTasks([taskId, open])).toBe(0);
      expect(await other.listOutbox({})).toHaveLength(1);
      await settled("session_queued");
      expect(await store.deleteTasks([taskId, open, "none"])).toBe(1);
      expect(await store.deleteTasks([])).toBe(0);
      expect(await other.getTask(taskId)).toBeNull();
      expect(await other.listTaskEvents(taskId)).toEqual([]);
      expect(await other.listOutbox({})).toEqual([]);
      expect(await other.getTask(open)).not.toBeNull();
    });
  });
}
