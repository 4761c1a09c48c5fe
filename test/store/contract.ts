import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { LeaseLost, RunExists } from "../../src/errors.js";
import { OPEN_STATES, type RunRecord } from "../../src/store/run-record.js";
import type { RunChange, RunStore } from "../../src/store/store.js";
import { HERE, LEASE_MS, event, exited, exiting, gated, mine, newRun, running, theft } from "./samples.js";

/** One empty database; each `open` is another supervisor on it. */
export interface TestDatabase extends AsyncDisposable {
  open(options?: { readonly eventsKept?: number }): Promise<RunStore>;
}

/** What every store promises, whatever the database. */
export function storeContract(name: string, createDatabase: () => Promise<TestDatabase>): void {
  describe(`${name} store`, () => {
    let database: TestDatabase;
    let store: RunStore;
    let other: RunStore;

    beforeEach(async () => {
      database = await createDatabase();
      store = await database.open();
      other = await database.open();
    });

    afterEach(async () => {
      await store[Symbol.asyncDispose]();
      await other[Symbol.asyncDispose]();
      await database[Symbol.asyncDispose]();
    });

    test("a record is there, complete, for every supervisor as soon as it was inserted", async () => {
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

    test("a task that becomes a service, and ready, stays in its state and is so for everybody", async () => {
      const run = newRun();
      const lease = await store.insertRun(run, LEASE_MS);
      await store.saveRun(lease, running);
      const service = { port: 3000, readyAt: null };
      const deadlines = { overallMs: null, noOutputMs: null };
      const policy = { ...run.policy, onOrphan: "adopt" } as const;
      expect(await store.saveRun(lease, { to: "service", service, deadlines, policy })).toBe(true);
      const became = { state: "running", kind: "service", deadlines, policy };
      expect(await other.getRun(run.runId)).toMatchObject({ ...became, service });
      const ready = { port: 3000, readyAt: 77 };
      expect(await store.saveRun(lease, { to: "ready", service: ready })).toBe(true);
      expect(await other.getRun(run.runId)).toMatchObject({ ...became, service: ready });
      await store.saveRun(lease, exited);
      expect(await store.saveRun(lease, { to: "service", service, deadlines, policy })).toBe(false);
    });

    test("every step's facts are kept to the end", async () => {
      const run = newRun();
      const lease = await store.insertRun(run, LEASE_MS);
      for (const change of [gated, running, { to: "output", at: 5 }, exiting, exited] as const) {
        expect(await store.saveRun(lease, change)).toBe(true);
      }
      expect(await other.getRun(run.runId)).toMatchObject({
        anchor: gated.anchor,
        root: gated.root,
        processGroupId: gated.processGroupId,
        boundary: gated.boundary,
        tier: gated.tier,
        state: "exited",
        startedAt: running.at,
        lastOutputAt: 5,
        endedAt: exited.at,
        exit: exited.exit,
        residue: exited.residue,
        residueCount: 1,
        usage: exited.usage,
        emptiness: "proven",
      });
    });

    test("a run id is recorded once; the second insert changes nothing", async () => {
      const run = newRun();
      await store.insertRun(run, LEASE_MS);
      const record = await store.getRun(run.runId);
      const twice = other.insertRun({ ...run, command: "another" }, LEASE_MS, [event(run.runId)]);
      await expect(twice).rejects.toBeInstanceOf(RunExists);
      expect(await store.getRun(run.runId)).toEqual(record);
      expect(await store.listEvents({})).toEqual([]);
    });

    test("news of the start after a stop fills in the start and leaves the run exiting", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      await store.saveRun(lease, exiting);
      await store.saveRun(lease, gated);
      await store.saveRun(lease, running);
      expect(await store.getRun(lease.runId)).toMatchObject({
        state: "exiting",
        startedAt: running.at,
        root: gated.root,
      });
    });

    test("a run starts once: told again, the first time stands", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      await store.saveRun(lease, running);
      await store.saveRun(lease, { to: "running", at: running.at + 50 });
      expect(await store.getRun(lease.runId)).toMatchObject({ startedAt: running.at });
    });

    test("a step and its events are one: a refused step leaves no event", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS, [event("inserted")]);
      await store.saveRun(lease, running, [event("running")]);
      await expect(store.saveRun({ ...lease, epoch: 9 }, exiting, [event("stale")])).rejects.toBeInstanceOf(
        LeaseLost,
      );
      await store.saveRun(lease, exited, [event("exited")]);
      expect(await store.saveRun(lease, exited, [event("again")])).toBe(false);
      const events = await other.listEvents({});
      expect(events.map(({ runId }) => runId)).toEqual(["inserted", "running", "exited"]);
    });

    test("an event comes back as it was written", async () => {
      const data = { residue: [{ pid: 1, kind: "detached", command: "x" }] };
      const written = { type: "escape", runId: "r", at: 5, rootPid: null, descendants: 0, data } as const;
      await store.appendEvents([written]);
      const [read] = await store.listEvents({});
      expect(read).toEqual({ ...written, seq: expect.any(Number) });
    });

    test("a write under a stale epoch is refused", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      const newer = (await other.claimLease(mine(lease))) ?? expect.fail("no lease");
      const refused = store.saveRun(lease, running);
      await expect(refused).rejects.toMatchObject({
        code: "LEASE_LOST",
        runId: lease.runId,
        epoch: lease.epoch,
      });
      await expect(store.saveRun(lease, exited)).rejects.toBeInstanceOf(LeaseLost);
      expect(await store.getRun(lease.runId)).toMatchObject({ state: "starting", leaseEpoch: newer.epoch });
      expect(await other.saveRun(newer, running)).toBe(true);
    });

    test("a write by somebody who never held the run is refused", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      await expect(other.saveRun({ ...lease, ownerInstanceId: "owner-b" }, exited)).rejects.toBeInstanceOf(
        LeaseLost,
      );
      await expect(other.saveRun({ ...lease, runId: "no such run" }, exited)).rejects.toBeInstanceOf(
        LeaseLost,
      );
    });

    test("a late owner of a run that has ended hears that it has ended", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      await store.saveRun(lease, exited);
      expect(await other.saveRun({ ...lease, epoch: 7 }, running)).toBe(false);
      expect(await other.saveRun({ ...lease, ownerInstanceId: "owner-b" }, exited)).toBe(false);
    });

    test("of many that claim the same lease at once exactly one gets it, and only that one writes", async () => {
      const lease = await store.insertRun(newRun(), -1);
      const claims = [mine(lease), theft(lease, "owner-b"), mine(lease), theft(lease, "owner-c")];
      const won = await Promise.all(
        claims.map((claim, index) => (index % 2 === 0 ? store : other).claimLease(claim)),
      );
      const winners = won.filter((each) => each !== null);
      expect(winners).toHaveLength(1);
      const writes = await Promise.allSettled(
        claims.map(({ runId, ownerInstanceId, epoch }) =>
          other.saveRun({ runId, ownerInstanceId, epoch }, running),
        ),
      );
      const accepted = claims.filter((_, index) => writes[index]?.status === "fulfilled");
      expect(new Set(accepted.map(({ ownerInstanceId }) => ownerInstanceId))).toEqual(
        new Set([winners[0]?.ownerInstanceId]),
      );
    });

    test("an epoch can leap over what an anchor has seen, and never goes back", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      const leaped = (await store.claimLease({ ...mine(lease), epoch: 40 })) ?? expect.fail("no lease");
      expect(leaped).toEqual({ ...lease, epoch: 40 });
      expect(await store.claimLease(mine(leaped))).toMatchObject({ epoch: 41 });
      await expect(store.claimLease({ ...mine(lease), epoch: lease.epoch })).rejects.toThrow(/not above/);
    });

    test("a healthy lease is not taken, an expired one is, and one that must be long expired is not taken early", async () => {
      const healthy = await store.insertRun(newRun(), LEASE_MS);
      expect(await other.claimLease(theft(healthy, "owner-b"))).toBeNull();
      const expired = await store.insertRun(newRun(), -5);
      expect(await other.claimLease(theft(expired, "owner-b", 1_000))).toBeNull();
      expect(await other.claimLease(theft(expired, "owner-b"))).toMatchObject({ ownerInstanceId: "owner-b" });
      const stalled = await store.insertRun(newRun(), -1_000);
      expect(await other.claimLease(theft(stalled, "owner-b", 1_000))).toMatchObject({ epoch: 2 });
      const otherBoot = await store.insertRun(newRun({ bootId: "before" }), LEASE_MS);
      expect(await other.claimLease(theft(otherBoot, "owner-b", null))).toMatchObject({ epoch: 2 });
    });

    test("a claim and the events that say why are committed together or not at all", async () => {
      const lease = await store.insertRun(newRun(), -1);
      const why = event(lease.runId);
      expect(await other.claimLease(theft(lease, "owner-b"), [why])).not.toBeNull();
      expect(await store.claimLease(theft(lease, "owner-c"), [why])).toBeNull();
      expect(await store.listEvents({ runId: lease.runId })).toHaveLength(1);
      await expect(store.saveRun(lease, running)).rejects.toBeInstanceOf(LeaseLost);
    });

    test("an expired lease that nobody took is renewed by its owner; one that was taken is not", async () => {
      const kept = await store.insertRun(newRun(), -60_000);
      const taken = await store.insertRun(newRun(), -60_000);
      await other.claimLease(theft(taken, "owner-b"));
      expect(await store.renewLeases("owner-a", LEASE_MS)).toBe(1);
      expect(await store.heldRuns("owner-a")).toEqual([kept.runId]);
      expect(await store.heldRuns("owner-b")).toEqual([taken.runId]);
      expect(await other.claimLease(theft(kept, "owner-b"))).toBeNull();
    });

    test("of a run that has ended, or that never was, nothing is claimed", async () => {
      const lease = await store.insertRun(newRun(), -1);
      expect(await store.claimLease({ ...mine(lease), runId: "no such run" })).toBeNull();
      await store.saveRun(lease, exited);
      expect(await store.claimLease(mine(lease))).toBeNull();
      expect(await store.claimLease(theft(lease, "owner-b"))).toBeNull();
    });

    test("a record that is missing, or older, is put back whole; one that has ended or has a newer owner stays", async () => {
      const run = newRun({ leaseEpoch: 3, service: { port: 80, readyAt: 5 } });
      const lease = await store.insertRun(run, LEASE_MS);
      for (const step of [gated, running]) await store.saveRun(lease, step);
      const open = (await store.getRun(run.runId)) ?? expect.fail("no record");
      await store.saveRun(lease, exited);
      const ended = (await store.getRun(run.runId)) ?? expect.fail("no record");
      const without = (record: RunRecord) => ({ ...record, leaseExpiresAt: 0 });
      const known = async () => without((await other.getRun(run.runId)) ?? expect.fail("no record"));

      // It has ended: nothing is taken back.
      expect(await store.restoreRun({ ...open, leaseEpoch: 9 }, LEASE_MS, [event(run.runId)])).toBe(false);
      expect(await known()).toEqual(without(ended));
      await store.deleteRuns([run.runId]);
      expect(await store.restoreRun(open, LEASE_MS, [event(run.runId)])).toBe(true);
      expect(await known()).toEqual(without(open));
      expect((await store.listEvents({ runId: run.runId })).length).toBe(1);
      // Under its own epoch, with a fresh lease.
      expect(await store.renewLeases("owner-a", LEASE_MS)).toBe(1);
      expect(await store.claimLease(theft(lease, "owner-b"))).toBeNull();

      const newer = { ...open, leaseEpoch: 2, ownerInstanceId: "owner-b" };
      expect(await store.restoreRun(newer, LEASE_MS, [event(run.runId)])).toBe(false);
      expect(await store.restoreRun(ended, 0, [event(run.runId)])).toBe(true);
      expect(await known()).toEqual(without(ended));
      expect((await store.listEvents({ runId: run.runId })).length).toBe(2);
      expect(await store.listRuns({ runIds: [run.runId, "another"] })).toHaveLength(1);
      expect(await store.listRuns({ runIds: [] })).toEqual([]);
    });

    test("only ended runs are forgotten, with their events, the oldest end first", async () => {
      const ended = await Promise.all([5, 3, 4].map(() => store.insertRun(newRun(), LEASE_MS)));
      for (const [at, lease] of ended.entries())
        await store.saveRun(lease, { ...exited, at: [5, 3, 4][at] ?? 0 }, [event(lease.runId)]);
      const live = await store.insertRun(newRun(), LEASE_MS, [event("live")]);
      expect(await store.countEnded()).toBe(3);
      const old = (await other.listRuns({ endedBefore: 5 })).map(({ endedAt }) => endedAt);
      expect(old).toEqual([3, 4]);
      const ids = [...ended.slice(0, 2), live].map(({ runId }) => runId);
      expect(await store.deleteRuns([...ids, "no such run"])).toBe(2);
      expect(await other.getRun(live.runId)).toMatchObject({ state: "starting" });
      expect(await other.listRuns({ states: ["exited"] })).toHaveLength(1);
      expect((await other.listEvents({})).map(({ runId }) => runId)).toEqual([ended[2]?.runId, "live"]);
      expect(await store.deleteRuns([])).toBe(0);
    });

    test("runs are found by session and by agent", async () => {
      const { runId } = await store.insertRun(newRun({ sessionKey: "s", agentId: "a" }), LEASE_MS);
      await store.insertRun(newRun({ sessionKey: "s", agentId: "b" }), LEASE_MS);
      expect(await other.listRuns({ sessionKey: "s" })).toHaveLength(2);
      expect((await other.listRuns({ sessionKey: "s", agentId: "a" })).map((run) => run.runId)).toEqual([
        runId,
      ]);
    });

    test("ended runs are listed and counted by state directory, and without those of some instances", async () => {
      const ended = async (stateId: string | null, originInstanceId: string): Promise<string> => {
        const lease = await store.insertRun(newRun({ stateId, originInstanceId }), LEASE_MS);
        await store.saveRun(lease, exited);
        return lease.runId;
      };
      const here = await ended("state", "in_a");
      await ended("state", "in_b");
      await ended("another", "in_a");
      // From before it was said: whoever has its instance's directory has it.
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
        expect(await store.countEnded(filter)).toBe(count);
        expect(await store.listRuns(filter)).toHaveLength(count);
      }
      const both = { ofState, notFrom: ["in_b"], endedBefore: Number.MAX_SAFE_INTEGER };
      const found = (await other.listRuns(both)).map(({ runId }) => runId);
      expect(found.toSorted()).toEqual([here, unsaid].toSorted());
    });

    test("events are of their run's state directory, whoever writes them", async () => {
      for (const stateId of ["one", "two", null]) {
        const runId = `run_${stateId}`;
        const lease = await store.insertRun(newRun({ stateId, runId }), LEASE_MS, [event(runId, 1)]);
        await store.saveRun(lease, exited, [event(runId, 2)]);
      }
      await other.appendEvents([event("run_one", 3), event("run_two", 3), event("nobody's", 3)]);
      const of = async (stateId: string, page = {}): Promise<string[]> =>
        (await other.listEvents({ stateId, ...page })).map(({ runId, at }) => `${runId} ${at}`);
      expect(await of("one")).toEqual(["run_one 1", "run_one 2", "run_one 3"]);
      expect(await of("two", { newestFirst: true, limit: 1 })).toEqual(["run_two 3"]);
      expect(await of("three")).toEqual([]);
    });

    test("runs and their events are found by host", async () => {
      for (const hostId of ["one", "two", "three"]) {
        const runId = `run_${hostId}`;
        await store.insertRun(newRun({ hostId, runId }), LEASE_MS, [event(runId)]);
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

    test("a run of a later session with the same key is told from the former's", async () => {
      await store.insertRun(newRun({ sessionKey: "s", sessionId: "ses_first" }), LEASE_MS);
      const { runId } = await store.insertRun(newRun({ sessionKey: "s", sessionId: "ses_second" }), LEASE_MS);
      const found = await other.listRuns({ sessionId: "ses_second" });
      expect(found.map((run) => [run.runId, run.sessionId])).toEqual([[runId, "ses_second"]]);
    });

    test("hidden runs are left out where they are not wanted; running or ended, nothing else of them changes", async () => {
      const live = await store.insertRun(newRun(), LEASE_MS);
      const ended = await store.insertRun(newRun(), LEASE_MS);
      const shown = await store.insertRun(newRun(), LEASE_MS);
      await store.saveRun(ended, exited);
      const before = await Promise.all([live, ended].map(({ runId }) => store.getRun(runId)));
      expect(await other.hideRuns([live.runId, ended.runId, "no such run"], 7)).toBe(2);
      // The first time stands.
      expect(await store.hideRuns([live.runId, ended.runId], 9)).toBe(0);
      const after = await Promise.all([live, ended].map(({ runId }) => store.getRun(runId)));
      expect(after).toEqual(before.map((record) => ({ ...record, hiddenAt: 7 })));
      expect((await store.listRuns({ hidden: false })).map(({ runId }) => runId)).toEqual([shown.runId]);
      expect(await store.listRuns({})).toHaveLength(3);
      // Its owner goes on, and it ends as any other.
      await store.saveRun(live, exited);
      expect(await store.getRun(live.runId)).toMatchObject({ state: "exited", hiddenAt: 7 });
    });

    test("a claim that ends the run does both or neither", async () => {
      const lease = await store.insertRun(newRun(), -1);
      const healthy = await store.insertRun(newRun(), LEASE_MS);
      expect(await other.concludeRun(theft(healthy, "owner-b"), exited, [event(healthy.runId)])).toBe(false);
      expect(await store.getRun(healthy.runId)).toMatchObject({
        state: "starting",
        ownerInstanceId: "owner-a",
      });
      expect(await other.concludeRun(theft(lease, "owner-b"), exited, [event(lease.runId)])).toBe(true);
      expect(await store.concludeRun(mine(lease), exited, [event(lease.runId)])).toBe(false);
      expect(await store.getRun(lease.runId)).toMatchObject({
        state: "exited",
        ownerInstanceId: "owner-b",
        leaseEpoch: 2,
        exit: exited.exit,
      });
      expect(await store.listEvents({})).toHaveLength(1);
    });

    test("unattended are one's own, those with an expired lease, and those of a clock that is gone; those of other hosts and state directories, if there are any, are asked for apart", async () => {
      const own = await store.insertRun(newRun(), LEASE_MS);
      await store.insertRun(newRun({ ownerInstanceId: "owner-b" }), LEASE_MS);
      const expired = await store.insertRun(newRun({ ownerInstanceId: "owner-b" }), -1);
      const before = await store.insertRun(
        newRun({ ownerInstanceId: "owner-b", bootId: "before" }),
        LEASE_MS,
      );
      const ended = await store.insertRun(newRun(), -1);
      await store.saveRun(ended, exited);
      const elsewhere = { ownerInstanceId: "owner-b", hostId: "elsewhere", bootId: "another" };
      const healthy = await store.insertRun(newRun(elsewhere), LEASE_MS);
      const silent = await store.insertRun(newRun(elsewhere), 60_000 - defaults.hostLostMs);
      const givenUp = await store.insertRun(newRun(elsewhere), -defaults.hostLostMs);
      const beside = { ownerInstanceId: "owner-b", stateId: "another" };
      const besideSilent = await store.insertRun(newRun(beside), -1);
      const besideGivenUp = await store.insertRun(newRun(beside), -defaults.hostLostMs);
      const unsaid = await store.insertRun(newRun({ ...beside, stateId: null }), -1);
      const ownElsewhere = await store.insertRun(newRun({ ...elsewhere, ownerInstanceId: "owner-a" }), -1);
      const found = (await other.listUnattended("owner-a", HERE)).map(({ runId }) => runId);
      const expected = store.shared
        ? [own, expired, unsaid, ownElsewhere]
        : [own, expired, before, healthy, silent, givenUp, besideSilent, besideGivenUp, unsaid, ownElsewhere];
      expect(found.toSorted()).toEqual(expected.map(({ runId }) => runId).toSorted());
      const lost = await other.listRuns({ states: OPEN_STATES, silentForMs: defaults.hostLostMs });
      expect(new Set(lost.map(({ runId }) => runId))).toEqual(new Set([givenUp.runId, besideGivenUp.runId]));
    });

    test("ten thousand events are written in one go", async () => {
      await store.appendEvents(Array.from({ length: 10_000 }, (_, at) => event("r", at)));
      expect((await other.listEvents({ newestFirst: true, limit: 1 }))[0]?.at).toBe(9_999);
    });

    test("the newest event can be asked for first", async () => {
      await store.appendEvents([1, 2, 3].map((at) => event("r", at)));
      expect((await store.listEvents({ newestFirst: true, limit: 2 })).map(({ at }) => at)).toEqual([3, 2]);
    });

    test("renewing extends all live leases of one owner and of nobody else", async () => {
      const first = await store.insertRun(newRun(), 1);
      const alsoMine = await store.insertRun(newRun(), 1);
      const ended = await store.insertRun(newRun(), 1);
      const theirs = await other.insertRun(newRun({ ownerInstanceId: "owner-b" }), 1);
      await store.saveRun(ended, exited);
      expect(await store.renewLeases("owner-a", LEASE_MS)).toBe(2);
      const now = await store.now();
      const healthy = async ({ runId }: { readonly runId: string }): Promise<boolean> =>
        ((await store.getRun(runId))?.leaseExpiresAt ?? 0) > now + LEASE_MS / 2;
      expect(await Promise.all([first, alsoMine, ended, theirs].map(healthy))).toEqual([
        true,
        true,
        false,
        false,
      ]);
    });

    test("runs are found by the beginning of their id", async () => {
      for (const runId of ["ab1", "ab2", "ab%", "ac1", "b"])
        await store.insertRun(newRun({ runId }), LEASE_MS);
      const found = async (prefix: string, limit = 10): Promise<string[]> =>
        (await store.findRuns(prefix, limit)).map(({ runId }) => runId).toSorted();
      expect(await found("ab")).toEqual(["ab%", "ab1", "ab2"]);
      expect(await found("ab%")).toEqual(["ab%"]);
      expect(await found("ab_")).toEqual([]);
      expect(await found("", 2)).toHaveLength(2);
    });

    test("runs are listed newest first, by state, owner and every label given", async () => {
      await store.insertRun(newRun({ runId: "old", createdAt: 1, labels: { a: "1", b: "2" } }), LEASE_MS);
      await store.insertRun(newRun({ runId: "new", createdAt: 3, labels: { a: "1" } }), LEASE_MS);
      const strange = { 'k"e.y$[0]': "it's" };
      const lease = await store.insertRun(
        newRun({ runId: "mid", createdAt: 2, ownerInstanceId: "owner-b", labels: strange }),
        LEASE_MS,
      );
      await store.saveRun(lease, running);
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
    });

    test("events are read oldest first, after a cursor, of one run, in pages", async () => {
      await store.appendEvents([event("r1"), event("r2"), event("r1")]);
      await other.appendEvents([event("r3")]);
      const all = await store.listEvents({});
      expect(all.map(({ runId }) => runId)).toEqual(["r1", "r2", "r1", "r3"]);
      expect(all.map(({ seq }) => seq)).toEqual(all.map(({ seq }) => seq).toSorted((a, b) => a - b));
      expect(await store.listEvents({ after: all[1]?.seq ?? 0 })).toEqual(all.slice(2));
      expect(await store.listEvents({ runId: "r1", limit: 1 })).toEqual(all.slice(0, 1));
      expect(await store.listEvents({ after: all[3]?.seq ?? 0 })).toEqual([]);
    });

    test("events are bounded: the oldest go, the newest stay, and no number comes twice", async () => {
      const kept = 250;
      const small = await database.open({ eventsKept: kept });
      const seen = new Set<number>();
      let last = 0;
      for (let round = 0; round < 300; round += 1) {
        await small.appendEvents([event(`r${round}`), event(`r${round}`), event(`r${round}`)]);
        for (const { seq } of await small.listEvents({ after: last })) {
          expect(seq).toBeGreaterThan(last);
          seen.add(seq);
          last = seq;
        }
      }
      const left = await small.listEvents({});
      expect(seen.size).toBe(900);
      expect(left.length).toBeLessThanOrEqual(kept);
      expect(left.length).toBeGreaterThan(kept * 0.9);
      expect(left.at(-1)?.seq).toBe(last);
      await small[Symbol.asyncDispose]();
    });

    test("many short-lived supervisors keep the events bounded together", async () => {
      for (let round = 0; round < 30; round += 1) {
        const brief = await database.open({ eventsKept: 10 });
        await brief.appendEvents([event(`r${round}`)]);
        await brief[Symbol.asyncDispose]();
      }
      expect((await store.listEvents({})).length).toBeLessThanOrEqual(10);
    });

    test("calls made at the same time do not mix", async () => {
      const leases = await Promise.all(Array.from({ length: 50 }, () => store.insertRun(newRun(), LEASE_MS)));
      // Which of two that are asked for at once comes first is the database's business.
      const written = await Promise.all(
        leases.flatMap((lease) => [
          store.saveRun(lease, gated, [event(lease.runId)]),
          store.saveRun(lease, exited, [event(lease.runId)]),
          store.getRun(lease.runId).then(() => false),
          store.saveRun({ ...lease, epoch: 0 }, running, [event("stale")]).catch(() => false),
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
        fc.constant(gated),
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
            ...exited,
            at: time,
            exit: { ...exited.exit, code },
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
            if (reclaim) epoch = (await store.claimLease(mine({ ...lease, epoch })))?.epoch ?? epoch;
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

    test("what one supervisor wrote is there after it is gone", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS, [event("r")]);
      await store[Symbol.asyncDispose]();
      store = await database.open();
      expect(await store.saveRun(lease, exited)).toBe(true);
      expect(await store.listEvents({})).toHaveLength(1);
    });
  });
}
