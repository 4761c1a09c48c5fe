import { writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createRawServer, type AddressInfo, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { channelTablesSchema, type ChannelEntry, type ChannelEntryOf } from "../../src/config/channels.js";
import type { Notification } from "../../src/model/outbox.js";
import { DeliveryFailed } from "../../src/tasks/delivery-attempt.js";

export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface HttpReceiver {
  readonly url: string;
  readonly received: ReceivedRequest[];
}

/** A server on loopback that records its requests. Default answer: 200. */
export async function startHttpReceiver(
  answer: (request: IncomingMessage, response: ServerResponse) => void = (_, response) => response.end("ok"),
): Promise<HttpReceiver> {
  const received: ReceivedRequest[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const { method = "", url: path = "", headers } = request;
      received.push({ method, path, headers, body });
      answer(request, response);
    });
  });
  return { url: `http://127.0.0.1:${await listen(server)}`, received };
}

/** A TCP server; `answer` is called with the first bytes of each connection. */
export async function startRawReceiver(answer: (socket: Socket, said: string) => void): Promise<string> {
  const server = createRawServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", (said) => answer(socket, said.toString()));
  });
  return `http://127.0.0.1:${await listen(server)}`;
}

async function listen(server: Server): Promise<number> {
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** The config of a webhook channel to a receiver on loopback, signed with a secret in this directory. */
export function webhookConfig(directory: string, channel: string, url: string): string {
  return `[channels.${channel}]
kind = "webhook"
url = "${url}"
secrets = [{ file = "${webhookSecret(directory)}" }]
allow-http = true
allow-networks = ["127.0.0.0/8"]
`;
}

/** Writes a webhook's secret to a file in the directory, and returns its path. */
export function webhookSecret(directory: string): string {
  const path = join(directory, "secret");
  writeFileSync(path, `whsec_${Buffer.alloc(32, 7).toString("base64")}`, { mode: 0o600 });
  return path;
}

export const NEVER_ABORTED = new AbortController().signal;

export function sampleNotification(over: Partial<Notification> = {}): Notification {
  return {
    id: "task-terminal:tsk_1",
    taskId: "tsk_1",
    kind: "terminal",
    status: "succeeded",
    outcome: "succeeded",
    label: "update the docs",
    runtime: "acp",
    summary: "Three pages were changed.",
    error: null,
    at: Date.UTC(2026, 10, 15),
    text: "update the docs: done. Three pages were changed.",
    ...over,
  };
}

/** A channel's table of the config with its defaults. Loopback and http are allowed unless `fields` say otherwise. */
export function channelEntry<Kind extends ChannelEntry["kind"]>(
  kind: Kind,
  fields: Readonly<Record<string, unknown>>,
): ChannelEntryOf<Kind> {
  const near = ["webhook", "telegram", "slack"].includes(kind)
    ? { "allow-http": true, "allow-networks": ["127.0.0.0/8"] }
    : {};
  return channelTablesSchema.parse({ it: { kind, ...near, ...fields } })["it"] as ChannelEntryOf<Kind>;
}

/** The error of a delivery; a delivery that succeeds fails the test. */
export async function deliveryFailure(delivery: Promise<unknown>): Promise<DeliveryFailed> {
  const caught = await delivery.then(
    (receipt) => new Error(`it was delivered: ${String(receipt)}`),
    (error: unknown) => error,
  );
  if (caught instanceof DeliveryFailed) return caught;
  throw caught;
}
