import { describe, expect, test } from "vitest";
import type { NewRemoteStop } from "../../src/model/gateway.js";
import type { Store } from "../../src/store/store.js";
import { newRunEvent } from "../support/store/run-samples.js";
import type { TestSessionDatabase } from "./session-contract.js";
import { twoSupervisors } from "./two-supervisors.js";

const RUN = "run_000000000001";

export function newCommand(change: Partial<NewRemoteStop> = {}): NewRemoteStop {
  return {
    id: "req_one",
    runId: RUN,
    target: "st_there",
    kind: "stop",
    actor: "operator (enough)",
    graceMs: 1_500,
    handedOverBy: "in_here",
    ...change,
  };
}

const done = {
  outcome: "survivors",
  survivors: [{ pid: 7, startTime: 8, kind: "unkillable", command: "dd" }],
  error: "a sentence",
} as const;

/** What every store promises of what gateways hand to each other, whatever the database. */
export function commandContract(name: string, createDatabase: () => Promise<TestSessionDatabase>): void {
  describe(`${name} store`, () => {
    let store: Store;
    let other: Store;

    twoSupervisors(createDatabase, (opened) => {
      ({ store, other } = opened);
    });

    const eventsOf = async (): Promise<number> => (await store.listEvents({ runId: RUN })).length;

    test("a remote stop waits for its target until it is done", async () => {
      expect(await store.insertRemoteStop(newCommand(), [newRunEvent(RUN)])).toBe(true);
      await store.insertRemoteStop(newCommand({ id: "req_two", target: "st_else", graceMs: null }), []);
      const [found, ...more] = await other.listRemoteStops(["st_there", "in_there"]);
      expect(more).toEqual([]);
      expect(found).toEqual({
        ...newCommand(),
        createdAt: expect.any(Number) as number,
        acceptedAt: null,
        doneAt: null,
        outcome: null,
        survivors: [],
        error: null,
      });
      await other.acceptRemoteStop("req_one");
      const accepted = (await store.getRemoteStop("req_one"))?.acceptedAt ?? 0;
      expect(accepted).toBeGreaterThanOrEqual(found?.createdAt ?? Infinity);
      expect(await other.finishRemoteStop("req_one", done, [newRunEvent(RUN)])).toBe(true);
      expect(await store.getRemoteStop("req_one")).toMatchObject({ ...done, acceptedAt: accepted });
      expect(await other.listRemoteStops(["st_there"])).toEqual([]);
      expect((await other.listRemoteStops(["st_else"]))[0]).toMatchObject({ id: "req_two", graceMs: null });
      expect(await store.getRemoteStop("req_none")).toBeNull();
    });

    test("open remote stops of a run are found, without done ones and those of other runs", async () => {
      for (const id of ["req_one", "req_two", "req_three"])
        await store.insertRemoteStop(newCommand({ id }), []);
      await store.insertRemoteStop(newCommand({ id: "req_other", runId: "run_other" }), []);
      await store.finishRemoteStop("req_two", done, []);
      const found = (await other.listRemoteStopsOfRun(RUN)).map(({ id }) => id);
      expect(found.toSorted()).toEqual(["req_one", "req_three"]);
      expect(await other.listRemoteStopsOfRun("run_none")).toEqual([]);
    });

    test("a repeated request is one remote stop with one event", async () => {
      const inserted = await Promise.all(
        [store, other, store].map((each) => each.insertRemoteStop(newCommand(), [newRunEvent(RUN)])),
      );
      expect(inserted.filter(Boolean)).toHaveLength(1);
      expect(await eventsOf()).toBe(1);
    });

    test("a remote stop is finished once, with one event, and never changes afterwards", async () => {
      await store.insertRemoteStop(newCommand(), []);
      const gone = { outcome: "gone", survivors: [], error: null } as const;
      const finished = await Promise.all(
        [store, other].map((each) => each.finishRemoteStop("req_one", gone, [newRunEvent(RUN)])),
      );
      expect(new Set(finished)).toEqual(new Set([false, true]));
      expect(await store.finishRemoteStop("req_one", done, [newRunEvent(RUN)])).toBe(false);
      await store.acceptRemoteStop("req_one");
      expect(await eventsOf()).toBe(1);
      expect(await store.getRemoteStop("req_one")).toMatchObject({ ...gone, acceptedAt: null });
    });

    test("old remote stops are deleted, done or not", async () => {
      await store.insertRemoteStop(newCommand(), []);
      await store.insertRemoteStop(newCommand({ id: "req_two" }), []);
      await store.finishRemoteStop("req_two", done, []);
      expect(await store.deleteRemoteStops(60_000)).toBe(0);
      expect(await store.deleteRemoteStops(-60_000)).toBe(2);
      expect(await store.getRemoteStop("req_one")).toBeNull();
    });
  });
}
