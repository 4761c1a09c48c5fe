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

/** What a gateway hears on one connection. */
interface Call {
  readonly socket: WebSocket;
  readonly asked: URLSearchParams;
  readonly said: AttachClientMessage[];
  readonly input: { readonly offset: number; readonly text: string }[];
}

/** The other end, where the moment at which a gateway dies can be chosen to the byte. */
let home: string;
let server: Server;
let calls: Call[];
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
    const call: Call = { socket, asked: new URL(url, "http://x").searchParams, said: [], input: [] };
    socket.on("message", (data: Buffer, binary: boolean) => {
      if (!binary) return void call.said.push(JSON.parse(data.toString()) as AttachClientMessage);
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

function calledRun(stopAlone: RemoteRunOptions["stopWithoutGateway"] = async () => null): RemoteRun {
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

async function answered(number: number, accepted: number): Promise<Call> {
  const answer = await waitFor(`connection ${number}`, async () => calls.length > number).then(
    () => calls[number]!,
  );
  tell(answer, { type: "attached", runId: "run_000000000000", state: "running", size: null, accepted });
  return answer;
}

function tell({ socket }: Call, message: AttachServerMessage): void {
  socket.send(JSON.stringify(message));
}

test("what was written is said again to the next gateway: the command may wait for it", async () => {
  const run = calledRun();
  const first = await answered(0, 0);
  const output = run.follow({ streams: ["stdout"] });
  first.socket.send(encodeFrame("stdout", 0, Buffer.from("0123456789")));
  expect(Buffer.from((await output.next()).value!.bytes).toString()).toBe("0123456789");
  const next = output.next();
  await waitFor("it was told once", async () =>
    first.said.some((said) => said.type === "ack" && said.offset === 10),
  );
  first.socket.terminate();
  const second = await answered(1, 0);
  expect(second.asked.get("stdout")).toBe("10");
  await waitFor("it was told again", async () =>
    second.said.some((said) => said.type === "ack" && said.offset === 10),
  );
  second.socket.send(encodeFrame("stdout", 10, Buffer.from("x")));
  expect((await next).value?.offset).toBe(10);
  run.detach();
});

test("what has arrived but was not taken is forgotten with its connection, and asked for again", async () => {
  const run = calledRun();
  const first = await answered(0, 0);
  first.socket.send(encodeFrame("stdout", 0, Buffer.from("abc")));
  first.socket.send(encodeFrame("stderr", 0, Buffer.from("de")));
  const output = run.follow({ streams: ["stdout"] });
  expect((await output.next()).value?.offset).toBe(0);
  first.socket.terminate();
  const second = await answered(1, 0);
  expect([second.asked.get("stdout"), second.asked.get("stderr")]).toEqual(["3", "0"]);
  run.detach();
});

test("input goes on where the anchor has it; its end, the size and a stop are said again", async () => {
  const run = calledRun();
  const first = await answered(0, 0);
  const held = run.write(Buffer.from("abc"));
  await waitFor("it was sent", async () => first.input.length === 1);
  tell(first, { type: "accepted", offset: 3 });
  await held;
  const owed = run.write(Buffer.from("def"));
  await run.closeStdin();
  run.resize({ rows: 5, cols: 6 });
  const cancelled = run.cancel({ actor: "me", graceMs: 7 });
  await waitFor("all was said", async () => first.said.some(({ type }) => type === "stop"));
  tell(first, { type: "state", state: "exiting", survivors: [], service: null });
  await cancelled;
  first.socket.terminate();
  const second = await answered(1, 3);
  await waitFor("all was said again", async () => second.said.some(({ type }) => type === "eof"));
  expect(second.input).toEqual([{ offset: 3, text: "def" }]);
  expect(second.said.filter(({ type }) => type !== "ack")).toEqual([
    { type: "resize", rows: 5, cols: 6 },
    { type: "stop", actor: "me", graceMs: 7 },
    { type: "eof" },
  ]);
  tell(second, { type: "accepted", offset: 6 });
  await owed;
  run.detach();
});

test("input that nobody takes any more is refused to its writer", async () => {
  const run = calledRun();
  const first = await answered(0, 0);
  const written = run.write(Buffer.from("abc"));
  await waitFor("it was sent", async () => first.input.length === 1);
  tell(first, { type: "unread", message: "no process reads its stdin any more" });
  await expect(written).rejects.toMatchObject({ code: "STDIN_CLOSED" });
  await expect(run.write(Buffer.from("d"))).rejects.toMatchObject({ code: "STDIN_CLOSED" });
  run.detach();
});

test("a gateway that does not hold the run yet is asked again; one that knows of none is believed", async () => {
  refusal = refused("NOT_STEERING");
  const run = calledRun();
  const asked = once(server, "upgrade");
  await asked;
  refusal = null;
  const first = await answered(0, 0);
  refusal = refused("RUN_NOT_FOUND");
  first.socket.terminate();
  await expect(run.end()).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
});

test.each([
  ["in ws's own words", "503 Service Unavailable\r\nconnection: close\r\n\r\nService Unavailable"],
  ["in half a word", '409 No\r\ncontent-length: 900\r\nconnection: close\r\n\r\n{"error":'],
])("a gateway that refuses while it stops, %s, is not the last one", async (_, answer) => {
  refusal = answer;
  const run = calledRun();
  await once(server, "upgrade");
  refusal = null;
  const { socket } = await answered(0, 0);
  socket.close(1000);
  run.detach();
});

test("a stop goes to the anchor too when the gateway does not heed it, and at once when it is asked for again", async () => {
  const alone: (number | null)[] = [];
  const run = calledRun(async (graceMs, told) => {
    alone.push(graceMs);
    told();
    return { outcome: "gone", detail: "" };
  });
  const first = await answered(0, 0);
  await waitFor("it is attached", () => first.said.length > 0);
  const patient = run.cancel({ graceMs: 5_000 });
  await waitFor("the gateway was told", () => first.said.some(({ type }) => type === "stop"));
  expect(alone).toEqual([]);
  await run.cancel({ graceMs: 0 });
  expect(alone).toEqual([0]);
  await patient;
  expect(run.state).toBe("exited");
  run.detach();
});

test("a gateway that heeds a stop is left to it", async () => {
  const run = calledRun(() => expect.fail("the anchor was told, too"));
  const first = await answered(0, 0);
  await waitFor("it is attached", () => first.said.length > 0);
  const cancelled = run.cancel();
  await waitFor("the gateway was told", () => first.said.some(({ type }) => type === "stop"));
  tell(first, { type: "state", state: "exiting", survivors: [], service: null });
  await cancelled;
  run.detach();
});

test("a caller that finds more input than its own sends neither the rest nor its end", async () => {
  const run = calledRun();
  const first = await answered(0, 0);
  first.socket.terminate();
  const written = run.write(Buffer.from("abc"));
  const second = await answered(1, 9);
  await expect(written).rejects.toMatchObject({ code: "STDIN_CLOSED" });
  await run.closeStdin();
  run.resize({ rows: 5, cols: 6 });
  await waitFor("what came after was said", () => second.said.some(({ type }) => type === "resize"));
  expect(second.input).toEqual([]);
  expect(second.said.filter(({ type }) => type === "eof")).toEqual([]);
  run.detach();
});
