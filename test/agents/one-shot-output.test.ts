import fc from "fast-check";
import { expect, test } from "vitest";
import { CliOutputStream, parseCliOutput } from "../../src/agents/one-shot-output.js";
import { CLI_OUTPUTS, type CliOutput } from "../../src/config/agents.js";
import { scaled } from "../support/scale.js";

const lines = (...documents: object[]): string =>
  documents.map((document) => `${JSON.stringify(document)}\n`).join("");

/** As each command's documentation shows its output. */
const said: [string, CliOutput, string, object | null][] = [
  [
    "claude: one result",
    "result",
    lines({
      type: "result",
      subtype: "success",
      is_error: false,
      duration_ms: 1234,
      num_turns: 1,
      result: "Hello!",
      session_id: "abc123",
      total_cost_usd: 0.001,
    }),
    { text: "Hello!", sessionId: "abc123", error: null },
  ],
  [
    "claude: a failure",
    "result",
    lines({ type: "result", subtype: "error_max_turns", is_error: true, session_id: "abc123" }),
    { text: "", sessionId: "abc123", error: "error_max_turns" },
  ],
  [
    "claude: a failure in words",
    "result",
    lines({ type: "result", subtype: "success", is_error: true, result: "Invalid API key", session_id: "s" }),
    { text: "", sessionId: "s", error: "Invalid API key" },
  ],
  [
    "cursor: one result",
    "result",
    lines({
      type: "result",
      subtype: "success",
      is_error: false,
      duration_ms: 1234,
      duration_api_ms: 1234,
      result: "Done",
      session_id: "c6b6",
      request_id: "r",
    }),
    { text: "Done", sessionId: "c6b6", error: null },
  ],
  [
    "qwen: an array that ends in a result",
    "result",
    JSON.stringify([
      { type: "system", subtype: "session_start", session_id: "q1", model: "qwen3-coder-plus" },
      { type: "assistant", session_id: "q1", message: { content: [{ type: "text", text: "Paris." }] } },
      { type: "result", subtype: "success", session_id: "q1", is_error: false, result: "Paris." },
    ]),
    { text: "Paris.", sessionId: "q1", error: null },
  ],
  [
    "codex: the last message, whatever was retried before",
    "codex",
    lines(
      { type: "thread.started", thread_id: "0199a213-81c0-7800-8aa1-bbab2a035a53" },
      { type: "turn.started" },
      { type: "error", message: "Reconnecting... 1/5" },
      { type: "item.completed", item: { id: "item_0", type: "reasoning", text: "**Scanning**" } },
      { type: "item.completed", item: { id: "item_1", type: "agent_message", text: "First." } },
      { type: "item.completed", item: { id: "item_3", type: "agent_message", text: "Done." } },
      { type: "turn.completed", usage: { input_tokens: 24_763, output_tokens: 122 } },
    ),
    { text: "Done.", sessionId: "0199a213-81c0-7800-8aa1-bbab2a035a53", error: null },
  ],
  [
    "codex: a failed turn",
    "codex",
    lines(
      { type: "thread.started", thread_id: "t" },
      { type: "turn.failed", error: { message: "model response stream ended unexpectedly" } },
    ),
    { text: "", sessionId: "t", error: "model response stream ended unexpectedly" },
  ],
  [
    "gemini: printed over several lines, after a warning",
    "gemini",
    `Loaded cached credentials.\n${JSON.stringify({ session_id: "g", response: "Paris.", stats: { models: {} } }, null, 2)}\n`,
    { text: "Paris.", sessionId: "g", error: null },
  ],
  [
    "gemini: an error",
    "gemini",
    JSON.stringify({ error: { type: "ApiError", message: "quota exceeded", code: 429 } }),
    { text: "", sessionId: null, error: "quota exceeded" },
  ],
  [
    "opencode: its texts",
    "opencode",
    lines(
      { type: "step_start", timestamp: 1, sessionID: "ses_1", part: { type: "step-start" } },
      { type: "text", timestamp: 2, sessionID: "ses_1", part: { type: "text", text: "Looking." } },
      { type: "tool_use", timestamp: 3, sessionID: "ses_1", part: { tool: "bash" } },
      { type: "text", timestamp: 4, sessionID: "ses_1", part: { type: "text", text: "Found." } },
      { type: "step_finish", timestamp: 5, sessionID: "ses_1", part: { reason: "stop" } },
    ),
    { text: "Looking.\nFound.", sessionId: "ses_1", error: null },
  ],
  [
    "opencode: an error",
    "opencode",
    lines({ type: "error", sessionID: "ses_1", error: { name: "APIError", data: { message: "no key" } } }),
    { text: "", sessionId: "ses_1", error: "no key" },
  ],
  [
    "pi: the last message of the assistant",
    "pi",
    lines(
      { type: "session", version: 3, id: "p1", timestamp: "…", cwd: "/path" },
      { type: "agent_start" },
      { type: "message_end", message: { role: "user", content: "Hello?" } },
      {
        type: "message_end",
        message: {
          role: "assistant",
          stopReason: "stop",
          content: [
            { type: "thinking", thinking: "hm" },
            { type: "text", text: "Hello!" },
          ],
        },
      },
      { type: "agent_end", messages: [] },
    ),
    { text: "Hello!", sessionId: "p1", error: null },
  ],
  [
    "pi: an error",
    "pi",
    lines(
      { type: "session", id: "p1" },
      {
        type: "message_end",
        message: { role: "assistant", content: [], stopReason: "error", errorMessage: "401" },
      },
    ),
    { text: "", sessionId: "p1", error: "401" },
  ],
  ["text", "text", "  The answer.\n", { text: "The answer.", sessionId: null, error: null }],
  ["what failed before it began", "result", "command not logged in\n", null],
  ["nothing at all", "codex", "", null],
];

test.each(said)("%s", (_, output, stdout, result) => {
  expect(parseCliOutput(output, stdout)).toEqual(result);
});

test("any output is parsed without an exception", () => {
  const keys = ["type", "result", "item", "error", "part", "message", "session_id", "sessionID", "response"];
  const types = [
    "result",
    "thread.started",
    "item.completed",
    "turn.failed",
    "error",
    "text",
    "session",
    "message_end",
  ];
  const document = fc.dictionary(
    fc.constantFrom(...keys),
    fc.oneof(fc.jsonValue(), fc.constantFrom(...types)),
  );
  fc.assert(
    fc.property(
      fc.constantFrom(...CLI_OUTPUTS),
      fc.oneof(
        fc.string(),
        fc.array(document).map((all) => lines(...all)),
        fc.array(document).map((all) => JSON.stringify(all)),
      ),
      (output, stdout) => {
        const result = parseCliOutput(output, stdout);
        if (result !== null) expect(typeof result.text).toBe("string");
      },
    ),
  );
});

test.each(["\n", "{\n", "{x}\n", "{}\n", "x\n"])("megabytes of %j are parsed fast", (line) => {
  const stdout = line.repeat((4 * 1024 * 1024) / line.length);
  const begun = performance.now();
  expect(parseCliOutput("result", stdout)).toBeNull();
  expect(performance.now() - begun).toBeLessThan(scaled(3_000));
});

const streamLines = (...documents: readonly object[]): string =>
  documents.map((document) => `${JSON.stringify(document)}\n`).join("");

const streamCases: [CliOutput, string, string][] = [
  ["text", "as it is, é\n", "as it is, é\n"],
  [
    "result",
    streamLines(
      { type: "system", subtype: "init" },
      {
        type: "assistant",
        message: { content: [{ type: "text", text: "Looking.\n" }, { type: "tool_use" }] },
      },
      { type: "user", message: { content: [{ type: "text", text: "a tool's answer" }] } },
      { type: "assistant", message: { content: [{ type: "tool_use" }] } },
      { type: "assistant", message: { content: [{ type: "text", text: "Dône." }] } },
      { type: "result", result: "Dône." },
    ),
    "Looking.\nDône.\n",
  ],
  [
    "codex",
    `warning: no JSON\n${streamLines(
      { type: "item.completed", item: { type: "reasoning", text: "hm" } },
      { type: "item.completed", item: { type: "agent_message", text: "Dône." } },
    )}`,
    "Dône.\n",
  ],
  [
    "opencode",
    streamLines({ type: "text", part: { text: "Dône." } }, { type: "tool_use", part: {} }),
    "Dône.\n",
  ],
  [
    "pi",
    streamLines(
      { type: "message_end", message: { role: "user", content: [{ type: "text", text: "asked" }] } },
      { type: "message_end", message: { role: "assistant", content: [{ type: "text", text: "Dône." }] } },
    ),
    "Dône.\n",
  ],
  ["gemini", streamLines({ response: "Dône." }), ""],
];

test.each(streamCases)("%s: the agent's text, however the bytes are split", (output, text, shown) => {
  const bytes = Buffer.from(text);
  fc.assert(
    fc.property(fc.array(fc.nat({ max: bytes.length })), (cuts) => {
      const stream = new CliOutputStream(output);
      const places = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
      const pieces = places.slice(1).map((end, at) => stream.push(bytes.subarray(places[at], end)));
      expect(pieces.join("")).toBe(shown);
    }),
    { numRuns: 30 },
  );
});

test("an endless line is skipped, and the next one is read", () => {
  const stream = new CliOutputStream("codex");
  const part = Buffer.alloc(1024 * 1024, "x");
  for (let at = 0; at < 20; at++) expect(stream.push(part)).toBe("");
  const next = streamLines({ type: "item.completed", item: { type: "agent_message", text: "here" } });
  expect(stream.push(Buffer.from(`\n${next}`))).toBe("here\n");
});

test("megabytes of other lines are parsed fast", () => {
  const stream = new CliOutputStream("result");
  const begun = performance.now();
  for (const line of ["\n", "x\n"]) expect(stream.push(Buffer.from(line.repeat(500_000)))).toBe("");
  expect(performance.now() - begun).toBeLessThan(scaled(3_000));
});
