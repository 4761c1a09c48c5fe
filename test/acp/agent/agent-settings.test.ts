import { expect, test } from "vitest";
import {
  listSettings,
  mergeSettings,
  requestForSetting,
  stateAfterSetting,
} from "../../../src/acp/agent/agent-settings.js";
import { EMPTY_AGENT_REPORT } from "../../../src/acp/agent/agent-reported-state.js";
import type { AgentReport } from "../../../src/model/acp/agent-reported-state.js";

const named = (name: string) => ({ name, description: null });
const choices = {
  current: "m1",
  available: [
    { id: "m1", ...named("One") },
    { id: "m2", ...named("Two") },
    { id: "m3", ...named("two") },
  ],
};
const lists: AgentReport = { ...EMPTY_AGENT_REPORT, modes: choices, models: choices };
const options: AgentReport = {
  ...lists,
  options: [
    {
      ...{ id: "llm", ...named("Model"), category: "model", type: "select", current: "a" },
      values: [
        { value: "a", ...named("A one") },
        { value: "b", ...named("B one") },
      ],
    },
    { id: "web", ...named("Web"), category: null, type: "boolean", current: "false", values: [] },
  ],
};
const model = (value: string) => ({ kind: "model", id: "", value }) as const;
const option = (id: string, value: string) => ({ kind: "option", id, value }) as const;

test("the model comes first, because it may change the options", () => {
  expect(listSettings({ options: { a: "1" }, mode: "m", model: "l" }).map(({ kind }) => kind)).toEqual([
    "model",
    "mode",
    "option",
  ]);
});

test("later settings replace earlier ones, option by option", () => {
  const earlier = { model: "a", options: { x: "1", y: "1" } };
  expect(mergeSettings(earlier, { mode: "m", options: { y: "2" } })).toEqual({
    model: "a",
    mode: "m",
    options: { x: "1", y: "2" },
  });
  expect(mergeSettings(null, { mode: "m" })).toEqual({ mode: "m" });
});

test("a model is chosen by id, or by a name that only one has", () => {
  const request = { method: "session/set_model", params: { modelId: "m2" } };
  expect(requestForSetting(lists, model("m2"))).toEqual(request);
  expect(requestForSetting(lists, model("one"))).toBeNull();
  expect(() => requestForSetting(lists, model("two"))).toThrow(
    'the agent does not offer model "two": it offers m1, m2, m3. It was not set',
  );
});

test("a config option of the category takes precedence over the older list", () => {
  expect(requestForSetting(options, model("b"))).toEqual({
    method: "session/set_config_option",
    params: { configId: "llm", value: "b" },
  });
  expect(() => requestForSetting(options, model("m2"))).toThrow(
    'does not offer --model "m2": it offers a, b',
  );
  expect(requestForSetting(options, { kind: "mode", id: "", value: "m3" })).toEqual({
    method: "session/set_mode",
    params: { modeId: "m3" },
  });
});

test("an option that the agent has already, or does not have, needs no request", () => {
  expect(requestForSetting(options, option("web", "off"))).toBeNull();
  expect(requestForSetting(options, option("web", "true"))).toMatchObject({ params: { value: true } });
  expect(() => requestForSetting(options, option("web", "maybe"))).toThrow("--option web is true or false");
  expect(() => requestForSetting(options, option("nix", "1"))).toThrow(
    'config option "nix": it offers llm, web',
  );
  expect(() => requestForSetting(EMPTY_AGENT_REPORT, model("m1"))).toThrow("offers no choice of models");
});

test("an accepted mode or model is the current one", () => {
  const request = { method: "session/set_mode", params: { modeId: "m2" } } as const;
  expect(stateAfterSetting(lists, request)?.modes?.current).toBe("m2");
  expect(stateAfterSetting(EMPTY_AGENT_REPORT, request)).toBeNull();
});
