import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { deferred } from "../../src/async/deferred.js";
import { defaults } from "../../src/defaults.js";
import { StoreAway } from "../../src/errors.js";
import { GatewayRegistration } from "../../src/gateway/registration.js";
import { gatewayStatus, listGatewaysWithStatus } from "../../src/store/gateways/queries.js";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import type { Store } from "../../src/store/store.js";
import { newGateway } from "../contract/gateway-contract.js";
import { LEASE_MS, newRun } from "../support/store/run-samples.js";
import { temporaryDirectory } from "../support/temporary-directory.js";

async function openStore(): Promise<Store> {
  const directory = await temporaryDirectory();
  const store = await openSqliteStore({ path: join(directory.path, "store.sqlite") });
  onTestFinished(async () => {
    await store[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });
  return store;
}

test("a gateway without a record in the store registers again with its next heartbeat", async () => {
  const store = await openStore();
  const presence = new GatewayRegistration(store, newGateway());
  await presence.register();
  await store.deleteGateway("gw_one");
  await presence.heartbeat();
  expect(await store.getGateway("gw_one")).toMatchObject({ version: "1.2.3", stoppedAt: null });
  await presence[Symbol.asyncDispose]();
  expect((await store.getGateway("gw_one"))?.stoppedAt).toBeTypeOf("number");
});

test("the address is written again after a failed write, and after the store may have rolled back", async () => {
  const store = await openStore();
  let generation = 1;
  let away = true;
  const presence = new GatewayRegistration(
    {
      get generation() {
        return generation;
      },
      heartbeatGateway: (id) => store.heartbeatGateway(id),
      retireGateway: (id) => store.retireGateway(id),
      registerGateway: async (gateway) => {
        if (away && gateway.address !== null) throw new StoreAway("", "it is away");
        return store.registerGateway(gateway);
      },
    },
    newGateway({ address: null, peerKey: null }),
  );
  const at = (port: number) => ({ address: { host: "10.0.0.1", port }, peerKey: `key ${port}` });
  const port = async () => (await store.getGateway("gw_one"))?.address?.port;
  await presence.register();
  await expect(presence.setAddress(at(7))).rejects.toThrow(StoreAway);
  away = false;
  await presence.heartbeat();
  expect(await port()).toBe(7);
  await store.registerGateway(newGateway(at(6)));
  await presence.heartbeat();
  expect(await port()).toBe(6);
  generation = 2;
  await presence.heartbeat();
  expect(await port()).toBe(7);
});

test("a late heartbeat does not undo a recorded stop", async () => {
  const store = await openStore();
  const asked = deferred<void>();
  const answer = deferred<void>();
  const slow: Store = Object.create(store, {
    generation: { value: 1 },
    heartbeatGateway: {
      value: async (instanceId: string) => {
        asked.resolve();
        await answer.promise;
        return store.heartbeatGateway(instanceId);
      },
    },
  }) as Store;
  for (const method of ["registerGateway", "retireGateway"] as const)
    Object.defineProperty(slow, method, { value: store[method].bind(store) });
  const presence = new GatewayRegistration(slow, newGateway());
  await presence.register();
  const beat = presence.heartbeat();
  await asked.promise;
  const leaving = presence[Symbol.asyncDispose]();
  // Asked for while it leaves: nothing of it may be there afterwards.
  const late = presence.heartbeat();
  answer.resolve();
  await Promise.all([beat, leaving, late]);
  expect((await store.getGateway("gw_one"))?.stoppedAt).toBeTypeOf("number");
});

test("a gateway is up, silent or unreachable by its last heartbeat, and stopped after its retirement", () => {
  const going = { stoppedAt: null };
  const { leaseMs, stalledOwnerMs } = defaults;
  expect(
    [0, leaseMs, leaseMs + 1, stalledOwnerMs, stalledOwnerMs + 1].map((ms) => gatewayStatus(going, ms)),
  ).toEqual(["up", "up", "silent", "silent", "unreachable"]);
  // A heartbeat on the clock of a boot that is over.
  expect(gatewayStatus(going, null)).toBe("unreachable");
  expect(gatewayStatus({ stoppedAt: 1 }, 0)).toBe("stopped");
});

test("gateways are listed with their open runs and last heartbeat, without their keys", async () => {
  const store = await openStore();
  await store.registerGateway(newGateway({ instanceId: "gw_before", bootId: "before" }));
  await store.registerGateway(newGateway());
  await store.insertRun(newRun({ ownerInstanceId: "gw_one" }), LEASE_MS);
  const [before, one] = await listGatewaysWithStatus(store, "boot", 1_000_000);
  expect(before).toMatchObject({ presence: "unreachable", lastHeardAt: null, runs: 0 });
  expect(one).toMatchObject({ presence: "up", runs: 1 });
  expect(one?.lastHeardAt).toBeGreaterThan(1_000_000 - defaults.leaseMs);
  expect(JSON.stringify([before, one])).not.toContain("peerKey");
});
