import { expect, test } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import { applyRunChange, newRunRecord } from "../../../src/store/runs/apply-change.js";
import type { RunChange } from "../../../src/store/runs/contract.js";
import { EXITED, EXITING, GATED, newRun, RUNNING } from "../../support/store/run-samples.js";

const { to: _gated, ...gated } = GATED;
const { to: _exited, at: _at, ...ended } = EXITED;
const early = { ...EXITED, at: RUNNING.at - 5_000 };
const service = { port: 3000, readyAt: null };
const { deadlines, policy } = newRun();

test.each<[string, readonly RunChange[], Partial<RunRecord>]>([
  [
    "every change is kept to the end",
    [GATED, RUNNING, { to: "output", at: 5 }, EXITING, EXITED],
    { ...gated, ...ended, state: "exited", startedAt: RUNNING.at, lastOutputAt: 5, endedAt: EXITED.at },
  ],
  [
    "a run that becomes a service, and ready, keeps its state",
    [
      RUNNING,
      { to: "service", service, deadlines, policy },
      { to: "ready", service: { ...service, readyAt: 7 } },
    ],
    { state: "running", kind: "service", service: { port: 3000, readyAt: 7 } },
  ],
  [
    "a start reported after a stop sets only its time",
    [EXITING, RUNNING],
    { state: "exiting", startedAt: RUNNING.at },
  ],
  [
    "a start reported twice keeps the first time",
    [RUNNING, { ...RUNNING, at: 9 }],
    { startedAt: RUNNING.at },
  ],
  ["no run ends before it started", [RUNNING, early], { endedAt: RUNNING.at }],
  [
    "an end may set the time of the last output",
    [RUNNING, { ...EXITED, lastOutputAt: 8 }],
    { lastOutputAt: 8 },
  ],
])("%s", (_, changes, expected) => {
  const record = newRunRecord(newRun({ createdAt: 1 }), 0);
  expect(changes.reduce(applyRunChange, record)).toMatchObject(expected);
});
