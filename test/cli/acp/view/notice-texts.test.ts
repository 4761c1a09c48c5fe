import { expect, test } from "vitest";
import {
  auditNotice,
  type ShownTurn,
  toolLine,
  turnExitCode,
} from "../../../../src/cli/acp/view/notice-texts.js";
import { paletteFor } from "../../../../src/cli/print/colours-and-progress.js";

const turn = {
  outcome: "completed",
  stopReason: "end_turn",
  problem: null,
  contextLost: false,
} satisfies Partial<ShownTurn>;

test.each<[Partial<ShownTurn>, number]>([
  [{}, 0],
  [{ stopReason: "refusal" }, 1],
  [{ outcome: "failed", stopReason: null, problem: { code: "ACP_REFUSED", message: "" } }, 1],
  [{ stopReason: "max_tokens" }, 3],
  [{ stopReason: "max_turn_requests" }, 3],
  [{ outcome: "interrupted" }, 121],
  [{ outcome: "cancel-unconfirmed" }, 122],
  [{ contextLost: true }, 123],
  [{ outcome: "failed", problem: { code: "ACP_TIMEOUT", message: "" } }, 124],
  [{ outcome: null }, 125],
  [{ outcome: "cancelled" }, 130],
])("a turn that ended with %j has exit code %i", (end, code) => {
  expect(turnExitCode({ ...turn, ...end })).toBe(code);
});

test("the notice about left processes says what is not known, and names the known processes", () => {
  const tool = { pid: 7, startTime: 1, uniqueId: null, command: "sleep" };
  const audit = { at: 1, left: [], reaped: false, survivors: [], unknown: null };
  const unknown = "its anchor does not answer";
  expect(auditNotice(audit)).toBeNull();
  expect(auditNotice({ ...audit, unknown })?.[0]).toBe(
    "it is not known which processes the turn left running (its anchor does not answer)",
  );
  expect(auditNotice({ ...audit, left: [tool], unknown })?.[0]).toContain(
    ", except 1 process: sleep (pid 7)",
  );
});

test.each(["constructor", "__proto__", "toString", "\u001b[2J"])(
  "the status %j of a tool is shown as text",
  (status) => {
    const line = toolLine({ title: "ls", kind: "execute", status }, 80, paletteFor(1));
    expect(line).toContain("execute: ls");
    expect(line).not.toContain("\u001b[2J");
  },
);
