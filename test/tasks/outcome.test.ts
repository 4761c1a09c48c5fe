import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import type { AcpTurn } from "../../src/model/acp/session-and-turn.js";
import { ACP_TURN_OUTCOMES } from "../../src/model/enums.js";
import { outcomeOfTurn } from "../../src/tasks/outcome.js";
import { newAcpTurn } from "../support/store/session-samples.js";

const turn = (change: Partial<AcpTurn>): AcpTurn => ({
  ...newAcpTurn("turn_1"),
  sessionId: "ses_1",
  ordinal: 1,
  place: 1,
  state: "ended",
  startedAt: 5,
  endedAt: 9,
  requestId: 1,
  before: null,
  cancel: null,
  stalledAt: null,
  omittedChars: 0,
  outcome: "completed",
  stopReason: "end_turn",
  problem: null,
  text: " I will look. It is 42. ",
  toolCalls: [],
  audit: null,
  contextLost: false,
  keptBytes: 0,
  droppedUpdates: 0,
  ...change,
});
const cancel = { actor: "operator", at: 1, reapTools: false };
const said = "I will look. It is 42.";

describe("the end of a turn as the end of its task", () => {
  const ended: Readonly<Record<string, readonly [Partial<AcpTurn>, object]>> = {
    "it completed": [{}, { status: "succeeded", outcome: "succeeded", summary: said, error: null }],
    "it stopped for an unknown reason": [
      { stopReason: "tired" },
      { status: "succeeded", outcome: "succeeded" },
    ],
    "it ran out of tokens": [
      { stopReason: "max_tokens" },
      { status: "succeeded", outcome: "blocked", summary: said },
    ],
    "it reached the limit of model requests": [{ stopReason: "max_turn_requests" }, { outcome: "blocked" }],
    "it refused": [
      { stopReason: "refusal" },
      { status: "failed", summary: null, error: "the agent refused to continue" },
    ],
    "it was cancelled": [
      { outcome: "cancelled", cancel },
      { status: "cancelled", summary: null, error: "it was cancelled by operator", actor: "operator" },
    ],
    "it was cancelled in the queue": [
      { outcome: "cancelled", startedAt: null, text: "" },
      { status: "cancelled", startedAt: null, error: "it was cancelled" },
    ],
    "its cancel was not confirmed": [{ outcome: "cancel-unconfirmed", cancel }, { status: "cancelled" }],
    "its agent died": [
      { outcome: "interrupted", problem: { code: "ACP_CLOSED", message: "it died" } },
      { status: "failed", summary: null, error: "it died" },
    ],
    "its agent died after a cancel": [{ outcome: "interrupted", cancel }, { status: "cancelled" }],
    "it timed out": [
      { outcome: "failed", problem: { code: "ACP_TIMEOUT", message: "too long" } },
      { status: "timed_out", summary: null, error: "too long" },
    ],
    "its agent did not start": [
      { outcome: "failed", startedAt: null, problem: { code: "SPAWN_FAILED", message: "no such file" } },
      { status: "failed", error: "no such file", startedAt: newAcpTurn("turn_1").createdAt },
    ],
  };
  for (const [name, [change, finish]] of Object.entries(ended))
    test(name, () => expect(outcomeOfTurn(turn(change))).toMatchObject({ type: "finish", at: 9, ...finish }));

  test("every outcome has an end, and an open turn has none", () => {
    for (const outcome of ACP_TURN_OUTCOMES) expect(outcomeOfTurn(turn({ outcome }))).not.toBeNull();
    for (const state of ["queued", "running"] as const) expect(outcomeOfTurn(turn({ state }))).toBeNull();
  });

  test("the result of a long answer is its end", () => {
    const summary = outcomeOfTurn(turn({ text: `${"x".repeat(9_000)} and so it is 42` }))?.summary ?? "";
    expect(summary).toHaveLength(defaults.taskSummaryChars);
    expect(summary.endsWith("so it is 42")).toBe(true);
    expect(summary.startsWith("…")).toBe(true);
  });
});
