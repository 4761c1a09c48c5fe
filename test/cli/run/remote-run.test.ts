import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { type RemoteRunOptions, RemoteRun } from "../../../src/cli/run/remote-run.js";
import type { GatewayConnection } from "../../../src/cli/client/connect.js";
import {
  encodeFrame,
  type AttachClientMessage,
  type AttachServerMessage,
  decodeFrame,
} from "../../../src/api/attach-frames.js";
import { createClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { fakeGateway } from "../../support/gateway/fake-gateway.js";
import { waitFor } from "../../support/wait-for.js";

/** One connection of the client to the fake gateway. */
interface Connection {
  readonly socket: WebSocket;
  readonly query: URLSearchParams;
  readonly received: AttachClientMessage[];
  readonly input: { readonly offset: number; readonly text: string }[];
}

/** A fake gateway, which can close the connection at any byte. */
let home: string;
let server: Server;
let calls: Connection[];
let refusal: string | null;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "hf-"));
  server = createServer(fakeGateway("t"));
  calls = [];
  refusal = null;
  const sockets = new WebSocketServer({ noServer: true });
  server.on("upgrade", (request, socket, head) => {
    if (refusal === null)
      sockets.handleUpgrade(request, socket, head, (each) => sockets.emit("connection", each, request));
    else socket.end(`HTTP/1.1 ${refusal}`);
  });
  sockets.on("connection", (socket, { url = "" }) => {
    const call: Connection = {
      socket,
      query: new URL(url, "http://x").searchParams,
      received: [],
      input: [],
    };
    socket.on("message", (data: Buffer, binary: boolean) => {
      if (!binary) return void call.received.push(JSON.parse(data.toString()) as AttachClientMessage);
      const { offset, bytes } = decodeFrame(data);
      call.input.push({ offset, text: bytes.toString() });
    });
    calls.push(call);
  });
  await new Promise<void>((resolve) => server.listen(gatewaySocketPath(home), resolve));
});
afterEach(async () => {
  for (const { socket } of calls) socket.terminate();
  await new Promise((resolve) => server.close(resolve));
  await rm(home, { recursive: true });
});

function refused(code: string): string {
  return `409 No\r\nconnection: close\r\n\r\n${JSON.stringify({ error: { code, message: "no" } })}`;
}

function remoteRun(stopAlone: RemoteRunOptions["stopWithoutGateway"] = async () => null): RemoteRun {
  const connection: GatewayConnection = {
    home,
    token: "t",
    client: createClient({ socketPath: gatewaySocketPath(home), token: "t" }),
  };
  return new RemoteRun({
    runId: "run_000000000000",
    connection,
    reconnect: async () => connection,
    onAttached: () => undefined,
    onLost: () => {},
    onAdopted: () => undefined,
    stopWithoutGateway: stopAlone,
  });
}

async function answered(number: number, accepted: number): Promise<Connection> {
  const answer = await waitFor(`connection ${number}`, async () => calls.length > number).then(
    () => calls[number]!,
  );
  send(answer, { type: "attached", runId: "run_000000000000", state: "running", size: null, accepted });
  return answer;
}

function send({ socket }: Connection, message: AttachServerMessage): void {
  socket.send(JSON.stringify(message));
}

test("acknowledgements are repeated to the next gateway: the command may wait for them", async () => {
  const run = remoteRun();
  const first = await answered(0, 0);
  const output = run.follow({ streams: ["stdout"] });
  first.socket.send(encodeFrame("stdout", 0, Buffer.from("0123456789")));
  expect(Buffer.from((await output.next()).value!.bytes).toString()).toBe("0123456789");
  const next = output.next();
  await waitFor("the first gateway has the acknowledgement", async () =>
    first.received.some((message) => message.type === "ack" && message.offset === 10),
  );
  first.socket.terminate();
  const second = await answered(1, 0);
  expect(second.query.get("stdout")).toBe("10");
  await waitFor("the second gateway has the acknowledgement", async () =>
    second.received.some((message) => message.type === "ack" && message.offset === 10),
  );
  second.socket.send(encodeFrame("stdout", 10, Buffer.from("x")));
  expect((await next).value?.offset).toBe(10);
  run.detach();
});

test("output that was not read is dropped with its connection, and requested again", async () => {
  const run = remoteRun();
  const first = await answered(0, 0);
  first.socket.send(encodeFrame("stdout", 0, Buffer.from("abc")));
  first.socket.send(encodeFrame("stderr", 0, Buffer.from("de")));
  const output = run.follow({ streams: ["stdout"] });
  expect((await output.next()).value?.offset).toBe(0);
  first.socket.terminate();
  const second = await answered(1, 0);
  expect([second.query.get("stdout"), second.query.get("stderr")]).toEqual(["3", "0"]);
  run.detach();
});

test("input continues where the anchor has it; its end, the size and a stop are repeated", async () => {
  const run = remoteRun();
  const first = await answered(0, 0);
  const held = run.write(Buffer.from("abc"));
  await waitFor("the input was sent", async () => first.input.length === 1);
  send(first, { type: "accepted", offset: 3 });
  await held;
  const owed = run.write(Buffer.from("def"));
  await run.closeStdin();
  run.resize({ rows: 5, cols: 6 });
  const cancelled = run.cancel({ actor: "me", graceMs: 7 });
  await waitFor("the stop was sent", async () => first.received.some(({ type }) => type === "stop"));
  send(first, { type: "state", state: "exiting", survivors: [], service: null });
  await cancelled;
  first.socket.terminate();
  const second = await answered(1, 3);
  await waitFor("the end of input was sent again", async () =>
    second.received.some(({ type }) => type === "eof"),
  );
  expect(second.input).toEqual([{ offset: 3, text: "def" }]);
  expect(second.received.filter(({ type }) => type !== "ack")).toEqual([
    { type: "resize", rows: 5, cols: 6 },
    { type: "stop", actor: "me", graceMs: 7 },
    { type: "eof" },
  ]);
  send(second, { type: "accepted", offset: 6 });
  await owed;
  run.detach();
});

test("input that is no longer read is rejected", async () => {
  const run = remoteRun();
  const first = await answered(0, 0);
  const written = run.write(Buffer.from("abc"));
  await waitFor("the input was sent", async () => first.input.length === 1);
  send(first, { type: "unread", message: "no process reads its stdin any more" });
  await expect(written).rejects.toMatchObject({ code: "STDIN_CLOSED" });
  await expect(run.write(Buffer.from("d"))).rejects.toMatchObject({ code: "STDIN_CLOSED" });
  run.detach();
});

test("a gateway that does not own the run yet is retried; RUN_NOT_FOUND is final", async () => {
  refusal = refused("NOT_STEERING");
  const run = remoteRun();
  const asked = once(server, "upgrade");
  await asked;
  refusal = null;
  const first = await answered(0, 0);
  refusal = refused("RUN_NOT_FOUND");
  first.socket.terminate();
  await expect(run.end()).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
});

test.each([
  ["with an answer of ws", "503 Service Unavailable\r\nconnection: close\r\n\r\nService Unavailable"],
  ["with a truncated answer", '409 No\r\ncontent-length: 900\r\nconnection: close\r\n\r\n{"error":'],
])("a gateway that refuses while it stops, %s, is retried", async (_, answer) => {
  refusal = answer;
  const run = remoteRun();
  await once(server, "upgrade");
  refusal = null;
  const { socket } = await answered(0, 0);
  socket.close(1000);
  run.detach();
});

test("a stop also goes to the anchor if the gateway does not confirm it, and at once when repeated", async () => {
  const alone: (number | null)[] = [];
  const run = remoteRun(async (graceMs, told) => {
    alone.push(graceMs);
    told();
    return { outcome: "gone", detail: "" };
  });
  const first = await answered(0, 0);
  await waitFor("the client is attached", () => first.received.length > 0);
  const patient = run.cancel({ graceMs: 5_000 });
  await waitFor("the gateway has the stop", () => first.received.some(({ type }) => type === "stop"));
  expect(alone).toEqual([]);
  await run.cancel({ graceMs: 0 });
  expect(alone).toEqual([0]);
  await patient;
  expect(run.state).toBe("exited");
  run.detach();
});

test("a stop that the gateway confirms does not go to the anchor", async () => {
  const run = remoteRun(() => expect.fail("the anchor got the stop, too"));
  const first = await answered(0, 0);
  await waitFor("the client is attached", () => first.received.length > 0);
  const cancelled = run.cancel();
  await waitFor("the gateway has the stop", () => first.received.some(({ type }) => type === "stop"));
  send(first, { type: "state", state: "exiting", survivors: [], service: null });
  await cancelled;
  run.detach();
});

test("a client that finds input of another client sends neither the rest nor the end", async () => {
  const run = remoteRun();
  const first = await answered(0, 0);
  first.socket.terminate();
  const written = run.write(Buffer.from("abc"));
  const second = await answered(1, 9);
  await expect(written).rejects.toMatchObject({ code: "STDIN_CLOSED" });
  await run.closeStdin();
  run.resize({ rows: 5, cols: 6 });
  await waitFor("the resize was sent", () => second.received.some(({ type }) => type === "resize"));
  expect(second.input).toEqual([]);
  expect(second.received.filter(({ type }) => type === "eof")).toEqual([]);
  run.detach();
});
