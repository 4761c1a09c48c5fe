import { expect, test } from "vitest";
import { oneShotResult } from "../../src/agents/one-shot-result.js";
import { defaults } from "../../src/defaults.js";

const well = JSON.stringify({ type: "result", result: "Done.", session_id: "s1", is_error: false });
const badly = JSON.stringify({ type: "result", result: "no key", session_id: "s1", is_error: true });
const nothing = { stdout: "", stderr: "", failure: null };

test("an answer, an error of the agent, and an error of the run", () => {
  expect(oneShotResult("result", { ...nothing, stdout: well })).toEqual({
    text: "Done.",
    error: null,
    agentSessionId: "s1",
  });
  expect(oneShotResult("result", { ...nothing, stdout: badly })).toEqual({
    text: "",
    error: "no key",
    agentSessionId: "s1",
  });
  const failure = "it exited with code 1";
  expect(oneShotResult("result", { stdout: badly, stderr: "noise", failure })).toMatchObject({
    error: "it exited with code 1: no key",
  });
  expect(oneShotResult("result", { stdout: "", stderr: " usage: x\n", failure })).toEqual({
    text: "",
    error: "it exited with code 1: usage: x",
    agentSessionId: null,
  });
  expect(oneShotResult("result", { stdout: "", stderr: "", failure })).toMatchObject({ error: failure });
});

test("an answer before a failure is kept", () => {
  expect(oneShotResult("result", { stdout: well, stderr: "", failure: "no-output-timeout" })).toEqual({
    text: "Done.",
    error: "no-output-timeout",
    agentSessionId: "s1",
  });
});

test("output in an unknown format is returned unchanged", () => {
  expect(oneShotResult("codex", { ...nothing, stdout: " plain words\n" })).toEqual({
    text: "plain words",
    error: null,
    agentSessionId: null,
  });
});

test("secrets in stderr are redacted, and error and answer are limited", () => {
  const stderr = `${"x".repeat(10_000)} OPENAI_API_KEY=sk-verysecretverysecret1234`;
  const { error } = oneShotResult("text", { stdout: "", stderr, failure: "signal" });
  expect(error).not.toContain("verysecret");
  expect(error?.length).toBeLessThan(defaults.agentComplaintChars + 20);
  const stdout = "y".repeat(defaults.messageChars + 5);
  expect(oneShotResult("text", { ...nothing, stdout }).text).toHaveLength(defaults.messageChars);
});

test("a long error is cut, and an invalid session id is ignored", () => {
  const line = (more: object): string => JSON.stringify({ type: "result", result: "x", ...more });
  const result = "y".repeat(2 * defaults.messageChars);
  for (const failure of [null, "it exited with code 1"])
    expect(
      oneShotResult("result", { ...nothing, stdout: line({ is_error: true, result }), failure }).error,
    ).toHaveLength(defaults.messageChars);
  for (const session_id of ["", "-x", "a\0b", "\u001b[2J", "z".repeat(1_000)])
    expect(oneShotResult("result", { ...nothing, stdout: line({ session_id }) }).agentSessionId).toBeNull();
  expect(oneShotResult("result", { ...nothing, stdout: line({ session_id: "0-a" }) }).agentSessionId).toBe(
    "0-a",
  );
});
