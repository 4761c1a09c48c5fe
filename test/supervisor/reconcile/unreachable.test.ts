import { expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { Decision } from "../../../src/supervisor/reconcile-decision.js";
import { UnreachableTracker } from "../../../src/supervisor/reconcile/unreachable.js";

const decided = (row: Decision["row"]) => new Map([["run", { row, action: "leave", why: "" } as Decision]]);
const LOOK_MS = defaults.reconcileMs;

test("a run is tracked from its first pass while its row stays the same", () => {
  const left = new UnreachableTracker();
  for (let now = 0; now <= 60_000; now += LOOK_MS) left.update("everywhere", decided("stalled"), now);
  expect(left.unreachableMs("run", 60_000)).toBe(60_000);
  left.update("everywhere", decided("elsewhere"), 70_000);
  expect(left.unreachableMs("run", 80_000)).toBe(10_000);
  left.update("everywhere", new Map(), 80_000);
  expect(left.unreachableMs("run", 90_000)).toBe(0);
});

test("an owner that could not renew during a store outage is not stalled", () => {
  const left = new UnreachableTracker();
  left.update("everywhere", decided("stalled"), 0);
  left.update("everywhere", decided("stalled"), LOOK_MS);
  // The store was away.
  const back = LOOK_MS + defaults.stalledWatchMs + 1;
  expect(left.unreachableMs("run", back)).toBe(0);
  left.update("everywhere", decided("stalled"), back);
  expect(left.unreachableMs("run", back + LOOK_MS)).toBe(LOOK_MS);
});

test("silent runs of other hosts stay tracked between the rare passes everywhere", () => {
  const left = new UnreachableTracker();
  left.recordFarPass(new Set(["run"]), defaults.silentPollMs);
  left.update(
    "everywhere",
    new Map([...decided("elsewhere"), ["near", { row: "stalled", action: "leave", why: "" }]]),
    0,
  );
  left.update("here", new Map(), LOOK_MS);
  expect(left.unreachableMs("run", defaults.hostLostMs)).toBe(defaults.hostLostMs);
  expect(left.unreachableMs("near", LOOK_MS)).toBe(0);
  expect(left.isFarPassDue(LOOK_MS)).toBe(false);
  expect(left.isFarPassDue(defaults.silentPollMs)).toBe(true);
  // Its owner has renewed.
  left.recordFarPass(new Set(), 2 * defaults.silentPollMs);
  left.update("everywhere", new Map(), defaults.silentPollMs);
  expect(left.unreachableMs("run", defaults.hostLostMs)).toBe(0);
});
