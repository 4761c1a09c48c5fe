import { expect, test } from "vitest";
import { StderrTail } from "../../../src/acp/agent/exit-reason.js";

const tailOf = (...chunks: (string | Uint8Array)[]): StderrTail => {
  const tail = new StderrTail();
  for (const chunk of chunks) tail.push(Buffer.from(chunk as string));
  tail.finish();
  return tail;
};

test("keeps the newest whole lines for any chunks", () => {
  const lines = Array.from({ length: 50_000 }, (_, at) => `line ${at}`);
  const { text, dropped } = tailOf(...(lines.join("\n").match(/[\s\S]{1,1000}/g) ?? []));
  const kept = text.split("\n");
  expect(kept.at(-1)).toBe("line 49999");
  expect(kept.length + dropped).toBe(50_000);
  expect(kept[0]).toBe(`line ${dropped}`);
  expect(text.length).toBeLessThan(33 * 1024);
});

test("secrets are redacted in cut lines", () => {
  const secret = `sk-${"s3cr3t".repeat(8)}`;
  const { text } = tailOf(
    `Authorization: Bearer ${secret}\n`,
    `${"x".repeat(5_000_000)}${secret}\n`,
    `a ${secret.slice(0, 20)}`,
    secret.slice(20),
  );
  expect(text).not.toContain("s3cr3t");
  expect(text.length).toBeLessThan(3_000);
});

test("text is sanitized, and split characters are joined", () => {
  const bytes = Buffer.from("grün\u001b[31m\n");
  expect(tailOf(bytes.subarray(0, 3), bytes.subarray(3)).text).toBe("grün");
});
