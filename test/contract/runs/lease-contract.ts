import { describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { LeaseLost } from "../../../src/errors.js";
import { OPEN_RUN_STATES } from "../../../src/model/run.js";
import type { RunStore } from "../../../src/store/runs/contract.js";
import {
  THIS_HOST,
  LEASE_MS,
  newRunEvent,
  EXITED,
  ownClaim,
  newRun,
  RUNNING,
  stealClaim,
} from "../../support/store/run-samples.js";
import { type TestDatabase, twoSupervisors } from "../../support/store/test-database.js";

/** The contract of every store for leases. */
export function leaseContract(name: string, createDatabase: () => Promise<TestDatabase>): void {
  describe(`${name} store`, () => {
    let store: RunStore;
    let other: RunStore;
    twoSupervisors(createDatabase, (opened) => {
      ({ store, other } = opened);
    });

    test("a write under a stale epoch is refused", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      const newer = (await other.acquireLease(ownClaim(lease))) ?? expect.fail("no lease");
      const refused = store.saveRun(lease, RUNNING);
      await expect(refused).rejects.toMatchObject({
        code: "LEASE_LOST",
        runId: lease.runId,
        epoch: lease.epoch,
      });
      await expect(store.saveRun(lease, EXITED)).rejects.toBeInstanceOf(LeaseLost);
      expect(await store.getRun(lease.runId)).toMatchObject({ state: "starting", leaseEpoch: newer.epoch });
      expect(await other.saveRun(newer, RUNNING)).toBe(true);
    });

    test("a write by an instance that never owned the run is refused", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      await expect(other.saveRun({ ...lease, ownerInstanceId: "owner-b" }, EXITED)).rejects.toBeInstanceOf(
        LeaseLost,
      );
      await expect(other.saveRun({ ...lease, runId: "no such run" }, EXITED)).rejects.toBeInstanceOf(
        LeaseLost,
      );
    });

    test("a late owner of an ended run learns that it has ended", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      await store.saveRun(lease, EXITED);
      expect(await other.saveRun({ ...lease, epoch: 7 }, RUNNING)).toBe(false);
      expect(await other.saveRun({ ...lease, ownerInstanceId: "owner-b" }, EXITED)).toBe(false);
    });

    test("exactly one of many concurrent claims gets a lease, and only its owner writes", async () => {
      const lease = await store.insertRun(newRun(), -1);
      const claims = [
        ownClaim(lease),
        stealClaim(lease, "owner-b"),
        ownClaim(lease),
        stealClaim(lease, "owner-c"),
      ];
      const won = await Promise.all(
        claims.map((claim, index) => (index % 2 === 0 ? store : other).acquireLease(claim)),
      );
      const winners = won.filter((each) => each !== null);
      expect(winners).toHaveLength(1);
      const writes = await Promise.allSettled(
        claims.map(({ runId, ownerInstanceId, epoch }) =>
          other.saveRun({ runId, ownerInstanceId, epoch }, RUNNING),
        ),
      );
      const accepted = claims.filter((_, index) => writes[index]?.status === "fulfilled");
      expect(new Set(accepted.map(({ ownerInstanceId }) => ownerInstanceId))).toEqual(
        new Set([winners[0]?.ownerInstanceId]),
      );
    });

    test("an epoch can skip the epochs that an anchor has seen, and never decreases", async () => {
      const lease = await store.insertRun(newRun(), LEASE_MS);
      const leaped = (await store.acquireLease({ ...ownClaim(lease), epoch: 40 })) ?? expect.fail("no lease");
      expect(leaped).toEqual({ ...lease, epoch: 40 });
      expect(await store.acquireLease(ownClaim(leaped))).toMatchObject({ epoch: 41 });
      await expect(store.acquireLease({ ...ownClaim(lease), epoch: lease.epoch })).rejects.toThrow(
        /not above/,
      );
    });

    test("a valid lease is not stolen, an expired one is, and not before the required time after its expiry", async () => {
      const healthy = await store.insertRun(newRun(), LEASE_MS);
      expect(await other.acquireLease(stealClaim(healthy, "owner-b"))).toBeNull();
      const expired = await store.insertRun(newRun(), -5);
      expect(await other.acquireLease(stealClaim(expired, "owner-b", 1_000))).toBeNull();
      expect(await other.acquireLease(stealClaim(expired, "owner-b"))).toMatchObject({
        ownerInstanceId: "owner-b",
      });
      const stalled = await store.insertRun(newRun(), -1_000);
      expect(await other.acquireLease(stealClaim(stalled, "owner-b", 1_000))).toMatchObject({ epoch: 2 });
      const otherBoot = await store.insertRun(newRun({ bootId: "before" }), LEASE_MS);
      expect(await other.acquireLease(stealClaim(otherBoot, "owner-b", null))).toMatchObject({ epoch: 2 });
    });

    test("a claim and the events that say why are committed together or not at all", async () => {
      const lease = await store.insertRun(newRun(), -1);
      const why = newRunEvent(lease.runId);
      expect(await other.acquireLease(stealClaim(lease, "owner-b"), [why])).not.toBeNull();
      expect(await store.acquireLease(stealClaim(lease, "owner-c"), [why])).toBeNull();
      expect(await store.listEvents({ runId: lease.runId })).toHaveLength(1);
      await expect(store.saveRun(lease, RUNNING)).rejects.toBeInstanceOf(LeaseLost);
    });

    test("an expired lease is renewed by its owner unless it was stolen", async () => {
      const kept = await store.insertRun(newRun(), -60_000);
      const taken = await store.insertRun(newRun(), -60_000);
      await other.acquireLease(stealClaim(taken, "owner-b"));
      expect(await store.renewLeases("owner-a", LEASE_MS)).toBe(1);
      expect(await store.listOwnedRunIds("owner-a")).toEqual([kept.runId]);
      expect(await store.listOwnedRunIds("owner-b")).toEqual([taken.runId]);
      expect(await other.acquireLease(stealClaim(kept, "owner-b"))).toBeNull();
    });

    test("a run that has ended or does not exist is not claimed", async () => {
      const lease = await store.insertRun(newRun(), -1);
      expect(await store.acquireLease({ ...ownClaim(lease), runId: "no such run" })).toBeNull();
      await store.saveRun(lease, EXITED);
      expect(await store.acquireLease(ownClaim(lease))).toBeNull();
      expect(await store.acquireLease(stealClaim(lease, "owner-b"))).toBeNull();
    });

    test("a claim that finalizes the run writes both or neither", async () => {
      const lease = await store.insertRun(newRun(), -1);
      const healthy = await store.insertRun(newRun(), LEASE_MS);
      expect(
        await other.acquireAndFinalizeRun(stealClaim(healthy, "owner-b"), EXITED, [
          newRunEvent(healthy.runId),
        ]),
      ).toBe(false);
      expect(await store.getRun(healthy.runId)).toMatchObject({
        state: "starting",
        ownerInstanceId: "owner-a",
      });
      expect(
        await other.acquireAndFinalizeRun(stealClaim(lease, "owner-b"), EXITED, [newRunEvent(lease.runId)]),
      ).toBe(true);
      expect(await store.acquireAndFinalizeRun(ownClaim(lease), EXITED, [newRunEvent(lease.runId)])).toBe(
        false,
      );
      expect(await store.getRun(lease.runId)).toMatchObject({
        state: "exited",
        ownerInstanceId: "owner-b",
        leaseEpoch: 2,
        exit: EXITED.exit,
      });
      expect(await store.listEvents({})).toHaveLength(1);
    });

    test("unattended runs are one's own, those with an expired lease and those of another boot; in a shared store only of this host and state directory", async () => {
      const own = await store.insertRun(newRun(), LEASE_MS);
      await store.insertRun(newRun({ ownerInstanceId: "owner-b" }), LEASE_MS);
      const expired = await store.insertRun(newRun({ ownerInstanceId: "owner-b" }), -1);
      const before = await store.insertRun(
        newRun({ ownerInstanceId: "owner-b", bootId: "before" }),
        LEASE_MS,
      );
      const ended = await store.insertRun(newRun(), -1);
      await store.saveRun(ended, EXITED);
      const elsewhere = { ownerInstanceId: "owner-b", hostId: "elsewhere", bootId: "another" };
      const healthy = await store.insertRun(newRun(elsewhere), LEASE_MS);
      const silent = await store.insertRun(newRun(elsewhere), 60_000 - defaults.hostLostMs);
      const givenUp = await store.insertRun(newRun(elsewhere), -defaults.hostLostMs);
      const beside = { ownerInstanceId: "owner-b", stateId: "another" };
      const besideSilent = await store.insertRun(newRun(beside), -1);
      const besideGivenUp = await store.insertRun(newRun(beside), -defaults.hostLostMs);
      const unsaid = await store.insertRun(newRun({ ...beside, stateId: null }), -1);
      const ownElsewhere = await store.insertRun(newRun({ ...elsewhere, ownerInstanceId: "owner-a" }), -1);
      const found = (await other.listUnattendedRuns("owner-a", THIS_HOST)).map(({ runId }) => runId);
      const expected = store.shared
        ? [own, expired, unsaid, ownElsewhere]
        : [own, expired, before, healthy, silent, givenUp, besideSilent, besideGivenUp, unsaid, ownElsewhere];
      expect(found.toSorted()).toEqual(expected.map(({ runId }) => runId).toSorted());
      const lost = await other.listRuns({ states: OPEN_RUN_STATES, silentForMs: defaults.hostLostMs });
      expect(new Set(lost.map(({ runId }) => runId))).toEqual(new Set([givenUp.runId, besideGivenUp.runId]));
    });

    test("a renewal extends all leases of one owner and no others", async () => {
      const first = await store.insertRun(newRun(), 1);
      const alsoMine = await store.insertRun(newRun(), 1);
      const ended = await store.insertRun(newRun(), 1);
      const theirs = await other.insertRun(newRun({ ownerInstanceId: "owner-b" }), 1);
      await store.saveRun(ended, EXITED);
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
  });
}
