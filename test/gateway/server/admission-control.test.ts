import { EventEmitter } from "node:events";
import type { Server } from "node:http";
import { Duplex } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { AdmissionControl } from "../../../src/gateway/server/admission-control.js";
import {
  ConnectionLimiter,
  RateLimiter,
  RequestRateLimiter,
} from "../../../src/gateway/server/request-limits.js";
import type { Requester } from "../../../src/sessions/requester.js";
import { newSession, OPEN_SESSION } from "../../support/store/session-samples.js";

const operator: Requester = { kind: "operator", actor: "operator" };
const session = (id: string): Requester => ({
  kind: "session",
  actor: `session:${id}`,
  session: { ...newSession({ id }), ...OPEN_SESSION },
});
const [one, other] = [session("ses_1"), session("ses_2")];

async function turns(count: number): Promise<void> {
  for (let at = 0; at < count; at++) await nextTurn();
}

const never = (): Promise<never> => new Promise<never>(() => undefined);

test("the operator's work starts at once, whatever sessions have queued", async () => {
  const admission = new AdmissionControl({ working: 1, slotMs: 60_000 });
  void admission.run(one, never);
  void admission.run(one, never);
  await turns(3);
  const started: string[] = [];
  void admission.run(operator, async () => void started.push("operator"));
  expect(started).toEqual(["operator"]);
});

test("sessions' work is paced while the operator's work is under way, and starts at once afterwards", async () => {
  const admission = new AdmissionControl({ paceMs: 60_000 });
  const started: string[] = [];
  let answer = (): void => undefined;
  const operators = admission.run(operator, () => new Promise<void>((resolve) => (answer = resolve)));
  void admission.run(one, async () => void started.push("one"));
  await turns(5);
  expect(started).toEqual([]);
  answer();
  await operators;
  await turns(5);
  expect(started).toEqual(["one"]);
});

test("long work of the operator delays no session", async () => {
  const admission = new AdmissionControl({ paceMs: 60_000 });
  void admission.run(operator, never);
  expect(await admission.run(one, async () => "done")).toBe("done");
});

test("sessions take turns, one piece of work in each turn of the event loop", async () => {
  const admission = new AdmissionControl();
  const started: string[] = [];
  const work = (what: string) => async (): Promise<void> => void started.push(what);
  for (let at = 0; at < 3; at++) void admission.run(one, work(`one ${at}`));
  for (let at = 0; at < 2; at++) void admission.run(other, work(`other ${at}`));
  await nextTurn();
  expect(started).toHaveLength(1);
  await turns(10);
  expect(started).toEqual(["one 0", "other 0", "one 1", "other 1", "one 2"]);
});

test("work that takes long frees its slot for the next", async () => {
  const admission = new AdmissionControl({ working: 1, slotMs: 5 });
  void admission.run(one, never);
  expect(await admission.run(one, async () => "done")).toBe("done");
});

test("requests, streams and bytes of one session are limited; another session and the operator are not affected", () => {
  const admission = new AdmissionControl({ requests: 2, streams: 1, bytes: 100 });
  const first = admission.request(one);
  const second = admission.request(one);
  expect(() => admission.request(one)).toThrow(/2 unanswered requests/);
  expect(() => second.countBody(101)).toThrow(/100 bytes/);
  second.countBody(60);
  expect(() => first.countBody(60)).toThrow(/100 bytes/);
  second[Symbol.dispose]();
  second[Symbol.dispose]();
  first.countBody(60);
  admission.request(one);
  const stream = admission.stream(one);
  expect(() => admission.stream(one)).toThrow(/1 open/);
  stream[Symbol.dispose]();
  admission.stream(one);
  admission.stream(other);
  for (let at = 0; at < 10; at++) {
    admission.request(operator).countBody(1_000);
    admission.stream(operator);
  }
});

test("a session that does not read its answers gets no more until it does", async () => {
  const admission = new AdmissionControl({ bytes: 100 });
  const request = admission.request(one);
  request.countAnswer(101);
  let started = false;
  void admission.run(one, async () => void (started = true));
  await turns(5);
  expect(started).toBe(false);
  expect(await admission.run(other, async () => "other")).toBe("other");
  request[Symbol.dispose]();
  await turns(5);
  expect(started).toBe(true);
});

test("each caller has a burst and then a rate of requests per second", () => {
  const budget = new RateLimiter(10, 20);
  const taken = (who: string, now: number, count: number): number =>
    Array.from({ length: count }, () => budget.tryTake(who, now)).filter(Boolean).length;
  expect(taken("one", 0, 100)).toBe(20);
  expect(taken("other", 0, 1)).toBe(1);
  expect(taken("one", 1_000, 100)).toBe(10);
});

test("the operator has a higher rate than a session, whose requests do not count against it", () => {
  const limits = new RequestRateLimiter();
  const refused = (who: Requester, count: number): number =>
    Array.from({ length: count }, () => limits.tryTake(who)).filter((limit) => limit !== null).length;
  expect(refused(one, 2_000)).toBe(0);
  // A refill while the loop runs is at most a few requests.
  expect(refused(one, 1_000)).toBeGreaterThan(500);
  expect(refused(operator, 15_000)).toBe(0);
  expect(refused(other, 1_000)).toBe(0);
});

class Line extends Duplex {
  override _read(): void {}
}

test("connections: the oldest without a request is closed, a session has a limit, and the operator has none", async () => {
  const connections = new ConnectionLimiter(3, 2);
  const server = new EventEmitter() as Server;
  connections.watch(server);
  const connect = (): Duplex => {
    const line = new Line();
    server.emit("connection", line);
    return line;
  };
  const mine = connect();
  connections.assign(mine, operator);
  const idle = Array.from({ length: 4 }, connect);
  expect(idle.map(({ destroyed }) => destroyed)).toEqual([true, false, false, false]);
  expect(mine.destroyed).toBe(false);

  const [first, second, third] = [connect(), connect(), connect()] as const;
  connections.assign(first, one);
  connections.assign(first, one);
  connections.assign(second, one);
  expect(() => connections.assign(third, one)).toThrow(/2 connections/);
  connections.assign(third, other);
  expect(() => connections.assign(connect(), session("ses_3"))).toThrow(/3 connections of all/);
  connections.assign(connect(), operator);
  first.destroy();
  await nextTurn();
  connections.assign(connect(), one);
});
