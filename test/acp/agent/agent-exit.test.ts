import { expect, test } from "vitest";
import {
  isStoppedByController,
  outcomeWithoutAnswer,
  StderrTail,
} from "../../../src/acp/agent/agent-exit.js";
import type { RunExit } from "../../../src/model/run.js";

const exitBy = (reason: RunExit["reason"], actor: string): RunExit => ({
  ...{ reason, actor, code: null, signal: null, source: "anchor", detail: null, errno: null, limitHit: null },
});

test.each([
  ["protocol-error", exitBy("manual-cancel", "acp: protocol-error"), "failed"],
  ["frame-too-large", exitBy("exit", ""), "failed"],
  ["ended", exitBy("manual-cancel", "acp: ended"), "failed"],
  [null, exitBy("manual-cancel", "acp: protocol-error"), "failed"],
  ["ended", exitBy("exit", ""), "interrupted"],
  ["ended", exitBy("signal", ""), "interrupted"],
  ["ended", exitBy("manual-cancel", "cli:ada"), "interrupted"],
  [null, exitBy("owner-lost", "anchor"), "interrupted"],
  [null, null, "interrupted"],
  ["closed", exitBy("manual-cancel", "acp: closed"), "interrupted"],
] as const)(
  "a turn whose connection closed with %s and whose run ended with %o is %s",
  (reason, exit, outcome) => {
    expect(outcomeWithoutAnswer(false, reason, exit)).toBe(outcome);
    expect(outcomeWithoutAnswer(true, reason, exit)).toBe("cancelled");
  },
);

test("only stops by the controller itself are not cancellations", () => {
  expect(isStoppedByController(exitBy("manual-cancel", "acp: protocol-error"))).toBe(true);
  for (const exit of [exitBy("manual-cancel", "operator"), exitBy("shutdown", "acp: x"), null])
    expect(isStoppedByController(exit)).toBe(false);
});

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
