import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LeaseLost, RunExists } from "../../src/errors.js";
import type { RunRecord } from "../../src/model/run.js";
import type { RunChange, RunStore } from "../../src/store/runs/store.js";
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
} from "../support/store/run-samples.js";
import { twoSupervisors } from "./two-supervisors.js";

/** One empty database; each `open` is another supervisor on it. */
export interface TestDatabase extends AsyncDisposable {
  open(options?: { readonly eventsKept?: number }): Promise<RunStore>;
}

/** What every store promises of runs, whatever the database. */
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
      const { leaseExpiresAt, ...rest } = (await other.getRun(run.runId)) ?? expect.fail("no record");
      expect(leaseExpiresAt - before).toBeGreaterThanOrEqual(LEASE_MS);
      expect(leaseExpiresAt - (await other.now())).toBeLessThanOrEqual(LEASE_MS);
      expect(rest).toEqual({
        ...run,
        anchor: null,
        root: null,
        processGroupId: null,
        boundary: null,
        tier: null,
        state: "starting",
        startedAt: null,
        lastOutputAt: null,
        updatedAt: run.createdAt,
        endedAt: null,
        exit: null,
        residue: [],
        residueCount: 0,
        usage: null,
        emptiness: null,
        hiddenAt: null,
      });
    });

    test("a run that becomes a service, and ready, keeps its state", async () => {
      const run = newRun();
      const lease = await store.insertRun(run, LEASE_MS);
      await store.saveRun(lease, RUNNING);
      const service = { port: 3000, readyAt: null };
      const deadlines = { overallMs: null, noOutputMs: null };
      const policy = { ...run.policy, onOrphan: "adopt" } as const;
      expect(await store.saveRun(lease, { to: "service", service, deadlines, policy })).toBe(true);
      const became = { state: "running", kind: "service", deadlines, policy };
      expect(await other.getRun(run.runId)).toMatchObject({ ...became, service });
      const ready = { port: 3000, readyAt: 77 };
      expect(await store.saveRun(lease, { to: "ready", service: ready })).toBe(true);
      expect(await other.getRun(run.runId)).toMatchObject({ ...became, service: ready });
      await store.saveRun(lease, EXITED);
      expect(await store.saveRun(lease, { to: "service", service, deadlines, policy })).toBe(false);
    });

    test("every step's facts are kept to the end", async () => {
      const run = newRun();
      const lease = await store.insertRun(run, LEASE_MS);
      for (const change of [GATED, RUNNING, { to: "output", at: 5 }, EXITING, EXITED] as const) {
        expect(await store.saveRun(lease, change)).toBe(true);
      }
      expect(await other.getRun(run.runId)).toMatchObject({
        anchor: GATED.anchor,
        root: GATED.root,
        processGroupId: GATED.processGroupId,
        boundary: GATED.boundary,
        tier: GATED.tier,
        state: "exited",
        startedAt: RUNNING.at,
        lastOutputAt: 5,
        endedAt: EXITED.at,
        exit: EXITED.exit,
        residue: EXITED.residue,
        residueCount: 1,
        usage: EXITED.usage,
        emptiness: "proven",
      });
    });

    test("no run ends before it started, whatever the wall clock says", async () => {
      const early = { ...EXITED, at: RUNNING.at - 5_000 };
      const executed = await store.insertRun(newRun(), LEASE_MS);
      await store.saveRun(executed, RUNNING);
      await store.saveRun(executed, early);
      expect(await other.getRun(executed.runId)).toMatchObject({
        startedAt: RUNNING.at,
        endedAt: RUNNING.at,
      });
      const run = newRun({ createdAt: RUNNING.at });
      const concluded = await store.insertRun(run, -1);
      await store.acquireAndFinalizeRun(stealClaim(concluded, "owner-b"), early);
      expect(await other.getRun(run.runId)).toMatchObject({ startedAt: null, endedAt: run.createdAt });
    });

    test("the end of a run may set the time of its last output", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      await store.saveRun(lease, RUNNING);
      await store.saveRun(lease, { ...EXITED, lastOutputAt: RUNNING.at + 1 });
      expect(await other.getRun(lease.runId)).toMatchObject({ lastOutputAt: RUNNING.at + 1 });
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

    test("a start that is reported after a stop sets the start time and leaves the run exiting", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      await store.saveRun(lease, EXITING);
      await store.saveRun(lease, GATED);
      await store.saveRun(lease, RUNNING);
      expect(await store.getRun(lease.runId)).toMatchObject({
        state: "exiting",
        startedAt: RUNNING.at,
        root: GATED.root,
      });
    });

    test("a run starts once: a repeated report keeps the first time", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      await store.saveRun(lease, RUNNING);
      await store.saveRun(lease, { to: "running", at: RUNNING.at + 50 });
      expect(await store.getRun(lease.runId)).toMatchObject({ startedAt: RUNNING.at });
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

      // It has ended: nothing is taken back.
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
      // Which of two that are asked for at once comes first is the database's business.
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

    test("no sequence of steps changes a run that has ended, and no step goes backwards before", async () => {
      const order = { starting: 0, running: 1, exiting: 2, exited: 3 };
      const at = fc.integer({ min: 1, max: 1_000 });
      const step: fc.Arbitrary<RunChange> = fc.oneof(
        fc.constant(GATED),
        at.map((time) => ({ to: "running", at: time }) as const),
        at.map((time) => ({ to: "output", at: time }) as const),
        at.map((time) => ({ to: "exiting", at: time }) as const),
        fc
          .record({
            time: at,
            code: fc.integer({ min: 0, max: 255 }),
            emptiness: fc.constantFrom("proven", "unproven"),
          })
          .map(({ time, code, emptiness }) => ({
            ...EXITED,
            at: time,
            exit: { ...EXITED.exit, code },
            emptiness,
          })),
      );
      const move = fc.record({ step, stale: fc.boolean(), reclaim: fc.boolean() });
      await fc.assert(
        fc.asyncProperty(fc.array(move, { maxLength: 12 }), async (moves) => {
          const lease = await store.insertRun(newRun(), LEASE_MS);
          let epoch = lease.epoch;
          let record = (await store.getRun(lease.runId)) ?? expect.fail("no record");
          for (const { step: change, stale, reclaim } of moves) {
            if (reclaim) epoch = (await store.acquireLease(ownClaim({ ...lease, epoch })))?.epoch ?? epoch;
            await store
              .saveRun({ ...lease, epoch: stale ? epoch - 1 : epoch }, change)
              .catch((error: unknown) => {
                expect(error).toBeInstanceOf(LeaseLost);
              });
            await store.renewLeases("owner-a", LEASE_MS);
            const next = (await store.getRun(lease.runId)) ?? expect.fail("no record");
            if (record.state === "exited") expect(next).toEqual(record);
            expect(order[next.state]).toBeGreaterThanOrEqual(order[record.state]);
            record = next;
          }
        }),
        { numRuns: 60 },
      );
    });

    test("the clock goes forward and is the same for all", async () => {
      const times = [await store.now(), await other.now(), await store.now()];
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      expect(times.every(Number.isInteger)).toBe(true);
    });

    test("the records of a supervisor remain after it is gone", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS, [newRunEvent("r")]);
      await store[Symbol.asyncDispose]();
      await using next = await database.open();
      expect(await next.saveRun(lease, EXITED)).toBe(true);
      expect(await next.listEvents({})).toHaveLength(1);
    });
  });
}
