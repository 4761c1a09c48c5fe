import fc from "fast-check";
import { expect, test } from "vitest";
import { CliOutputStream } from "../../src/agents/cli-stream.js";
import type { CliOutput } from "../../src/config/agents.js";

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

test.each(streamCases)("%s: what is said, however the bytes come", (output, text, shown) => {
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

test("a line without an end is let go of, and the next is read", () => {
  const stream = new CliOutputStream("codex");
  const part = Buffer.alloc(1024 * 1024, "x");
  for (let at = 0; at < 20; at++) expect(stream.push(part)).toBe("");
  const next = streamLines({ type: "item.completed", item: { type: "agent_message", text: "here" } });
  expect(stream.push(Buffer.from(`\n${next}`))).toBe("here\n");
});

test("megabytes of lines that are no documents take no time", () => {
  const stream = new CliOutputStream("result");
  const begun = performance.now();
  for (const line of ["\n", "x\n"]) expect(stream.push(Buffer.from(line.repeat(500_000)))).toBe("");
  expect(performance.now() - begun).toBeLessThan(3_000);
});
