import { expect, test } from "vitest";
import { SessionWriter } from "../../src/acp/session-writer.js";
import { hostClock } from "../../src/async/clock.js";
import { StateUnusable } from "../../src/errors.js";
import type { AcpStore } from "../../src/store/acp/contract.js";
import type { Store } from "../../src/store/store.js";
import { openSessionFixture } from "../support/sessions/session-fixture.js";
import { AT, newAcpSession, newSession } from "../support/store/session-samples.js";

/** A store whose next writes fail before or after they are done. */
function failing(store: Store, how: ("before" | "after")[]): AcpStore {
  const broken = new StateUnusable("store", "the connection is lost");
  return new Proxy(store, {
    get(target, name) {
      if (name !== "commitAcpChange") {
        const member = Reflect.get(target, name) as unknown;
        return typeof member === "function" ? (member.bind(target) as unknown) : member;
      }
      const commit: AcpStore["commitAcpChange"] = async (...change) => {
        const fails = how.shift();
        if (fails === "before") throw broken;
        const seq = await target.commitAcpChange(...change);
        if (fails === "after") throw broken;
        return seq;
      };
      return commit;
    },
  });
}

test("a failed write is retried, and a write with an unknown result is not repeated", async () => {
  await using world = await openSessionFixture();
  const row = newSession();
  await world.store.createSession(row);
  await world.store.insertAcpSession(newAcpSession(row.id));
  const problems: string[] = [];
  const how: ("before" | "after")[] = ["before", "before", "after", "after"];
  const kept = new SessionWriter(newAcpSession(row.id), {
    store: failing(world.store, how),
    clock: hostClock,
    onWritten: () => undefined,
    onProblem: (message) => problems.push(message),
  });
  const say = (n: number) =>
    kept.commit(() => ({
      session: { end: n },
      updates: [{ turnId: null, at: AT, type: "update", data: n }],
    }));
  // Concurrent writes keep their order.
  expect(await Promise.all([say(1), say(2), say(3)])).toEqual([true, true, true]);
  const updates = await world.store.listAcpUpdates({ sessionId: row.id });
  expect(updates.map(({ seq, data }) => [seq, data])).toEqual([
    [1, 1],
    [2, 2],
    [3, 3],
  ]);
  expect(kept.row).toMatchObject({ end: 3, seq: 3, version: 3 });
  expect(await world.store.getAcpSession(row.id)).toMatchObject({ end: 3, seq: 3, version: 3 });
  expect(problems).toHaveLength(2);
});

test("a write to a session of another gateway is refused, and nothing is written after detach", async () => {
  await using world = await openSessionFixture();
  const row = newSession();
  await world.store.createSession(row);
  await world.store.insertAcpSession(newAcpSession(row.id));
  const parts = {
    store: world.store,
    clock: hostClock,
    onWritten: () => undefined,
    onProblem: () => undefined,
  };
  const kept = new SessionWriter(newAcpSession(row.id), parts);
  const missing = { turnId: "none", from: "queued", set: { state: "running" } } as const;
  expect(await kept.commit(() => ({ turns: [missing] }))).toBe(false);
  await world.store.commitAcpChange(row.id, "in_1", { session: { gatewayInstanceId: "in_2" } });
  await expect(kept.commit(() => ({ session: { end: 9 } }))).rejects.toMatchObject({
    code: "ACP_NOT_HELD",
    heldBy: "in_2",
  });
  await kept.detach();
  const written = kept.commit(() => ({ session: { end: 9 } }));
  expect(await Promise.race([written, hostClock.sleep(50).then(() => "never")])).toBe("never");
});
