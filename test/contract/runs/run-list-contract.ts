import { describe, expect, test } from "vitest";
import { OPEN_RUN_STATES } from "../../../src/model/run.js";
import type { RunStore } from "../../../src/store/runs/contract.js";
import { LEASE_MS, newRunEvent, EXITED, newRun, RUNNING } from "../../support/store/run-samples.js";
import { type TestDatabase, twoSupervisors } from "../../support/store/test-database.js";

/** The contract of every store for finding, counting and forgetting runs and their events. */
export function runListContract(name: string, createDatabase: () => Promise<TestDatabase>): void {
  describe(`${name} store`, () => {
    let database: TestDatabase;
    let store: RunStore;
    let other: RunStore;
    twoSupervisors(createDatabase, (opened) => {
      ({ database, store, other } = opened);
    });

    test("only ended runs are deleted, with their events, the oldest end first", async () => {
      const ended = await Promise.all(
        [5, 3, 4].map(() => store.insertRun(newRun({ createdAt: 1 }), LEASE_MS)),
      );
      for (const [at, lease] of ended.entries())
        await store.saveRun(lease, { ...EXITED, at: [5, 3, 4][at] ?? 0 }, [newRunEvent(lease.runId)]);
      const live = await store.insertRun(newRun(), LEASE_MS, [newRunEvent("live")]);
      expect(await store.countEndedRuns()).toBe(3);
      const old = (await other.listRuns({ endedBefore: 5 })).map(({ endedAt }) => endedAt);
      expect(old).toEqual([3, 4]);
      const ids = [...ended.slice(0, 2), live].map(({ runId }) => runId);
      expect(await store.deleteRuns([...ids, "no such run"])).toBe(2);
      expect(await other.getRun(live.runId)).toMatchObject({ state: "starting" });
      expect(await other.listRuns({ states: ["exited"] })).toHaveLength(1);
      expect((await other.listEvents({})).map(({ runId }) => runId)).toEqual([ended[2]?.runId, "live"]);
      expect(await store.deleteRuns([])).toBe(0);
    });

    test("ended runs are listed and counted by state directory, and without those of some instances", async () => {
      const ended = async (stateId: string | null, originInstanceId: string): Promise<string> => {
        const lease = await store.insertRun(newRun({ stateId, originInstanceId }), LEASE_MS);
        await store.saveRun(lease, EXITED);
        return lease.runId;
      };
      const here = await ended("state", "in_a");
      await ended("state", "in_b");
      await ended("another", "in_a");
      // Records without a state id belong to the state directory of their instance.
      const unsaid = await ended(null, "in_a");
      await ended(null, "in_c");
      const ofState = { stateId: "state", instanceIds: ["in_a", "in_b"] };
      for (const [filter, count] of [
        [{ ofState }, 3],
        [{ ofState: { stateId: "state", instanceIds: [] } }, 2],
        [{ ofState: { stateId: null, instanceIds: ["in_c"] } }, 1],
        [{ notFrom: ["in_b"] }, 4],
        [{ notFrom: [] }, 5],
      ] as const) {
        expect(await store.countEndedRuns(filter)).toBe(count);
        expect(await store.listRuns(filter)).toHaveLength(count);
      }
      const both = { ofState, notFrom: ["in_b"], endedBefore: Number.MAX_SAFE_INTEGER };
      const found = (await other.listRuns(both)).map(({ runId }) => runId);
      expect(found.toSorted()).toEqual([here, unsaid].toSorted());
    });

    test("events belong to the state directory of their run, whatever instance writes them", async () => {
      for (const stateId of ["one", "two", null]) {
        const runId = `run_${stateId}`;
        const lease = await store.insertRun(newRun({ stateId, runId }), LEASE_MS, [newRunEvent(runId, 1)]);
        await store.saveRun(lease, EXITED, [newRunEvent(runId, 2)]);
      }
      await other.appendEvents([
        newRunEvent("run_one", 3),
        newRunEvent("run_two", 3),
        newRunEvent("run_gone", 3),
      ]);
      const of = async (stateId: string, page = {}): Promise<string[]> =>
        (await other.listEvents({ stateId, ...page })).map(({ runId, at }) => `${runId} ${at}`);
      expect(await of("one")).toEqual(["run_one 1", "run_one 2", "run_one 3"]);
      expect(await of("two", { newestFirst: true, limit: 1 })).toEqual(["run_two 3"]);
      expect(await of("three")).toEqual([]);
    });

    test("lists that differ in one part of their filter differ in their runs", async () => {
      const ids: string[] = [];
      for (const createdAt of [1, 2, 3, 4]) {
        const lease = await store.insertRun(newRun({ createdAt, agentId: `agent ${createdAt}` }), LEASE_MS);
        ids.unshift(lease.runId);
        if (createdAt === 2) await store.saveRun(lease, EXITED);
        if (createdAt === 3) await store.hideRuns([lease.runId], 9);
      }
      const [newest = "", hidden = "", ended = "", oldest = ""] = ids;
      const open = { states: OPEN_RUN_STATES };
      for (const [filter, expected] of [
        [{}, ids],
        [{ limit: 1 }, [newest]],
        [{ limit: 3 }, [newest, hidden, ended]],
        [open, [newest, hidden, oldest]],
        [{ ...open, limit: 2 }, [newest, hidden]],
        [{ ...open, hidden: false }, [newest, oldest]],
        [{ ...open, hidden: false, limit: 1 }, [newest]],
        [{ hidden: false, maxBytes: 1_000_000 }, [newest, ended, oldest]],
        [{ hidden: false, maxBytes: 1, limit: 2 }, [newest]],
        [{ withoutLabels: true, limit: 2 }, [newest, hidden]],
        [{ ...open, agentId: "agent 1" }, [oldest]],
        [{ states: ["exited"], limit: 2 }, [ended]],
      ] as const) {
        const found = await other.listRuns(filter);
        expect({ filter, found: found.map(({ runId }) => runId) }).toEqual({ filter, found: expected });
      }
    });

    test("runs and their events are found by host", async () => {
      for (const hostId of ["one", "two", "three"]) {
        const runId = `run_${hostId}`;
        await store.insertRun(newRun({ hostId, runId }), LEASE_MS, [newRunEvent(runId)]);
      }
      const hostIds = ["one", "three"];
      const found = (await other.listRuns({ hostIds })).map(({ runId }) => runId).toSorted();
      expect(found).toEqual(["run_one", "run_three"]);
      expect((await other.listEvents({ hostIds })).map(({ runId }) => runId)).toEqual([
        "run_one",
        "run_three",
      ]);
      expect(await other.listRuns({ hostIds: [] })).toEqual([]);
      expect(await other.listEvents({ hostIds: [] })).toEqual([]);
    });

    test("hidden runs are omitted on request; nothing else of them changes", async () => {
      const live = await store.insertRun(newRun(), LEASE_MS);
      const ended = await store.insertRun(newRun(), LEASE_MS);
      const shown = await store.insertRun(newRun(), LEASE_MS);
      await store.saveRun(ended, EXITED);
      const before = await Promise.all([live, ended].map(({ runId }) => store.getRun(runId)));
      expect(await other.hideRuns([live.runId, ended.runId, "no such run"], 7)).toBe(2);
      // The first time stays.
      expect(await store.hideRuns([live.runId, ended.runId], 9)).toBe(0);
      const after = await Promise.all([live, ended].map(({ runId }) => store.getRun(runId)));
      expect(after).toEqual(before.map((record) => ({ ...record, hiddenAt: 7 })));
      expect((await store.listRuns({ hidden: false })).map(({ runId }) => runId)).toEqual([shown.runId]);
      expect(await store.listRuns({})).toHaveLength(3);
      // Its owner continues, and it ends like any other.
      await store.saveRun(live, EXITED);
      expect(await store.getRun(live.runId)).toMatchObject({ state: "exited", hiddenAt: 7 });
    });

    test("ten thousand events are written in one call", async () => {
      await store.appendEvents(Array.from({ length: 10_000 }, (_, at) => newRunEvent("r", at)));
      expect((await other.listEvents({ newestFirst: true, limit: 1 }))[0]?.at).toBe(9_999);
    });

    test("runs are found by a prefix of their id", async () => {
      for (const runId of ["ab1", "ab2", "ab%", "ac1", "b"])
        await store.insertRun(newRun({ runId }), LEASE_MS);
      const found = async (prefix: string, limit = 10): Promise<string[]> =>
        (await store.findRuns(prefix, limit)).map(({ runId }) => runId).toSorted();
      expect(await found("ab")).toEqual(["ab%", "ab1", "ab2"]);
      expect(await found("ab%")).toEqual(["ab%"]);
      expect(await found("ab_")).toEqual([]);
      expect(await found("", 2)).toHaveLength(2);
    });

    test("runs are listed newest first, by state, owner, session, agent and every label given", async () => {
      await store.insertRun(
        newRun({ runId: "old", createdAt: 1, sessionId: "ses_2", labels: { a: "1", b: "2" } }),
        LEASE_MS,
      );
      await store.insertRun(newRun({ runId: "new", createdAt: 3, labels: { a: "1" } }), LEASE_MS);
      const strange = { 'k"e.y$[0]': "it's" };
      const lease = await store.insertRun(
        newRun({
          runId: "mid",
          createdAt: 2,
          ownerInstanceId: "owner-b",
          agentId: "agent-2",
          labels: strange,
        }),
        LEASE_MS,
      );
      await store.saveRun(lease, RUNNING);
      const list = async (filter: Parameters<RunStore["listRuns"]>[0]): Promise<string[]> =>
        (await store.listRuns(filter)).map(({ runId }) => runId);
      expect(await list({})).toEqual(["new", "mid", "old"]);
      expect(await list({ limit: 2 })).toEqual(["new", "mid"]);
      expect(await list({ states: ["starting"] })).toEqual(["new", "old"]);
      expect(await list({ states: ["running", "exited"] })).toEqual(["mid"]);
      expect(await list({ states: [] })).toEqual([]);
      expect(await list({ ownerInstanceId: "owner-b" })).toEqual(["mid"]);
      expect(await list({ labels: { a: "1" } })).toEqual(["new", "old"]);
      expect(await list({ labels: { a: "1", b: "2" } })).toEqual(["old"]);
      expect(await list({ labels: strange })).toEqual(["mid"]);
      expect(await list({ labels: { a: "2" } })).toEqual([]);
      expect(await list({ sessionKey: "session-1", agentId: "agent-2" })).toEqual(["mid"]);
      expect(await list({ sessionKey: "session-1", sessionId: "ses_2" })).toEqual(["old"]);
    });

    test("events are read oldest or newest first, after a cursor, of one run, in pages", async () => {
      await store.appendEvents([newRunEvent("r1"), newRunEvent("r2"), newRunEvent("r1")]);
      await other.appendEvents([newRunEvent("r3")]);
      const all = await store.listEvents({});
      expect(all.map(({ runId }) => runId)).toEqual(["r1", "r2", "r1", "r3"]);
      expect(all.map(({ seq }) => seq)).toEqual(all.map(({ seq }) => seq).toSorted((a, b) => a - b));
      expect(await store.listEvents({ after: all[1]?.seq ?? 0 })).toEqual(all.slice(2));
      expect(await store.listEvents({ runId: "r1", limit: 1 })).toEqual(all.slice(0, 1));
      expect(await store.listEvents({ after: all[3]?.seq ?? 0 })).toEqual([]);
      expect(await store.listEvents({ newestFirst: true, limit: 2 })).toEqual([all[3], all[2]]);
    });

    test("events are bounded: the oldest are deleted, and no number is used twice", async () => {
      const kept = 100;
      const small = await database.open({ eventsKept: kept });
      const seen = new Set<number>();
      let last = 0;
      for (let round = 0; round < 120; round += 1) {
        await small.appendEvents([
          newRunEvent(`r${round}`),
          newRunEvent(`r${round}`),
          newRunEvent(`r${round}`),
        ]);
        for (const { seq } of await small.listEvents({ after: last })) {
          expect(seq).toBeGreaterThan(last);
          seen.add(seq);
          last = seq;
        }
      }
      const left = await small.listEvents({});
      expect(seen.size).toBe(360);
      expect(left.length).toBeLessThanOrEqual(kept);
      expect(left.length).toBeGreaterThan(kept * 0.9);
      expect(left.at(-1)?.seq).toBe(last);
      await small[Symbol.asyncDispose]();
    });

    test("many short-lived supervisors keep the events bounded together", async () => {
      for (let round = 0; round < 30; round += 1) {
        const brief = await database.open({ eventsKept: 10 });
        await brief.appendEvents([newRunEvent(`r${round}`)]);
        await brief[Symbol.asyncDispose]();
      }
      expect((await store.listEvents({})).length).toBeLessThanOrEqual(10);
    });
  });
}
