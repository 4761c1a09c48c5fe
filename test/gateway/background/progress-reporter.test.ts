import { expect, test } from "vitest";
import { progressText } from "../../../src/gateway/background/progress-reporter.js";

test("the progress of an agent that only writes text is the newest words, on one line of at most 240 characters", () => {
  const long = Array.from({ length: 400 }, (_, at) => `word${at}`).join("\n");
  const text = progressText({ kind: "text", text: long });
  expect(text.length).toBeLessThanOrEqual(240);
  expect(text).toMatch(/^…word\d+ (word\d+ )+word399$/);
  expect(progressText({ kind: "text", text: "Reading\nthe \u001b[31mfile" })).toBe("Reading the file");
  expect(progressText({ kind: "text", text: "x".repeat(1_000) })).toHaveLength(240);
  expect(progressText(null)).toBe("");
});

test("secrets are removed from the progress, also where the summary begins", () => {
  const secret = `sk-ant-${"a1B2c3D4".repeat(8)}`;
  const before = progressText({ kind: "text", text: `API_KEY=${secret} ${"and so on ".repeat(20)}` });
  expect(before).not.toContain("a1B2c3D4");
  expect(progressText({ kind: "step", text: `curl -H "Authorization: Bearer ${secret}"` })).not.toContain(
    "a1B2c3D4",
  );
});
