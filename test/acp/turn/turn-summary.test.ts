import fc from "fast-check";
import { expect, test } from "vitest";
import { TurnSummary } from "../../../src/acp/turn/turn-summary.js";
import { ReplayFilter } from "../../../src/acp/turn/replay-filter.js";
import type { SessionUpdate } from "../../../src/acp/wire/message.js";
import { TextTail } from "../../../src/text/truncate.js";

const of = (sessionUpdate: string, rest: object = {}, bytes = 100): SessionUpdate => ({
  end: 1,
  bytes,
  sessionId: "s",
  update: { sessionUpdate, ...rest },
});
const said = (text: string): SessionUpdate => of("agent_message_chunk", { content: { type: "text", text } });

function turnOf(...updates: SessionUpdate[]): TurnSummary {
  const turn = new TurnSummary();
  for (const update of updates) turn.apply(update);
  return turn;
}

test("a turn summary has the text, the tool calls and the last plan", () => {
  const turn = turnOf(
    of("agent_thought_chunk", { content: { type: "text", text: "hmm" } }),
    said("Let me "),
    of("tool_call", { toolCallId: "t1", title: "ls", kind: "execute" }),
    of("tool_call_update", { toolCallId: "t1", status: "completed", title: null }),
    of("tool_call_update", { toolCallId: "t2", status: "failed" }),
    of("plan", { entries: [{ content: "first", priority: "high", status: "completed" }] }),
    of("plan", { entries: [{ content: "second", priority: "high", status: "pending" }] }),
    of("usage_update", { used: 5, size: 100 }),
    said("see"),
    of("user_message_chunk", { content: { type: "text", text: "echo" } }),
    of("agent_message_chunk", { content: { type: "image", data: "…" } }),
  );
  expect(turn.text.text).toBe("Let me see[image]");
  expect(turn.tools).toEqual([
    { id: "t1", title: "ls", kind: "execute", status: "completed" },
    { id: "t2", title: "t2", kind: "other", status: "failed" },
  ]);
  expect(turn.plan).toEqual([{ content: "second", status: "pending" }]);
});

test("a turn summary is bounded and does not throw for any update", () => {
  const kinds = [
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "usage_update",
  ];
  const keys = ["content", "toolCallId", "title", "kind", "status", "entries", "used", "size"];
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom(...kinds), fc.dictionary(fc.constantFrom(...keys), fc.jsonValue()))),
      (updates) => void turnOf(...updates.map(([kind, rest]) => of(kind, rest))).tools,
    ),
  );
  const turn = turnOf(
    ...Array.from({ length: 5_000 }, (_, at) =>
      of("tool_call", { toolCallId: `t${at}`, title: "x".repeat(10_000) }),
    ),
    of("tool_call", { toolCallId: "i".repeat(10_000) }),
    of("plan", { entries: Array.from({ length: 5_000 }, () => ({ content: "y" })) }),
    ...Array.from({ length: 20 }, () => said("z".repeat(1_000_000))),
  );
  expect(turn.tools).toHaveLength(1_000);
  expect(turn.tools.at(-1)).toMatchObject({ id: "t4999", title: "x".repeat(1_000) });
  expect(turn.plan).toHaveLength(100);
  expect(turn.text.text).toHaveLength(16_000_000);
  expect(turn.text.omitted).toBe(4_000_000);
});

test("a text tail is the end of the text", () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: fc.constantFrom("a", "é", "😀") })),
      fc.integer({ min: 1, max: 8 }),
      (parts, limit) => {
        const bounded = new TextTail(limit);
        for (const part of parts) bounded.append(part);
        const whole = parts.join("");
        expect(bounded.text).toBe(whole.slice(-limit).replace(/^[\uDC00-\uDFFF]/, ""));
        expect(bounded.omitted + bounded.text.length).toBe(whole.length);
      },
    ),
  );
});

test("replayed history, updates between turns and updates of other sessions are not part of a turn", () => {
  const conversation = new ReplayFilter("s");
  conversation.beginReplay();
  expect(conversation.classify(said("old"))).toBe("replay");
  conversation.endReplay();
  expect(conversation.classify(said("early"))).toBe("between");
  const turn = conversation.beginTurn();
  expect(conversation.classify(said("new"))).toBe("turn");
  expect(conversation.classify({ ...said("other"), sessionId: "other" })).toBeNull();
  conversation.endTurn();
  expect(conversation.classify(said("late"))).toBe("between");
  expect(turn.text.text).toBe("new");
});

test("the activity of a turn is its tool or plan step, or else the text since the last tool", () => {
  const turn = turnOf(said("I will "), said("look."));
  expect(turn.activity).toEqual({ kind: "text", text: "I will look." });
  turn.apply(of("tool_call", { toolCallId: "t1", title: "ls", status: "in_progress" }));
  expect(turn.activity).toEqual({ kind: "step", text: "ls" });
  turn.apply(of("tool_call_update", { toolCallId: "t1", status: "completed" }));
  expect(turn.activity).toEqual({ kind: "step", text: "ls" });
  turn.apply(said("Found it."));
  expect(turn.activity).toEqual({ kind: "text", text: "Found it." });
  turn.apply(of("plan", { entries: [{ content: "mend it", status: "in_progress" }] }));
  expect(turn.activity).toEqual({ kind: "step", text: "mend it" });
  expect(turnOf(said(" \n")).activity).toBeNull();
});
