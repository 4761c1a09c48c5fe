import { expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { Decision } from "../../../src/supervisor/reconcile/decide.js";
import { Left } from "../../../src/supervisor/reconcile/left.js";

const decided = (row: Decision["row"]) => new Map([["run", { row, action: "leave", why: "" } as Decision]]);
const LOOK_MS = defaults.reconcileMs;

test("what is left alone is watched from the first look on, as long as it stays what it is", () => {
  const left = new Left();
  for (let now = 0; now <= 60_000; now += LOOK_MS) left.keep(true, decided("stalled"), now);
  expect(left.unreachableMs("run", 60_000)).toBe(60_000);
  left.keep(true, decided("elsewhere"), 70_000);
  expect(left.unreachableMs("run", 80_000)).toBe(10_000);
  left.keep(true, new Map(), 80_000);
  expect(left.unreachableMs("run", 90_000)).toBe(0);
});

test("an owner that could not renew while nobody could look is not held to have stalled", () => {
  const left = new Left();
  left.keep(true, decided("stalled"), 0);
  left.keep(true, decided("stalled"), LOOK_MS);
  // The store was away.
  const back = LOOK_MS + defaults.stalledWatchMs + 1;
  expect(left.unreachableMs("run", back)).toBe(0);
  left.keep(true, decided("stalled"), back);
  expect(left.unreachableMs("run", back + LOOK_MS)).toBe(LOOK_MS);
});
