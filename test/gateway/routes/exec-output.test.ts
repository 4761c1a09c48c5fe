import { expect, test, vi } from "vitest";
import { Spool } from "../../../src/anchor/run-dir/spool.js";
import { readOutputText } from "../../../src/queries/output.js";
import { gatewayForFile, outputText, shellCommand } from "../../support/gateway/real-gateway.js";
import { scaled } from "../../support/scale.js";

const fixture = gatewayForFile();

test("an answer in the background comes without a search for output; a poll has all of it", async () => {
  using read = vi.spyOn(Spool.prototype, "read");
  // Without output, the task has no progress to read.
  const { run, running, output } = await fixture.client.exec({
    body: {
      ...shellCommand("read line; echo early; sleep 60"),
      ...{ stdin: "pipe", background: true, graceMs: 0 },
    },
  });
  expect(read).not.toHaveBeenCalled();
  expect({
    running,
    texts: output.map(({ stream, text, nextOffset }) => [stream, text, nextOffset]),
  }).toEqual({
    running: true,
    texts: [
      ["stdout", "", 0],
      ["stderr", "", 0],
    ],
  });
  await fixture.client.write({ params: run, body: { text: "go\n" } });
  expect(outputText(await fixture.client.poll({ params: run, query: { waitMs: 20_000 } }))).toBe("early\n");
  await fixture.client.kill({ params: run, body: {} });
});

test("a PTY is a terminal of the requested size", async () => {
  const answer = await fixture.client.exec({
    body: { argv: ["sh", "-c", "test -t 0 && test -t 1 && stty size"], pty: true, rows: 31, cols: 101 },
  });
  expect(answer.run.io).toBe("pty");
  expect(outputText(answer)).toBe("31 101\n");
});

test("a command goes verbatim to a shell on a PTY", async () => {
  const answer = await fixture.client.exec({ body: { command: "test -t 1 && echo 'a  b' | tr a c" } });
  expect(outputText(answer)).toBe("c  b\n");
});

test("merged output has the order of the writes", async () => {
  const answer = await fixture.client.exec({
    body: { ...shellCommand("echo 1; echo 2 >&2; echo 3"), merge: true },
  });
  expect(outputText(answer)).toBe("1\n2\n3\n");
});

test("output beyond maxChars is truncated to the newest part, and the answer says so", async () => {
  const answer = await fixture.client.exec({ body: { ...shellCommand("seq 1 1000"), maxChars: 9 } });
  const piece = answer.output.find(({ stream }) => stream === "stdout");
  expect(piece).toMatchObject({ text: "999\n1000\n", offset: 3893 - 9, nextOffset: 3893, skipped: 3893 - 9 });
});

test("truncation does not split a character", async () => {
  const answer = await fixture.client.exec({
    body: { ...shellCommand("printf 'ab😀é'"), maxChars: 2 },
  });
  expect(answer.output[0]).toMatchObject({ text: "é", skipped: 6, nextOffset: 8 });
});

test("truncation is reported also for bytes that are no characters", async () => {
  const bytes = Buffer.alloc(100, 0xff);
  const read = async (_: string, { offset = 0 }) => ({
    stream: "stdout" as const,
    offset,
    bytes: bytes.subarray(offset),
  });
  const piece = await readOutputText(read, "stdout", 0, 50, true);
  expect(piece).toMatchObject({ text: "\uFFFD".repeat(50), offset: 50, skipped: 50, nextOffset: 100 });
});

test("pieces by offset add up to the whole, also if they split characters", async () => {
  const script = `for b in '\\303' '\\251' '\\360\\237' '\\230\\200' 'x' '\\342\\202' '\\254'; do printf "$b"; sleep 0.05; done`;
  const { run } = await fixture.client.exec({ body: { ...shellCommand(script), background: true } });
  let whole = "";
  let stdout = 0;
  for (let ended = false; !ended;) {
    const { output } = await fixture.client.poll({ params: run, query: { stdout, waitMs: 1_000 } });
    const piece = output.find(({ stream }) => stream === "stdout");
    expect(piece?.offset).toBe(stdout);
    whole += piece?.text ?? "";
    stdout = piece?.nextOffset ?? 0;
    ended = piece?.ended ?? true;
  }
  expect(whole).toBe("é😀x€");
});

test("a program that never stops writing does not delay the answer", async () => {
  const before = performance.now();
  const { running, run, output } = await fixture.client.exec({
    body: { argv: ["yes"], yieldMs: 300, maxChars: 10, graceMs: 0 },
  });
  expect(running).toBe(true);
  expect(output[0]).toMatchObject({ text: "y\ny\ny\ny\ny\n" });
  expect(output[0]?.skipped).toBeGreaterThan(0);
  expect(performance.now() - before).toBeLessThan(scaled(4_000));
  expect(await fixture.client.kill({ params: run, body: { graceMs: 0 } })).toMatchObject({
    outcome: "gone",
  });
});

const NOISY = String.raw`printf 'a\033[31mred\033[0m\033]0;title\007\000b\r\nc\rd\342\200\256e\377'`;
const CLEAN = "ared␀b\nc␍d<U+202E>e�";

test("text of exec and poll has no terminal escapes and no control characters, like text of log", async () => {
  const answer = await fixture.client.exec({ body: shellCommand(NOISY) });
  const params = { runId: answer.run.runId };
  const log = await fixture.client.log({ params, query: { offset: 0 } });
  expect(log.text).toBe(CLEAN);
  expect(outputText(answer)).toBe(CLEAN);
  expect(outputText(await fixture.client.poll({ params }))).toBe(CLEAN);
  expect(answer.output[0]).not.toHaveProperty("base64");
});

test("exec and poll return the unchanged bytes on request", async () => {
  const answer = await fixture.client.exec({ body: { ...shellCommand(NOISY), raw: true } });
  const bytes = Buffer.concat([
    Buffer.from("a\u001b[31mred\u001b[0m\u001b]0;title\u0007\0b\r\nc\rd\u202ee"),
    Buffer.from([0xff]),
  ]);
  const polled = await fixture.client.poll({ params: answer.run, query: { raw: "1" } });
  for (const { output } of [answer, polled]) {
    const [stdout] = output;
    expect(stdout?.text).toBe(CLEAN);
    expect(Buffer.from(stdout?.base64 ?? "", "base64")).toEqual(bytes);
    expect(stdout).toMatchObject({ offset: 0, nextOffset: bytes.length });
  }
  const cut = await fixture.client.poll({ params: answer.run, query: { raw: "1", maxChars: 4 } });
  const [newest] = cut.output;
  expect(Buffer.from(newest?.base64 ?? "", "base64")).toEqual(bytes.subarray(newest?.offset));
});
