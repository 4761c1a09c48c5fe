import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LeaseLost, RunExists } from "../../../src/errors.js";
import type { RunRecord } from "../../../src/model/run.js";
import { applyRunChange, newRunRecord } from "../../../src/store/runs/apply-change.js";
import type { RunChange, RunStore } from "../../../src/store/runs/contract.js";
import { leaseContract } from "./lease-contract.js";
import { runListContract } from "./run-list-contract.js";
import {
  LEASE_MS,
  newRunEvent,
  EXITED,
  EXITING,
  GATED,
  ownClaim,
  newRun,
  RUNNING,
  stealClaim,
} from "../../support/store/run-samples.js";
import { type TestDatabase, twoSupervisors } from "../../support/store/test-database.js";

/** The contract of every store for runs. */
export function runContract(name: string, createDatabase: () => Promise<TestDatabase>): void {
  runRecordContract(name, createDatabase);
  leaseContract(name, createDatabase);
  runListContract(name, createDatabase);
}

/** Records, and the steps that change them. */
function runRecordContract(name: string, createDatabase: () => Promise<TestDatabase>): void {
  describe(`${name} store`, () => {
    let database: TestDatabase;
    let store: RunStore;
    let other: RunStore;
    twoSupervisors(createDatabase, (opened) => {
      ({ database, store, other } = opened);
    });

    test("an inserted record is read complete by every supervisor", async () => {
      const run = newRun();
      const before = await store.now();
      expect(await store.insertRun(run, LEASE_MS)).toEqual({
        runId: run.runId,
        ownerInstanceId: "owner-a",
        epoch: 1,
      });
      const record = (await other.getRun(run.runId)) ?? expect.fail("no record");
      expect(record.leaseExpiresAt - before).toBeGreaterThanOrEqual(LEASE_MS);
      expect(record.leaseExpiresAt - (await other.now())).toBeLessThanOrEqual(LEASE_MS);
      expect(record).toEqual(newRunRecord(run, record.leaseExpiresAt));
    });

    test("a run that never started ends no earlier than it was created", async () => {
      const run = newRun({ createdAt: RUNNING.at });
      const lease = await store.insertRun(run, -1);
      const early = { ...EXITED, at: RUNNING.at - 5_000 };
      await store.acquireAndFinalizeRun(stealClaim(lease, "owner-b"), early);
      expect(await other.getRun(run.runId)).toMatchObject({ startedAt: null, endedAt: run.createdAt });
    });

    test("a run id is recorded once; the second insert changes nothing", async () => {
      const run = newRun();
      await store.insertRun(run, LEASE_MS);
      const record = await store.getRun(run.runId);
      const twice = other.insertRun({ ...run, command: "another" }, LEASE_MS, [newRunEvent(run.runId)]);
      await expect(twice).rejects.toBeInstanceOf(RunExists);
      expect(await store.getRun(run.runId)).toEqual(record);
      expect(await store.listEvents({})).toEqual([]);
    });

    test("a step and its events are one: a refused step leaves no event", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS, [newRunEvent("inserted")]);
      await store.saveRun(lease, RUNNING, [newRunEvent("running")]);
      await expect(
        store.saveRun({ ...lease, epoch: 9 }, EXITING, [newRunEvent("stale")]),
      ).rejects.toBeInstanceOf(LeaseLost);
      await store.saveRun(lease, EXITED, [newRunEvent("exited")]);
      expect(await store.saveRun(lease, EXITED, [newRunEvent("again")])).toBe(false);
      const events = await other.listEvents({});
      expect(events.map(({ runId }) => runId)).toEqual(["inserted", "running", "exited"]);
    });

    test("the end of a run returns the stored record, also of an earlier end, and is refused under a stale epoch", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      await expect(store.finalizeRun({ ...lease, epoch: 9 }, EXITED)).rejects.toBeInstanceOf(LeaseLost);
      const ended = await store.finalizeRun(lease, EXITED, [newRunEvent("exited")]);
      expect(ended.state).toBe("exited");
      expect(await other.getRun(lease.runId)).toEqual(ended);
      const later = { ...EXITED, at: EXITED.at + 1 };
      for (const stale of [lease, { ...lease, epoch: 9 }])
        expect(await other.finalizeRun(stale, later, [newRunEvent("again")])).toEqual(ended);
      await expect(store.finalizeRun({ ...lease, runId: "none" }, EXITED)).rejects.toBeInstanceOf(LeaseLost);
      expect((await other.listEvents({})).map(({ runId }) => runId)).toEqual(["exited"]);
    });

    test("an event is read as it was written", async () => {
      const data = { residue: [{ pid: 1, kind: "detached", command: "x" }] };
      const written = { type: "escape", runId: "r", at: 5, rootPid: null, descendants: 0, data } as const;
      await store.appendEvents([written]);
      const [read] = await store.listEvents({});
      expect(read).toEqual({ ...written, seq: expect.any(Number) });
    });

    test("a missing or older record is restored; an ended one or one with a newer owner stays", async () => {
      const run = newRun({ leaseEpoch: 3, service: { port: 80, readyAt: 5 } });
      const lease = await store.insertRun(run, LEASE_MS);
      for (const step of [GATED, RUNNING]) await store.saveRun(lease, step);
      const open = (await store.getRun(run.runId)) ?? expect.fail("no record");
      await store.saveRun(lease, EXITED);
      const ended = (await store.getRun(run.runId)) ?? expect.fail("no record");
      const without = (record: RunRecord) => ({ ...record, leaseExpiresAt: 0 });
      const known = async () => without((await other.getRun(run.runId)) ?? expect.fail("no record"));

      // An end is never undone.
      expect(await store.restoreRun({ ...open, leaseEpoch: 9 }, LEASE_MS, [newRunEvent(run.runId)])).toBe(
        false,
      );
      expect(await known()).toEqual(without(ended));
      await store.deleteRuns([run.runId]);
      expect(await store.restoreRun(open, LEASE_MS, [newRunEvent(run.runId)])).toBe(true);
      expect(await known()).toEqual(without(open));
      expect((await store.listEvents({ runId: run.runId })).length).toBe(1);
      // Under its own epoch, with a fresh lease.
      expect(await store.renewLeases("owner-a", LEASE_MS)).toBe(1);
      expect(await store.acquireLease(stealClaim(lease, "owner-b"))).toBeNull();

      const newer = { ...open, leaseEpoch: 2, ownerInstanceId: "owner-b" };
      expect(await store.restoreRun(newer, LEASE_MS, [newRunEvent(run.runId)])).toBe(false);
      expect(await store.restoreRun(ended, 0, [newRunEvent(run.runId)])).toBe(true);
      expect(await known()).toEqual(without(ended));
      expect((await store.listEvents({ runId: run.runId })).length).toBe(2);
      expect(await store.listRuns({ runIds: [run.runId, "another"] })).toHaveLength(1);
      expect(await store.listRuns({ runIds: [] })).toEqual([]);
    });

    test("concurrent calls do not interleave", async () => {
      const leases = await Promise.all(Array.from({ length: 50 }, () => store.insertRun(newRun(), LEASE_MS)));
      // The order of concurrent calls is not defined.
      const written = await Promise.all(
        leases.flatMap((lease) => [
          store.saveRun(lease, GATED, [newRunEvent(lease.runId)]),
          store.saveRun(lease, EXITED, [newRunEvent(lease.runId)]),
          store.getRun(lease.runId).then(() => false),
          store.saveRun({ ...lease, epoch: 0 }, RUNNING, [newRunEvent("stale")]).catch(() => false),
        ]),
      );
      expect(await store.listRuns({ states: ["exited"] })).toHaveLength(50);
      expect(await store.listEvents({})).toHaveLength(written.filter(Boolean).length);
      expect(await store.listEvents({ runId: "stale" })).toEqual([]);
    });

    test("any sequence of changes has the result of applyRunChange, and none changes a run that has ended", async () => {
      const at = fc.integer({ min: -1_000, max: 1_000 }).map((ms) => RUNNING.at + ms);
      const service = fc.record({ port: fc.constantFrom(null, 3000), readyAt: fc.constantFrom(null, 77) });
      const { deadlines, policy } = newRun();
      const step: fc.Arbitrary<RunChange> = fc.oneof(
        fc.constantFrom(GATED, { ...GATED, to: "weaker" } as const),
        fc.record({ to: fc.constantFrom("running", "output", "exiting"), at }),
        fc.record({
          to: fc.constant("service"),
          service,
          deadlines: fc.constant(deadlines),
          policy: fc.constant(policy),
        }),
        fc.record({ to: fc.constant("ready"), service }),
        fc
          .record({ at, code: fc.nat(255), lastOutputAt: at }, { requiredKeys: ["at", "code"] })
          .map(({ code, ...change }) => ({ ...EXITED, ...change, exit: { ...EXITED.exit, code } })),
      );
      const move = fc.record({ step, stale: fc.boolean(), reclaim: fc.boolean() });
      const facts = ({ updatedAt: _at, leaseEpoch: _epoch, leaseExpiresAt: _lease, ...rest }: RunRecord) =>
        rest;
      await fc.assert(
        fc.asyncProperty(fc.array(move, { maxLength: 12 }), async (moves) => {
          const lease = await store.insertRun(newRun(), LEASE_MS);
          let epoch = lease.epoch;
          let record = (await store.getRun(lease.runId)) ?? expect.fail("no record");
          for (const { step: change, stale, reclaim } of moves) {
            if (reclaim) epoch = (await store.acquireLease(ownClaim({ ...lease, epoch })))?.epoch ?? epoch;
            const saved = await store
              .saveRun({ ...lease, epoch: stale ? epoch - 1 : epoch }, change)
              .catch((error: unknown) => {
                expect(error).toBeInstanceOf(LeaseLost);
                return false;
              });
            expect(saved).toBe(!stale && record.state !== "exited");
            await store.renewLeases("owner-a", LEASE_MS);
            const next = (await other.getRun(lease.runId)) ?? expect.fail("no record");
            expect(facts(next)).toEqual(facts(saved ? applyRunChange(record, change) : record));
            if (record.state === "exited") expect(next).toEqual(record);
            record = next;
          }
        }),
        { numRuns: process.env["HOLDFAST_SOAK"] === "1" ? 200 : 30 },
      );
    });

    test("the clock goes forward and is the same for all", async () => {
      const times = [await store.now(), await other.now(), await store.now()];
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      expect(times.every(Number.isInteger)).toBe(true);
    });

    test("the records of a supervisor remain after it has closed the store", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS, [newRunEvent("r")]);
      await store[Symbol.asyncDispose]();
      await using next = await database.open();
      expect(await next.saveRun(lease, EXITED)).toBe(true);
      expect(await next.listEvents({})).toHaveLength(1);
    });
  });
}
