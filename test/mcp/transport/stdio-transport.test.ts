import { PassThrough } from "node:stream";
import { createInterface } from "node:readline";
import { setImmediate } from "node:timers/promises";
import type { JSONRPCMessage } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { StdioTransport } from "../../../src/mcp/transport/stdio-transport.js";
import { waitFor } from "../../support/wait-for.js";

interface Answer {
  readonly id: unknown;
  readonly error?: { readonly code: number };
}

function openTransport(limits = { messageBytes: 1_000, unansweredRequests: 10, unansweredBytes: 5_000 }) {
  const input = new PassThrough();
  const output = new PassThrough();
  const transport = new StdioTransport(input, output, limits);
  const received: JSONRPCMessage[] = [];
  const answers: Answer[] = [];
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- it is no event target
  transport.onmessage = (message) => void received.push(message);
  createInterface({ input: output }).on("line", (line) => void answers.push(JSON.parse(line) as Answer));
  void transport.start();
  return { input, output, transport, received, answers };
}

const request = (id: number, text = ""): string =>
  `${JSON.stringify({ jsonrpc: "2.0", id, method: "ping", params: { text } })}\n`;

test("lines that are no messages are answered, and the next message is delivered", async () => {
  const { input, received, answers } = openTransport();
  input.write("rubbish\u0000\n\n[]\n{}\n42\n");
  input.write(Buffer.from([0xff, 0xfe, 0x0a]));
  input.write('{"jsonrpc":"2.0","id":"a","method":5}\n');
  input.write(request(1));
  await waitFor("the message is delivered", () => received.length === 1);
  await waitFor("every line is answered", () => answers.length === 6);
  expect(answers.map(({ id, error }) => [id, error?.code])).toEqual([
    [null, -32_700],
    [null, -32_600],
    [null, -32_600],
    [null, -32_600],
    [null, -32_700],
    ["a", -32_600],
  ]);
});

test("a line beyond the limit is skipped however it arrives, and costs no memory", async () => {
  const { input, received, answers } = openTransport();
  const part = "x".repeat(10_000);
  for (let at = 0; at < 100; at++) input.write(part);
  input.write(`\n${request(1)}`);
  await waitFor("the next message is delivered", () => received.length === 1);
  expect(answers).toMatchObject([{ id: null, error: { code: -32_600 } }]);
});

test("a message may arrive in pieces, also in the middle of a character", async () => {
  const { input, received } = openTransport();
  for (const byte of Buffer.from(request(1, "é😀"))) input.write(Buffer.from([byte]));
  await waitFor("the message is delivered", () => received.length === 1);
  expect(received).toMatchObject([{ params: { text: "é😀" } }]);
});

test("a flood is not read while its requests are unanswered, and continues when they are", async () => {
  const { input, transport, received } = openTransport();
  for (let id = 0; id < 1_000; id++) input.write(request(id));
  await waitFor("some are delivered", () => received.length >= 10);
  // One chunk was read at a time; the rest waits in the pipe.
  const atFirst = received.length;
  expect(atFirst).toBeLessThan(1_000);
  for (let id = 0; id < 1_000; id++) {
    await waitFor("it is delivered", () => received.length > id);
    await transport.send({ jsonrpc: "2.0", id, result: {} });
  }
  expect(received).toHaveLength(1_000);
});

test("a cancelled request counts as answered, and two with the same id count once", async () => {
  const { input, received } = openTransport();
  const cancel = (id: number): string =>
    `${JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } })}\n`;
  for (let id = 0; id < 30; id++) input.write(request(id) + cancel(id));
  for (let at = 0; at < 30; at++) input.write(request(99));
  await waitFor("all are delivered", () => received.length === 90);
});

test("nothing is read, and nothing more is to be sent, while the client does not read its answers", async () => {
  const { input, output, transport, received } = openTransport();
  output.pause();
  let sent = Promise.resolve();
  let isSent = false;
  while (!output.writableNeedDrain)
    sent = transport.send({ jsonrpc: "2.0", method: "x", params: { text: "y".repeat(1_000) } });
  void sent.then(() => (isSent = true));
  input.write(request(1));
  expect(input.isPaused()).toBe(true);
  expect(received).toEqual([]);
  await setImmediate();
  expect(isSent).toBe(false);
  output.resume();
  await waitFor("the message is delivered", () => received.length === 1);
  await sent;
});

test("the end of the input ends the transport", async () => {
  const { input, transport } = openTransport();
  input.end();
  await transport.ended;
});
