import { setImmediate as nextTurn } from "node:timers/promises";
import { beforeEach, describe, expect, test } from "vitest";
import { LeaseLost } from "../../src/errors.js";
import type { Lease } from "../../src/store/runs/contract.js";
import type { Store } from "../../src/store/store.js";
import { EXITED, LEASE_MS, newRun, newRunEvent, RUNNING, stealClaim } from "../support/store/run-samples.js";
import { endWithNotification, newTask, PARENT, SUCCEEDED, taskEvent } from "../support/store/task-samples.js";
import { type TestDatabase, twoSupervisors } from "../support/store/test-database.js";

/** More than one group, whatever the size of the groups. */
const CALLS = 40;

/** The contract of every store for writes at the same time, which may share a transaction. */
export function groupContract(name: string, createDatabase: () => Promise<TestDatabase<Store>>): void {
  describe(`${name} store under concurrent writes`, () => {
    let store: Store;
    let other: Store;
    let leases: readonly Lease[];
    twoSupervisors(createDatabase, (opened) => {
      ({ store, other } = opened);
    });
    beforeEach(async () => {
      const runs = Array.from({ length: CALLS }, () => newRun());
      leases = await Promise.all(
        runs.map((run, at) => store.insertRun(run, LEASE_MS, at % 2 === 0 ? [newRunEvent(run.runId)] : [])),
      );
    });

    async function statesOf(which: readonly Lease[]): Promise<ReadonlySet<string>> {
      const runs = await other.listRuns({ runIds: which.map(({ runId }) => runId) });
      expect(runs).toHaveLength(which.length);
      return new Set(runs.map(({ state }) => state));
    }

    test("of many steps at once, a stolen lease and a record that does not exist fail only their own", async () => {
      const [stolen, missing, ...rest] = leases;
      if (stolen === undefined || missing === undefined) throw new Error("too few runs");
      await other.acquireLease(stealClaim(stolen, "thief", null));
      const unknown = { ...missing, runId: "run_unknown" };
      for (const change of [RUNNING, EXITED]) {
        const answers = await Promise.allSettled(
          [...rest.slice(0, 10), stolen, unknown, ...rest.slice(10)].map((lease) =>
            store.saveRun(lease, change, [newRunEvent(lease.runId), newRunEvent(lease.runId)]),
          ),
        );
        const failed = answers.flatMap((answer) =>
          answer.status === "rejected" ? [answer.reason as unknown] : [],
        );
        expect(failed).toEqual([expect.any(LeaseLost), expect.any(LeaseLost)]);
        expect(answers.filter((each) => each.status === "fulfilled" && each.value)).toHaveLength(rest.length);
      }
      expect(await statesOf(rest)).toEqual(new Set(["exited"]));
      expect(await statesOf([stolen, missing])).toEqual(new Set(["starting"]));
      const events = await other.listEvents({});
      for (const { runId } of rest)
        expect(events.filter((event) => event.runId === runId).length).toBeGreaterThanOrEqual(4);
      expect(events.filter(({ runId }) => runId === unknown.runId)).toEqual([]);
    });

    test("of many ends at once, of two for one run only one is written", async () => {
      const answers = await Promise.all(
        [...leases, ...leases].map((lease) => store.saveRun(lease, EXITED, [newRunEvent(lease.runId)])),
      );
      expect(answers.filter(Boolean)).toHaveLength(CALLS);
      const events = await other.listEvents({});
      for (const [at, { runId }] of leases.entries())
        expect(events.filter((event) => event.runId === runId)).toHaveLength(at % 2 === 0 ? 2 : 1);
    });

    test("of many changes of tasks at once, those that cannot be written fail alone and write nothing", async () => {
      const tasks = Array.from({ length: CALLS }, () => newTask());
      const created = await Promise.all(
        tasks.map((task, at) =>
          store.insertTask(at === 7 ? { ...task, key: tasks[0]?.key ?? "" } : task, [taskEvent("created")]),
        ),
      );
      expect(created.map((answer) => answer.created)).toEqual(tasks.map((_, at) => at !== 7));
      const answers = await Promise.allSettled(
        created.map(({ task: { taskId } }, at) =>
          // One change has two messages with one key, one has an old version, and one is a repetition.
          store.commitTask(
            taskId,
            at === 3 ? 9 : 1,
            endWithNotification(taskId, at === 5 ? [PARENT, PARENT] : [PARENT]),
          ),
        ),
      );
      for (const [at, answer] of answers.entries())
        if (at === 5) expect(answer.status).toBe("rejected");
        else if (at !== 0 && at !== 7)
          expect(answer).toMatchObject({ status: "fulfilled", value: at === 3 ? null : SUCCEEDED });
      const ofOne = [answers[0], answers[7]].map(
        (each) => each?.status === "fulfilled" && each.value !== null,
      );
      expect(ofOne.filter(Boolean)).toHaveLength(1);
      for (const [at, { taskId }] of tasks.entries()) {
        if (at === 7) continue;
        const open = at === 3 || at === 5;
        expect(await other.listTaskEvents(taskId)).toHaveLength(open ? 1 : 3);
        expect(await other.listOutbox({ taskId })).toHaveLength(open ? 0 : 1);
      }
    });

    test("a reader that follows the events misses none of those that are written at once", async () => {
      const seen: number[] = [];
      let after = 0;
      let done = false;
      const follow = async (): Promise<void> => {
        for (;;) {
          const last = done;
          // Reads of a file resolve without leaving this turn of the event loop.
          await nextTurn();
          const page = await other.listEvents({ after, limit: 7 });
          for (const { seq } of page) seen.push(seq);
          after = page.at(-1)?.seq ?? after;
          if (last && page.length === 0) return;
        }
      };
      const following = follow();
      for (const change of [RUNNING, EXITED])
        await Promise.all(
          leases.map((lease, at) =>
            (at % 2 === 0 ? store : other).saveRun(lease, change, [newRunEvent(lease.runId, at)]),
          ),
        );
      done = true;
      await following;
      expect(seen).toEqual((await other.listEvents({})).map(({ seq }) => seq));
      expect(seen).toHaveLength(CALLS / 2 + 2 * CALLS);
    });
  });
}
