import { describe, expect, test } from "vitest";
import type { NewGateway, NewRemoteStop } from "../../src/model/gateway.js";
import type { Store } from "../../src/store/store.js";
import { EXITED, LEASE_MS, newRun, newRunEvent } from "../support/store/run-samples.js";
import { type TestDatabase, twoSupervisors } from "../support/store/test-database.js";

/** Every field filled in, so that a column that gets lost is noticed. */
export function newGateway(change: Partial<NewGateway> = {}): NewGateway {
  return {
    instanceId: "gw_one",
    hostId: "host",
    hostName: "the höst",
    bootId: "boot",
    pidNamespace: "pid:[1]",
    stateId: "state",
    directory: "64768:12345",
    version: "1.2.3",
    capabilities: {
      platform: "linux",
      arch: "x64",
      tier: "cgroup",
      pty: true,
      limits: ["memory", "pids"],
      anchorProtocol: 2,
    },
    address: { host: "10.0.0.1", port: 4711 },
    peerKey: "c2VjcmV0",
    startedAt: 1_700_000_000_000,
    ...change,
  };
}

/** The contract of every store for hosts and gateways. */
export function gatewayContract(name: string, createDatabase: () => Promise<TestDatabase<Store>>): void {
  describe(`${name} store`, () => {
    let store: Store;
    let other: Store;

    twoSupervisors(createDatabase, (opened) => {
      ({ store, other } = opened);
    });

    test("a registered gateway is read complete; lists omit its key", async () => {
      const gateway = newGateway();
      const before = await store.now();
      expect(await store.registerGateway(gateway)).toBe(true);
      const { heartbeatAt, ...rest } = (await other.getGateway("gw_one")) ?? expect.fail("no gateway");
      expect(rest).toEqual({ ...gateway, stoppedAt: null });
      expect(heartbeatAt).toBeGreaterThanOrEqual(before);
      expect(heartbeatAt).toBeLessThanOrEqual(await store.now());
      const { peerKey: _, directory: __, ...shown } = rest;
      expect(await other.listGateways()).toEqual([{ ...shown, heartbeatAt }]);
      expect(await other.getGateway("gw_two")).toBeNull();
    });

    test("a gateway sends heartbeats, and its next incarnation replaces the former", async () => {
      await store.registerGateway(newGateway());
      const first = (await other.getGateway("gw_one"))?.heartbeatAt ?? 0;
      while ((await store.now()) <= first);
      expect(await store.heartbeatGateway("gw_one")).toBe(true);
      expect((await other.getGateway("gw_one"))?.heartbeatAt).toBeGreaterThan(first);
      expect(await store.heartbeatGateway("gw_unknown")).toBe(false);
      await store.retireGateway("gw_one");
      expect(await store.heartbeatGateway("gw_one")).toBe(false);
      // Peers must not connect to it any more.
      const gone = { stoppedAt: expect.any(Number) as number, address: null, peerKey: null };
      expect(await other.getGateway("gw_one")).toMatchObject(gone);
      const next = newGateway({ bootId: "next", version: "2.0.0", address: null, peerKey: null });
      expect(await other.registerGateway(next)).toBe(true);
      expect(await store.getGateway("gw_one")).toMatchObject({ ...next, stoppedAt: null });
      expect(await store.listGateways()).toHaveLength(1);
      expect(await store.listGateways({ stateId: "state" })).toHaveLength(1);
      expect(await store.listGateways({ stateId: "another" })).toEqual([]);
    });

    test.each([
      ["on another host", { hostId: "another", hostName: "another" }],
      ["beside it", { directory: "64768:99" }],
    ])(
      "a copy of a state directory %s does not replace the original while that one sends heartbeats",
      async (...[, place]) => {
        await store.registerGateway(newGateway());
        const copy = newGateway(place);
        // A file is not shared with another host or directory, so there the directory has moved.
        expect(await other.registerGateway(copy)).toBe(!store.shared);
        expect(await store.getGateway("gw_one")).toMatchObject(store.shared ? newGateway() : copy);
        expect(await store.listHosts()).toHaveLength(store.shared || copy.hostId === "host" ? 1 : 2);
        await store.retireGateway("gw_one");
        expect(await other.registerGateway(copy)).toBe(true);
      },
    );

    test("a killed gateway registers again at once in its own directory, also after a reboot", async () => {
      await store.registerGateway(newGateway());
      for (const change of [{}, { bootId: "next", pidNamespace: "pid:[2]" }]) {
        const next = newGateway({ ...change, startedAt: 1_800_000_000_000 });
        expect(await other.registerGateway(next)).toBe(true);
        expect(await store.getGateway("gw_one")).toMatchObject(next);
      }
    });

    test("a stopped gateway sends no heartbeat", async () => {
      await store.registerGateway(newGateway());
      const before = (await other.getGateway("gw_one"))?.heartbeatAt ?? expect.fail("not announced");
      await expect.poll(() => store.now()).toBeGreaterThan(before);
      await store.retireGateway("gw_one");
      expect((await other.getGateway("gw_one"))?.heartbeatAt).toBeGreaterThan(before);
    });

    test("a gateway is deleted once", async () => {
      await store.registerGateway(newGateway());
      expect(await other.deleteGateway("gw_one")).toBe(true);
      expect(await other.deleteGateway("gw_one")).toBe(false);
      expect(await store.listGateways()).toEqual([]);
    });

    test("silent gateways without an open run are deleted, and hosts without records", async () => {
      for (const each of ["idle", "busy"])
        await store.registerGateway(
          newGateway({ instanceId: `gw_${each}`, hostId: each, stateId: each, hostName: each }),
        );
      const named = async (): Promise<string[]> => [
        ...(await other.listGateways()).map(({ instanceId }) => instanceId),
        ...(await other.listHosts()).map(({ hostId }) => hostId),
      ];
      const all = await named();
      const lease = await store.insertRun(newRun({ hostId: "busy", stateId: "busy" }), LEASE_MS);
      for (const each of ["gw_idle", "gw_busy"]) await store.retireGateway(each);
      expect(await other.deleteSilentGateways(60_000)).toBe(0);
      expect(await named()).toEqual(all);
      // Everything is older than a time to come.
      expect(await other.deleteSilentGateways(-60_000)).toBe(1);
      expect(await named()).toEqual(["gw_busy", "busy"]);
      await store.saveRun(lease, EXITED);
      expect(await other.deleteSilentGateways(-60_000)).toBe(1);
      // Its name is still needed.
      expect(await named()).toEqual(["busy"]);
      await store.deleteRuns([lease.runId]);
      await other.deleteSilentGateways(-60_000);
      expect(await named()).toEqual([]);
    });

    test("a gateway that registers again before its deletion keeps its row", async () => {
      await store.registerGateway(newGateway());
      expect(await other.deleteGateway("gw_one", 60_000)).toBe(false);
      expect(await store.heartbeatGateway("gw_one")).toBe(true);
      await store.retireGateway("gw_one");
      expect(await other.deleteGateway("gw_one", 60_000)).toBe(true);
    });

    test("hosts are registered by supervisors and gateways, with their newest name", async () => {
      await store.registerHost({ hostId: "b", name: "beta", platform: "linux" });
      await store.registerGateway(newGateway({ hostId: "a", hostName: "alpha" }));
      const named = async (): Promise<string[]> =>
        (await other.listHosts()).map((host) => `${host.hostId} ${host.name} ${host.platform}`);
      expect(await named()).toEqual(["a alpha linux", "b beta linux"]);
      const [, before] = await other.listHosts();
      await store.registerHost({ hostId: "b", name: "beta", platform: "linux" });
      expect((await other.listHosts())[1]).toEqual(before);
      await store.registerHost({ hostId: "b", name: "aardvark", platform: "linux" });
      expect(await named()).toEqual(["b aardvark linux", "a alpha linux"]);
      expect((await other.listHosts())[0]?.firstSeenAt).toBe(before?.firstSeenAt);
    });

    test("open runs are counted by owner", async () => {
      for (const ownerInstanceId of ["in_a", "in_a", "in_b"])
        await store.insertRun(newRun({ ownerInstanceId }), LEASE_MS);
      const ended = await store.insertRun(newRun({ ownerInstanceId: "in_c" }), LEASE_MS);
      await store.saveRun(ended, EXITED);
      expect(await other.countOpenRunsByOwner()).toEqual(
        new Map([
          ["in_a", 2],
          ["in_b", 1],
        ]),
      );
    });
  });
}

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

/** The contract of every store for what gateways hand to each other, whatever the database. */
export function commandContract(name: string, createDatabase: () => Promise<TestDatabase<Store>>): void {
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
