import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyNoPostgres } from "../../support/store/postgres-server.js";
import { GatewayCluster, PEER_LISTEN_CONFIG } from "../../support/gateway/gateway-cluster.js";

describe.skipIf(whyNoPostgres !== null)("a gateway that others can reach", { timeout: 240_000 }, () => {
  let cluster: GatewayCluster;
  beforeAll(async () => {
    cluster = await GatewayCluster.open();
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  test("is open although the store goes away before it has said where, which it says with its next beat", async () => {
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
