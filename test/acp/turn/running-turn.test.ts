import { expect, test } from "vitest";
import { turnEndOf } from "../../../src/acp/turn/running-turn.js";

const ADA = { actor: "ada", at: 1, reapTools: false };
const agent = { agent: null, capabilities: null };
const cancelledAnswer = { result: { stopReason: "cancelled" } };

test.each([
  ["after a cancel", ADA, { isAlive: true, isDenied: false }, "cancelled"],
  ["after a denied permission request", null, { isAlive: true, isDenied: true }, "cancelled"],
  ["without either", null, { isAlive: true, isDenied: false }, "interrupted"],
  ["after the death of the process", ADA, { isAlive: false, isDenied: false }, "interrupted"],
] as const)("a turn that its agent ends as cancelled %s", (_, cancel, circumstances, outcome) => {
  const end = turnEndOf({ cancel }, cancelledAnswer, { ...circumstances, agent });
  expect(end).toMatchObject({ outcome, stopReason: "cancelled" });
  expect(end.problem?.code).toBe(outcome === "interrupted" ? "ACP_CLOSED" : undefined);
});
