import { setTimeout } from "node:timers/promises";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { defaults } from "../../src/defaults.js";
import { frame, type FromViewer, type ToViewer, unframe } from "../../src/gateway/attach-frames.js";
import { LeaseLost, NotSteering } from "../../src/errors.js";
import { newRunId } from "../../src/supervisor/ids.js";
import { gone, oneGateway, refusal, sh, until } from "./real-gateway.js";

const stage = oneGateway();

class Caller {
  readonly #socket: WebSocket;
  readonly said: ToViewer[] = [];
  received = Buffer.alloc(0);
  /** Null: not yet. */
  closed: number | null = null;
  refused = 0;

  constructor(runId: string, query = "") {
    this.#socket = new WebSocket(`ws+unix://${stage.socketPath}:/v1/runs/${runId}/attach?as=caller${query}`, {
      headers: { authorization: `Bearer ${stage.token}` },
    });
    this.#socket.on("error", () => undefined);
    this.#socket.on("unexpected-response", (_, response) => (this.refused = response.statusCode ?? 0));
    this.#socket.on("close", (code) => (this.closed = code));
    this.#socket.on("message", (data: Buffer, binary: boolean) => {
      if (binary) this.received = Buffer.concat([this.received, unframe(data).bytes]);
      else this.said.push(JSON.parse(data.toString()) as ToViewer);
    });
    onTestFinished(() => this.#socket.terminate());
  }

  async attached(): Promise<this> {
    await until("it is attached", () => this.said.some(({ type }) => type === "attached"));
    return this;
  }

  say(message: FromViewer): void {
    this.#socket.send(JSON.stringify(message));
  }

  hangUp(): void {
    this.#socket.terminate();
  }

  send(bytes: Buffer): void {
    this.#socket.send(bytes);
  }

  heard<Type extends ToViewer["type"]>(type: Type): Extract<ToViewer, { type: Type }>[] {
    return this.said.filter((message): message is Extract<ToViewer, { type: Type }> => message.type === type);
  }
}

async function called(script: string): Promise<string> {
  const body = { ...sh(script), stdin: "pipe" as const, foreground: { bufferBytes: 1024 * 1024 } };
  return (await stage.client.exec({ body })).run.runId;
}

describe("a caller", () => {
  test("is sent no more than a window ahead of what it says it has", async () => {
    const size = 6 * 1024 * 1024;
    const caller = await new Caller(await called(`head -c ${size} /dev/zero`)).attached();
    await until("the window is full", () => caller.received.length >= defaults.callerWindowBytes);
    await setTimeout(300);
    expect(caller.received.length).toBeLessThan(defaults.callerWindowBytes + 2 * defaults.followBytes);
    await until("it is all there", () => {
      caller.say({ type: "ack", stream: "stdout", offset: caller.received.length });
      return caller.closed !== null;
    });
    expect({ bytes: caller.received.length, closed: caller.closed }).toEqual({ bytes: size, closed: 1000 });
    expect(caller.heard("ended")[0]?.record?.exit).toMatchObject({ reason: "exit", code: 0 });
  });

  test("sends again what it is not sure of; a gap and garbage are refused", async () => {
    const caller = await new Caller(await called("cat")).attached();
    caller.send(frame("stdin", 0, Buffer.from("abc")));
    caller.send(frame("stdin", 1, Buffer.from("bcd")));
    await until("it is accepted", () => caller.heard("accepted").some(({ offset }) => offset === 4));
    caller.send(frame("stdin", 9, Buffer.from("x")));
    await until("the gap is refused", () => caller.heard("unread").length === 1);
    caller.send(Buffer.from("x"));
    caller.send(frame("stdout", 0, Buffer.from("x")));
    await until("garbage is refused", () => caller.heard("refused").length === 2);
    caller.say({ type: "eof" });
    await until("it has ended", () => caller.closed === 1000);
    expect(caller.received.toString()).toBe("abcd");
  });

  test("that comes back goes on where it was, and its old connection is closed", async () => {
    const runId = await called("echo one; cat");
    const first = await new Caller(runId).attached();
    await until("it has the beginning", () => first.received.toString() === "one\n");
    const second = await new Caller(runId, "&stdout=2").attached();
    await until("the old one is closed", () => first.closed !== null);
    await until("it goes on", () => second.received.toString() === "e\n");
    second.say({ type: "stop", actor: "cli:somebody" });
    await until("it has ended", () => second.closed === 1000);
    expect((await gone(stage.client, runId)).exit?.actor).toBe("cli:somebody");
    const late = new Caller(runId, "&stdout=1");
    await until("the rest is kept", () => late.closed === 1000);
    expect(late.received.toString()).toBe("ne\n");
    expect(late.heard("ended")[0]?.record?.runId).toBe(runId);
  });

  test("keeps its input to itself when a service is made of its run, until it has left; then it has lost its place", async () => {
    const runId = await called("cat");
    const params = { runId };
    const caller = await new Caller(runId).attached();
    caller.send(frame("stdin", 0, Buffer.from("mine\n")));
    await until("it is accepted", () => caller.heard("accepted").length === 1);
    await stage.client.adoptRun({ params });
    const typed = { params, body: { text: "theirs\n" } };
    expect(await refusal(stage.client.write(typed))).toMatchObject({ code: "NOT_STEERING" });
    caller.hangUp();
    await until("it is everybody's", () =>
      stage.client.write(typed).then(
        () => true,
        () => false,
      ),
    );
    const back = await new Caller(runId).attached();
    await until("it is told", () => back.heard("unread").length === 1);
    back.send(frame("stdin", 5, Buffer.from("lost\n")));
    back.say({ type: "eof" });
    await until("it is told again", () => back.heard("unread").length === 2);
    back.hangUp();
    await until("it is still open to others", () =>
      stage.client.write({ params, body: { text: "more\n", close: true } }).then(
        () => true,
        () => false,
      ),
    );
    const { exit } = await gone(stage.client, runId);
    expect(exit).toMatchObject({ reason: "exit", code: 0 });
  });

  test("loses neither input nor its end while the run may not be steered for a moment", async () => {
    const runId = await called("cat");
    const caller = await new Caller(runId).attached();
    const run = stage.gateway.supervisor.run(runId)!;
    const fenced = new NotSteering(runId, "its lease could not be renewed in time");
    const write = vi.spyOn(run, "write").mockRejectedValueOnce(fenced);
    const close = vi.spyOn(run, "closeStdin").mockRejectedValueOnce(fenced);
    caller.send(frame("stdin", 0, Buffer.from("one\n")));
    caller.send(frame("stdin", 4, Buffer.from("two\n")));
    caller.say({ type: "eof" });
    await until("it has ended", () => caller.closed === 1000);
    expect(caller.received.toString()).toBe("one\ntwo\n");
    expect(caller.heard("unread")).toEqual([]);
    expect([write.mock.calls.length, close.mock.calls.length]).toEqual([3, 2]);
  });

  test("is hung up on when its input fails otherwise, so that it comes back and sends it again", async () => {
    const runId = await called("cat");
    const caller = await new Caller(runId).attached();
    vi.spyOn(stage.gateway.supervisor.run(runId)!, "write").mockRejectedValueOnce(new LeaseLost(runId, 1));
    caller.send(frame("stdin", 0, Buffer.from("one\n")));
    await until("it is hung up on", () => caller.closed === 1011);
    const back = await new Caller(runId).attached();
    back.send(frame("stdin", 0, Buffer.from("one\n")));
    back.say({ type: "eof" });
    await until("it has ended", () => back.closed === 1000);
    expect(back.received.toString()).toBe("one\n");
  });

  test("sends its input itself: with the request it is refused", async () => {
    const body = { ...sh("cat"), input: "x", foreground: { bufferBytes: 1024 } };
    expect(await refusal(stage.client.exec({ body }))).toMatchObject({
      code: "BAD_INPUT",
      message: expect.stringContaining("its caller's alone") as string,
    });
  });

  test("has only what was started in the foreground", async () => {
    const { run } = await stage.client.exec({ body: { ...sh("cat"), stdin: "pipe", background: true } });
    const caller = new Caller(run.runId);
    await until("it is refused", () => caller.refused === 400);
    await stage.client.kill({ params: { runId: run.runId } });
  });
});

test("an id of one's own can be used once; then it tells what became of the request", async () => {
  const runId = newRunId();
  const body = { ...sh("exit 3"), runId };
  expect((await stage.client.exec({ body })).run.exit?.code).toBe(3);
  expect(await refusal(stage.client.exec({ body }))).toMatchObject({ code: "RUN_EXISTS" });
  expect((await stage.client.getRun({ params: { runId } })).exit?.code).toBe(3);
  expect(await refusal(stage.client.exec({ body: { ...body, runId: "run_x" } }))).toMatchObject({
    code: "BAD_INPUT",
  });
});

test("what a terminal shows is drawn on from look to look, and at its size", async () => {
  const { run } = await stage.client.exec({
    body: {
      ...sh("echo one; read x; echo two; read x; stty size; read x"),
      pty: true,
      rows: 5,
      cols: 30,
      background: true,
    },
  });
  const params = { runId: run.runId };
  const rows = async (): Promise<readonly string[]> => (await stage.client.screen({ params })).rows;
  await until("the first line is there", async () => (await rows())[0] === "one");
  await stage.client.write({ params, body: { text: "\n" } });
  await until("the second is", async () => (await rows()).includes("two"));
  await stage.client.resize({ params, body: { rows: 7, cols: 40 } });
  await stage.client.write({ params, body: { text: "\n" } });
  await until("and its size", async () => (await rows()).includes("7 40"));
  const [one, two] = await Promise.all([rows(), rows()]);
  expect(one).toEqual(two);
  expect(one?.[0]).toBe("one");
  await stage.client.kill({ params });
});
