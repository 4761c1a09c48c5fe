import { expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { Decision } from "../../../src/supervisor/reconcile/decide.js";
import { Left } from "../../../src/supervisor/reconcile/left.js";

const decided = (row: Decision["row"]) => new Map([["run", { row, action: "leave", why: "" } as Decision]]);
const LOOK_MS = defaults.reconcileMs;

test("what is left alone is watched from the first look on, as long as it stays what it is", () => {
  const left = new Left();
  for (let now = 0; now <= 60_000; now += LOOK_MS) left.keep("everywhere", decided("stalled"), now);
  expect(left.unreachableMs("run", 60_000)).toBe(60_000);
  left.keep("everywhere", decided("elsewhere"), 70_000);
  expect(left.unreachableMs("run", 80_000)).toBe(10_000);
  left.keep("everywhere", new Map(), 80_000);
  expect(left.unreachableMs("run", 90_000)).toBe(0);
});

test("an owner that could not renew while nobody could look is not held to have stalled", () => {
  const left = new Left();
  left.keep("everywhere", decided("stalled"), 0);
  left.keep("everywhere", decided("stalled"), LOOK_MS);
  // The store was away.
  const back = LOOK_MS + defaults.stalledWatchMs + 1;
  expect(left.unreachableMs("run", back)).toBe(0);
  left.keep("everywhere", decided("stalled"), back);
  expect(left.unreachableMs("run", back + LOOK_MS)).toBe(LOOK_MS);
});

test("what is silent elsewhere is watched on between the rare looks at it; what is here is seen at every look", () => {
  const left = new Left();
  left.lookedFar(new Set(["run"]), defaults.silentLookMs);
  left.keep(
    "everywhere",
    new Map([...decided("elsewhere"), ["near", { row: "stalled", action: "leave", why: "" }]]),
    0,
  );
  left.keep("here", new Map(), LOOK_MS);
  expect(left.unreachableMs("run", defaults.hostLostMs)).toBe(defaults.hostLostMs);
  expect(left.unreachableMs("near", LOOK_MS)).toBe(0);
  expect(left.mayLookFar(LOOK_MS)).toBe(false);
  expect(left.mayLookFar(defaults.silentLookMs)).toBe(true);
  // Its owner has renewed.
  left.lookedFar(new Set(), 2 * defaults.silentLookMs);
  left.keep("everywhere", new Map(), defaults.silentLookMs);
  expect(left.unreachableMs("run", defaults.hostLostMs)).toBe(0);
});
