import { setTimeout } from "node:timers/promises";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { defaults } from "../../../src/defaults.js";
import {
  encodeFrame,
  type AttachClientMessage,
  type AttachServerMessage,
  decodeFrame,
} from "../../../src/api/attach-frames.js";
import { LeaseLost, NotSteering } from "../../../src/errors.js";
import { newRunId } from "../../../src/model/ids.js";
import { waitForRunEnd, gatewayForFile, errorOf, shellCommand } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile();

class Caller {
  readonly #socket: WebSocket;
  readonly said: AttachServerMessage[] = [];
  received = Buffer.alloc(0);
  /** Null: not yet. */
  closed: number | null = null;
  refused = 0;

  constructor(runId: string, query = "") {
    this.#socket = new WebSocket(
      `ws+unix://${fixture.socketPath}:/v1/runs/${runId}/attach?as=caller${query}`,
      {
        headers: { authorization: `Bearer ${fixture.token}` },
      },
    );
    this.#socket.on("error", () => undefined);
    this.#socket.on("unexpected-response", (_, response) => (this.refused = response.statusCode ?? 0));
    this.#socket.on("close", (code) => (this.closed = code));
    this.#socket.on("message", (data: Buffer, binary: boolean) => {
      if (binary) this.received = Buffer.concat([this.received, decodeFrame(data).bytes]);
      else this.said.push(JSON.parse(data.toString()) as AttachServerMessage);
    });
    onTestFinished(() => this.#socket.terminate());
  }

  async attached(): Promise<this> {
    await waitFor("it is attached", () => this.said.some(({ type }) => type === "attached"));
    return this;
  }

  say(message: AttachClientMessage): void {
    this.#socket.send(JSON.stringify(message));
  }

  hangUp(): void {
    this.#socket.terminate();
  }

  send(bytes: Buffer): void {
    this.#socket.send(bytes);
  }

  heard<Type extends AttachServerMessage["type"]>(
    type: Type,
  ): Extract<AttachServerMessage, { type: Type }>[] {
    return this.said.filter(
      (message): message is Extract<AttachServerMessage, { type: Type }> => message.type === type,
    );
  }
}

async function called(script: string): Promise<string> {
  const body = { ...shellCommand(script), stdin: "pipe" as const, foreground: { bufferBytes: 1024 * 1024 } };
  return (await fixture.client.exec({ body })).run.runId;
}

describe("a caller", () => {
  test("gets at most one send window beyond its acknowledged offset", async () => {
    const size = 6 * 1024 * 1024;
    const caller = await new Caller(await called(`head -c ${size} /dev/zero`)).attached();
    await waitFor("the window is full", () => caller.received.length >= defaults.callerWindowBytes);
    await setTimeout(300);
    expect(caller.received.length).toBeLessThan(defaults.callerWindowBytes + 2 * defaults.followBytes);
    await waitFor("it is all there", () => {
      caller.say({ type: "ack", stream: "stdout", offset: caller.received.length });
      return caller.closed !== null;
    });
    expect({ bytes: caller.received.length, closed: caller.closed }).toEqual({ bytes: size, closed: 1000 });
    expect(caller.heard("ended")[0]?.record?.exit).toMatchObject({ reason: "exit", code: 0 });
  });

  test("can send unacknowledged input again; a gap and garbage are refused", async () => {
    const caller = await new Caller(await called("cat")).attached();
    caller.send(encodeFrame("stdin", 0, Buffer.from("abc")));
    caller.send(encodeFrame("stdin", 1, Buffer.from("bcd")));
    await waitFor("it is accepted", () => caller.heard("accepted").some(({ offset }) => offset === 4));
    caller.send(encodeFrame("stdin", 9, Buffer.from("x")));
    await waitFor("the gap is refused", () => caller.heard("unread").length === 1);
    caller.send(Buffer.from("x"));
    caller.send(encodeFrame("stdout", 0, Buffer.from("x")));
    await waitFor("garbage is refused", () => caller.heard("refused").length === 2);
    caller.say({ type: "eof" });
    await waitFor("it has ended", () => caller.closed === 1000);
    expect(caller.received.toString()).toBe("abcd");
  });

  test("that reconnects continues at its offset, and its old connection is closed", async () => {
    const runId = await called("echo one; cat");
    const first = await new Caller(runId).attached();
    await waitFor("it has the beginning", () => first.received.toString() === "one\n");
    const second = await new Caller(runId, "&stdout=2").attached();
    await waitFor("the old one is closed", () => first.closed !== null);
    await waitFor("it goes on", () => second.received.toString() === "e\n");
    second.say({ type: "stop", actor: "cli:somebody" });
    await waitFor("it has ended", () => second.closed === 1000);
    expect((await waitForRunEnd(fixture.client, runId)).exit?.actor).toBe("cli:somebody");
    const late = new Caller(runId, "&stdout=1");
    await waitFor("the rest is kept", () => late.closed === 1000);
    expect(late.received.toString()).toBe("ne\n");
    expect(late.heard("ended")[0]?.record?.runId).toBe(runId);
  });

  test("is the only writer also of a run that became a service, until it disconnects; then its input offset is lost", async () => {
    const runId = await called("cat");
    const params = { runId };
    const caller = await new Caller(runId).attached();
    caller.send(encodeFrame("stdin", 0, Buffer.from("mine\n")));
    await waitFor("it is accepted", () => caller.heard("accepted").length === 1);
    await fixture.client.adoptRun({ params });
    const typed = { params, body: { text: "theirs\n" } };
    expect(await errorOf(fixture.client.write(typed))).toMatchObject({ code: "NOT_STEERING" });
    caller.hangUp();
    await waitFor("it is everybody's", () =>
      fixture.client.write(typed).then(
        () => true,
        () => false,
      ),
    );
    const back = await new Caller(runId).attached();
    await waitFor("it is told", () => back.heard("unread").length === 1);
    back.send(encodeFrame("stdin", 5, Buffer.from("lost\n")));
    back.say({ type: "eof" });
    await waitFor("it is told again", () => back.heard("unread").length === 2);
    back.hangUp();
    await waitFor("it is still open to others", () =>
      fixture.client.write({ params, body: { text: "more\n", close: true } }).then(
        () => true,
        () => false,
      ),
    );
    const { exit } = await waitForRunEnd(fixture.client, runId);
    expect(exit).toMatchObject({ reason: "exit", code: 0 });
  });

  test("loses neither input nor its end while the run cannot be steered for a moment", async () => {
    const runId = await called("cat");
    const caller = await new Caller(runId).attached();
    const run = fixture.gateway.supervisor.run(runId)!;
    const fenced = new NotSteering(runId, "its lease could not be renewed in time");
    const write = vi.spyOn(run, "write").mockRejectedValueOnce(fenced);
    const close = vi.spyOn(run, "closeStdin").mockRejectedValueOnce(fenced);
    caller.send(encodeFrame("stdin", 0, Buffer.from("one\n")));
    caller.send(encodeFrame("stdin", 4, Buffer.from("two\n")));
    caller.say({ type: "eof" });
    await waitFor("it has ended", () => caller.closed === 1000);
    expect(caller.received.toString()).toBe("one\ntwo\n");
    expect(caller.heard("unread")).toEqual([]);
    expect([write.mock.calls.length, close.mock.calls.length]).toEqual([3, 2]);
  });

  test("is disconnected when its input fails, so that it reconnects and sends it again", async () => {
    const runId = await called("cat");
    const caller = await new Caller(runId).attached();
    vi.spyOn(fixture.gateway.supervisor.run(runId)!, "write").mockRejectedValueOnce(new LeaseLost(runId, 1));
    caller.send(encodeFrame("stdin", 0, Buffer.from("one\n")));
    await waitFor("it is hung up on", () => caller.closed === 1011);
    const back = await new Caller(runId).attached();
    back.send(encodeFrame("stdin", 0, Buffer.from("one\n")));
    back.say({ type: "eof" });
    await waitFor("it has ended", () => back.closed === 1000);
    expect(back.received.toString()).toBe("one\n");
  });

  test("cannot send input with the request", async () => {
    const body = { ...shellCommand("cat"), input: "x", foreground: { bufferBytes: 1024 } };
    expect(await errorOf(fixture.client.exec({ body }))).toMatchObject({
      code: "BAD_INPUT",
      message: expect.stringContaining("only the caller writes to the input") as string,
    });
  });

  test("can attach only to a foreground run", async () => {
    const { run } = await fixture.client.exec({
      body: { ...shellCommand("cat"), stdin: "pipe", background: true },
    });
    const caller = new Caller(run.runId);
    await waitFor("it is refused", () => caller.refused === 400);
    await fixture.client.kill({ params: { runId: run.runId } });
  });
});

test("a requested run id can be used once; a second request gets the state of the first", async () => {
  const runId = newRunId();
  const body = { ...shellCommand("exit 3"), runId };
  expect((await fixture.client.exec({ body })).run.exit?.code).toBe(3);
  expect(await errorOf(fixture.client.exec({ body }))).toMatchObject({ code: "RUN_EXISTS" });
  expect((await fixture.client.getRun({ params: { runId } })).exit?.code).toBe(3);
  expect(await errorOf(fixture.client.exec({ body: { ...body, runId: "run_x" } }))).toMatchObject({
    code: "BAD_INPUT",
  });
});

test("a screen is updated between requests, at the size of the terminal", async () => {
  const { run } = await fixture.client.exec({
    body: {
      ...shellCommand("echo one; read x; echo two; read x; stty size; read x"),
      pty: true,
      rows: 5,
      cols: 30,
      background: true,
    },
  });
  const params = { runId: run.runId };
  const rows = async (): Promise<readonly string[]> => (await fixture.client.screen({ params })).rows;
  await waitFor("the first line is there", async () => (await rows())[0] === "one");
  await fixture.client.write({ params, body: { text: "\n" } });
  await waitFor("the second is", async () => (await rows()).includes("two"));
  await fixture.client.resize({ params, body: { rows: 7, cols: 40 } });
  await fixture.client.write({ params, body: { text: "\n" } });
  await waitFor("and its size", async () => (await rows()).includes("7 40"));
  const [one, two] = await Promise.all([rows(), rows()]);
  expect(one).toEqual(two);
  expect(one?.[0]).toBe("one");
  await fixture.client.kill({ params });
});
