import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyNoPostgres } from "../../support/store/postgres-server.js";
import { GatewayCluster, PEER_LISTEN_CONFIG } from "../../support/gateway/gateway-cluster.js";

describe.skipIf(whyNoPostgres !== null)("a gateway with a peer listener", { timeout: 240_000 }, () => {
  let cluster: GatewayCluster;
  beforeAll(async () => {
    cluster = await GatewayCluster.open();
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  test("opens although the store is unreachable, and publishes its address with the next heartbeat", async () => {
    const former = await cluster.startGateway();
    await cluster.stopGateway(former);
    await cluster.database.query(`
      create function holdfast.away() returns trigger language plpgsql as
        $$ begin raise exception 'starting up' using errcode = '57P03'; end $$;
      create trigger away before update on holdfast.gateways
        for each row when (new.peer_key is not null) execute function holdfast.away()`);
    await cluster.startGateway(PEER_LISTEN_CONFIG, former.home);
    const address = async () =>
      (await cluster.database.query("select address from holdfast.gateways"))[0]?.["address"];
    expect(await address()).toBeNull();
    await cluster.database.query("drop trigger away on holdfast.gateways");
    await expect.poll(address, { timeout: 30_000 }).toContain("127.0.0.1");
  });
});
