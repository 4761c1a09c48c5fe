import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { StopRequest } from "../../../src/anchor/host-interface.js";
import { systemClock } from "../../../src/async/clock.js";
import { Deadlines } from "../../../src/supervisor/run/deadlines.js";

const HOUR = 3_600_000;
let stops: StopRequest[];

beforeEach(() => {
  stops = [];
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function deadlines(overallMs: number | null, noOutputMs: number | null): Deadlines {
  return new Deadlines(systemClock, { overallMs, noOutputMs }, (stop) => stops.push(stop));
}
const reasons = (): string[] => stops.map(({ reason }) => reason);
const manual: StopRequest = { reason: "manual-cancel", actor: "me", requestId: "1", graceMs: null };

test("the overall deadline counts from the start of the command, with or without output", () => {
  const tree = deadlines(1_000, null);
  vi.advanceTimersByTime(5_000);
  tree.arm();
  for (let at = 0; at < 9; at++) {
    vi.advanceTimersByTime(100);
    tree.recordProgress();
  }
  expect(reasons()).toEqual([]);
  vi.advanceTimersByTime(101);
  expect(stops).toEqual([{ reason: "overall-timeout", actor: "deadline", requestId: "", graceMs: null }]);
});

test("time used before a restart counts", () => {
  const tree = deadlines(1_000, null);
  tree.arm(900);
  vi.advanceTimersByTime(99);
  expect(reasons()).toEqual([]);
  vi.advanceTimersByTime(2);
  expect(reasons()).toEqual(["overall-timeout"]);
});

test("a deadline that has passed fires at once", () => {
  deadlines(1_000, null).arm(5_000);
  expect(reasons()).toEqual(["overall-timeout"]);
});

test("the no-output deadline counts from the last output", () => {
  const tree = deadlines(null, 1_000);
  tree.arm();
  for (let at = 0; at < 50; at++) {
    vi.advanceTimersByTime(999);
    tree.recordProgress();
  }
  expect(reasons()).toEqual([]);
  vi.advanceTimersByTime(1_001);
  expect(reasons()).toEqual(["no-output-timeout"]);
});

test("a million outputs use one timer", () => {
  const tree = deadlines(null, 1_000);
  tree.arm();
  for (let at = 0; at < 1_000_000; at++) tree.recordProgress();
  expect(vi.getTimerCount()).toBe(1);
});

test("the no-output deadline is suspended while the anchor does not read, and starts again after", () => {
  const tree = deadlines(null, 1_000);
  tree.arm();
  vi.advanceTimersByTime(900);
  tree.setWithheld(true);
  vi.advanceTimersByTime(HOUR);
  expect(reasons()).toEqual([]);
  tree.setWithheld(false);
  vi.advanceTimersByTime(999);
  expect(reasons()).toEqual([]);
  vi.advanceTimersByTime(2);
  expect(reasons()).toEqual(["no-output-timeout"]);
});

test("the first reason disables the others", () => {
  const tree = deadlines(1_000, 500);
  tree.arm();
  vi.advanceTimersByTime(HOUR);
  expect(reasons()).toEqual(["no-output-timeout"]);
  expect(tree.requestStop(manual)).toBe(false);
  expect(vi.getTimerCount()).toBe(0);
});

test("a manual stop disables both deadlines", () => {
  const tree = deadlines(1_000, 500);
  tree.arm();
  expect(tree.requestStop(manual)).toBe(true);
  expect(tree.requestStop({ ...manual, requestId: "2" })).toBe(false);
  vi.advanceTimersByTime(HOUR);
  expect(stops).toEqual([manual]);
  expect(vi.getTimerCount()).toBe(0);
});

test("a stop before the start prevents the deadlines", () => {
  const tree = deadlines(1_000, 500);
  tree.requestStop(manual);
  tree.arm();
  expect(vi.getTimerCount()).toBe(0);
});

test("a limit beyond the maximum of a timer does not fire early", () => {
  const tree = deadlines(60 * 24 * HOUR, null);
  tree.arm();
  vi.advanceTimersByTime(59 * 24 * HOUR);
  expect(reasons()).toEqual([]);
  vi.advanceTimersByTime(24 * HOUR + 1_000);
  expect(reasons()).toEqual(["overall-timeout"]);
});

test("after the end nothing fires and no timer is left", () => {
  const tree = deadlines(1_000, 500);
  tree.arm();
  tree.dispose();
  tree.recordProgress();
  tree.arm();
  tree.dispose();
  vi.advanceTimersByTime(HOUR);
  expect(reasons()).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});
