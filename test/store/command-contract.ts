import { describe, expect, test } from "vitest";
import type { NewCommand } from "../../src/store/command-record.js";
import type { Store } from "../../src/store/store.js";
import { event } from "./samples.js";
import type { TestSessionDatabase } from "./session-contract.js";
import { twoSupervisors } from "./two-supervisors.js";

const RUN = "run_000000000001";

export function newCommand(change: Partial<NewCommand> = {}): NewCommand {
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

    test("a command waits for its target, complete, until it is done", async () => {
      expect(await store.insertCommand(newCommand(), [event(RUN)])).toBe(true);
      await store.insertCommand(newCommand({ id: "req_two", target: "st_else", graceMs: null }), []);
      const [found, ...more] = await other.listCommands(["st_there", "in_there"]);
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
      await other.acceptCommand("req_one");
      const accepted = (await store.getCommand("req_one"))?.acceptedAt ?? 0;
      expect(accepted).toBeGreaterThanOrEqual(found?.createdAt ?? Infinity);
      expect(await other.finishCommand("req_one", done, [event(RUN)])).toBe(true);
      expect(await store.getCommand("req_one")).toMatchObject({ ...done, acceptedAt: accepted });
      expect(await other.listCommands(["st_there"])).toEqual([]);
      expect((await other.listCommands(["st_else"]))[0]).toMatchObject({ id: "req_two", graceMs: null });
      expect(await store.getCommand("req_none")).toBeNull();
    });

    test("what waits for a run is found, without what is done, and without what waits for others", async () => {
      for (const id of ["req_one", "req_two", "req_three"]) await store.insertCommand(newCommand({ id }), []);
      await store.insertCommand(newCommand({ id: "req_other", runId: "run_other" }), []);
      await store.finishCommand("req_two", done, []);
      const found = (await other.commandsOf(RUN)).map(({ id }) => id);
      expect(found.toSorted()).toEqual(["req_one", "req_three"]);
      expect(await other.commandsOf("run_none")).toEqual([]);
    });

    test("asked twice it is one command, with one event", async () => {
      const inserted = await Promise.all(
        [store, other, store].map((each) => each.insertCommand(newCommand(), [event(RUN)])),
      );
      expect(inserted.filter(Boolean)).toHaveLength(1);
      expect(await eventsOf()).toBe(1);
    });

    test("it is acknowledged once, with one event, and never changes then", async () => {
      await store.insertCommand(newCommand(), []);
      const gone = { outcome: "gone", survivors: [], error: null } as const;
      const finished = await Promise.all(
        [store, other].map((each) => each.finishCommand("req_one", gone, [event(RUN)])),
      );
      expect(new Set(finished)).toEqual(new Set([false, true]));
      expect(await store.finishCommand("req_one", done, [event(RUN)])).toBe(false);
      await store.acceptCommand("req_one");
      expect(await eventsOf()).toBe(1);
      expect(await store.getCommand("req_one")).toMatchObject({ ...gone, acceptedAt: null });
    });

    test("old ones are forgotten, done or not", async () => {
      await store.insertCommand(newCommand(), []);
      await store.insertCommand(newCommand({ id: "req_two" }), []);
      await store.finishCommand("req_two", done, []);
      expect(await store.forgetCommands(60_000)).toBe(0);
      expect(await store.forgetCommands(-60_000)).toBe(2);
      expect(await store.getCommand("req_one")).toBeNull();
    });
  });
}
