import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyNoPostgres } from "../../store/postgres/server.js";
import { Fleet, REACHABLE } from "./fleet.js";

describe.skipIf(whyNoPostgres !== null)("a gateway that others can reach", { timeout: 60_000 }, () => {
  let fleet: Fleet;
  beforeAll(async () => {
    fleet = await Fleet.open();
  });
  afterAll(() => fleet[Symbol.asyncDispose]());

  test("waits for a store that goes away before it has said where", async () => {
    const former = await fleet.join();
    await fleet.leave(former);
    await fleet.database.query(`
      create function holdfast.away() returns trigger language plpgsql as
        $$ begin raise exception 'starting up' using errcode = '57P03'; end $$;
      create trigger away before update on holdfast.gateways
        for each row when (new.peer_key is not null) execute function holdfast.away()`);
    const started = fleet.join(REACHABLE, former.home);
    const soon = await Promise.race([
      started.then(
        () => "started",
        (error: unknown) => String(error),
      ),
      setTimeout(3_000, "waits"),
    ]);
    await fleet.database.query("drop trigger away on holdfast.gateways");
    expect(soon).toBe("waits");
    await started;
    const [row] = await fleet.database.query("select address from holdfast.gateways");
    expect(row?.["address"]).toContain("127.0.0.1");
  });
});
