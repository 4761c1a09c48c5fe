import { setImmediate } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { contract } from "../../../src/api/contract.js";
import { followNdjson } from "../../../src/api/client.js";
import { StoreAway } from "../../../src/errors.js";
import { EventFollower } from "../../../src/gateway/monitoring/event-follower.js";
import type { RunEvent } from "../../../src/model/run-event.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import { scaled } from "../../support/scale.js";
import {
  type PostgresDatabase,
  type PostgresServer,
  startPostgresServer,
  whyNoPostgres,
} from "../../support/store/postgres-server.js";
import { newRunEvent } from "../../support/store/run-samples.js";

describe("a follower of events", () => {
  const never = new AbortController().signal;
  const eventsReach = async (): Promise<null> => null;
  const listScopedEvents = async (): Promise<never[]> => [];
  /** The next page that is not empty. */
  const next = async (pages: ReturnType<EventFollower["follow"]>): Promise<unknown> => {
    for await (const page of { [Symbol.asyncIterator]: () => ({ next: () => pages.next() }) })
      if (page.length > 0) return page;
    return null;
  };
  const numbered = (seq: number): RunEvent => ({ ...newRunEvent("r", seq), seq });

  test("reads once per wake-up, and not in between", async () => {
    const there = [numbered(1)];
    const listEvents = vi.fn(async ({ after = 0 } = {}) => there.filter(({ seq }) => seq > after));
    const tail = new EventFollower({ listEvents, listScopedEvents, eventsReach });
    const reading = tail.follow(0, {}, never);
    expect(await next(reading)).toMatchObject([{ seq: 1 }]);
    const second = next(reading);
    for (let turn = 0; turn < 100; turn += 1) await setImmediate();
    const looks = listEvents.mock.calls.length;
    there.push(numbered(2));
    for (let turn = 0; turn < 100; turn += 1) await setImmediate();
    expect(listEvents).toHaveBeenCalledTimes(looks);
    tail.wake();
    expect(await second).toMatchObject([{ seq: 2 }]);
  });

  test("misses no event that is committed during a read", async () => {
    const there: RunEvent[] = [];
    const listEvents = vi.fn(async ({ after = 0 } = {}) => {
      const found = there.filter(({ seq }) => seq > after);
      // Too late for this look.
      if (there.length === 0) {
        there.push(numbered(1));
        tail.wake();
      }
      return found;
    });
    const tail = new EventFollower({ listEvents, listScopedEvents, eventsReach });
    expect(await next(tail.follow(0, {}, never))).toMatchObject([{ seq: 1 }]);
  });

  test("continues when an unreachable store is back", async () => {
    let away = true;
    const listEvents = async () => {
      if (away) throw new StoreAway("", "it is away");
      return [numbered(1)];
    };
    const tail = new EventFollower({ listEvents, listScopedEvents, eventsReach });
    const found = next(tail.follow(0, {}, never));
    for (let turn = 0; turn < 10; turn += 1) await setImmediate();
    away = false;
    tail.wake();
    expect(await found).toMatchObject([{ seq: 1 }]);
  });

  test("share one read if they have the same filter and position", async () => {
    const there = [numbered(1)];
    const scoped = vi.fn(async (_: unknown, { after = 0 } = {}) => there.filter(({ seq }) => seq > after));
    const tail = new EventFollower({ listEvents: async () => [], listScopedEvents: scoped, eventsReach });
    const scope = { sessionId: "ses_1", descendants: true, agentIds: [] };
    const followers = Array.from({ length: 50 }, () => tail.follow(0, { scope }, never));
    const pages = await Promise.all(followers.map(next));
    expect(pages).toEqual(followers.map(() => there));
    expect(scoped).toHaveBeenCalledTimes(1);
    const other = { ...scope, sessionId: "ses_2" };
    await next(tail.follow(0, { scope: other }, never));
    expect(scoped).toHaveBeenCalledTimes(2);
  });

  test("ends on abort, waiting or not", async () => {
    const gone = new AbortController();
    const tail = new EventFollower({ listEvents: async () => [], listScopedEvents, eventsReach });
    const waiting = next(tail.follow(0, {}, gone.signal));
    await setImmediate();
    gone.abort();
    expect(await waiting).toBeNull();
    expect(await tail.follow(0, {}, gone.signal).next()).toMatchObject({ done: true });
  });
});

describe.skipIf(whyNoPostgres !== null)("a gateway on PostgreSQL", () => {
  let server: PostgresServer;
  let database: PostgresDatabase;
  beforeAll(async () => {
    server = await startPostgresServer();
    database = await server.createDatabase();
    vi.stubEnv("HOLDFAST_DATABASE_URL", database.url);
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await server[Symbol.asyncDispose]();
  });
  const fixture = gatewayForFile();

  test("gets another host's events by notification, not by polling", { timeout: 240_000 }, async () => {
    await using other = await database.open({ name: "other" });
    const events = followNdjson<RunEvent>(fixture, `${contract.events.path}?follow=1&after=0`);
    const begun = performance.now();
    // Each is waited for before the next is written. Looking every 5 s, this would take 20 s at least.
    for (let at = 1; at <= 5; at += 1) {
      await other.appendEvents([newRunEvent(`r${at}`, at)]);
      expect((await events.next()).value).toMatchObject({ runId: `r${at}` });
    }
    expect(performance.now() - begun).toBeLessThan(scaled(15_000));
    await events.return(false);
  });
});
