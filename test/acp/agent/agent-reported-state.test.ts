import { expect, test } from "vitest";
import {
  EMPTY_AGENT_REPORT,
  stateAfterAnswer,
  stateAfterUpdates,
} from "../../../src/acp/agent/agent-reported-state.js";
import { defaults } from "../../../src/defaults.js";

const modes = {
  currentModeId: "ask",
  availableModes: [{ id: "ask", name: "Ask", description: "asks first" }, { id: "code" }],
};

test("the answer to session/new reports modes, models and options", () => {
  const result = {
    sessionId: "s",
    modes,
    models: { currentModelId: "m1", availableModels: [{ modelId: "m1", name: "One" }] },
    configOptions: [
      {
        type: "select",
        id: "effort",
        name: "Effort",
        category: "thought_level",
        currentValue: "low",
        options: [
          { group: "g", name: "Group", options: [{ value: "low", name: "Low" }] },
          { value: "high", name: "High" },
        ],
      },
      { type: "boolean", id: "web", name: "Web", currentValue: true },
    ],
  };
  expect(stateAfterAnswer(null, "session/new", { result })).toEqual({
    ...EMPTY_AGENT_REPORT,
    modes: {
      current: "ask",
      available: [
        { id: "ask", name: "Ask", description: "asks first" },
        { id: "code", name: "code", description: null },
      ],
    },
    models: { current: "m1", available: [{ id: "m1", name: "One", description: null }] },
    options: [
      {
        ...{ id: "effort", name: "Effort", description: null, category: "thought_level" },
        ...{ type: "select", current: "low" },
        values: [
          { value: "low", name: "Low", description: null },
          { value: "high", name: "High", description: null },
        ],
      },
      {
        ...{ id: "web", name: "Web", description: null, category: null, type: "boolean", current: "true" },
        values: [],
      },
    ],
  });
});

test("malformed reports are dropped, and long lists are cut", () => {
  const many = Array.from({ length: defaults.acpChoices + 5 }, (_, at) => ({ id: `m${at}`, name: "" }));
  const result = {
    modes: { currentModeId: "m1", availableModes: [7, null, { id: "x".repeat(10_000) }, ...many] },
    models: { currentModelId: 3 },
    configOptions: [
      { id: "a" },
      { type: "select", id: "b", currentValue: 1 },
      "c",
      { type: "later", id: "d" },
    ],
  };
  const state = stateAfterAnswer(null, "session/new", { result });
  expect(state?.modes?.available.length).toBe(defaults.acpChoices - 3);
  expect(state).toMatchObject({ models: null, options: [] });
});

test("answers to other requests, and refusals, change nothing", () => {
  expect(stateAfterAnswer(null, "session/prompt", { result: { modes } })).toBeNull();
  expect(stateAfterAnswer(null, "session/new", { error: { code: 1, message: "" } })).toBeNull();
});

test("a resumed session keeps what its answer does not report; a new one does not", () => {
  const state = { ...EMPTY_AGENT_REPORT, title: "old" };
  expect(stateAfterAnswer(state, "session/resume", { result: { modes } })?.title).toBe("old");
  expect(stateAfterAnswer(state, "session/new", { result: { modes } })?.title).toBeNull();
});

test("updates change the mode, commands, usage and title in order", () => {
  const before = stateAfterAnswer(null, "session/new", { result: { modes } });
  const after = stateAfterUpdates(
    before,
    [
      { sessionUpdate: "current_mode_update", currentModeId: "code" },
      {
        sessionUpdate: "available_commands_update",
        availableCommands: [{ name: "plan", description: "plans", input: { hint: "what" } }, { name: 3 }],
      },
      { sessionUpdate: "usage_update", used: 1, size: 2, cost: { amount: 0.1, currency: "USD" } },
      { sessionUpdate: "session_info_update", title: "first" },
      { sessionUpdate: "session_info_update", title: "second" },
    ].map((update) => ({ update })),
  );
  expect(after).toMatchObject({
    modes: { current: "code" },
    commands: [{ name: "plan", description: "plans", hint: "what" }],
    usage: { used: 1, size: 2, cost: { amount: 0.1, currency: "USD" } },
    title: "second",
  });
});

test("text of the agent does not change the state", () => {
  expect(stateAfterUpdates(null, [{ update: { sessionUpdate: "agent_message_chunk" } }])).toBeNull();
});
