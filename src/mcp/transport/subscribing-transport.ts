import { type JSONRPCMessage, ProtocolErrorCode, type Transport } from "@modelcontextprotocol/server";
import { defaults } from "../../defaults.js";
import { TooManyRequests } from "../../errors.js";
import type { SessionConnector } from "../session/session-connection.js";
import type { StdioTransport } from "./stdio-transport.js";
import {
  countListen,
  parseListenRequest,
  serveListen,
  type ListenRequest,
} from "../resources/subscriptions.js";

/**
 * The stdio transport with subscriptions to resources and tasks, which the SDK does not deliver: it knows no tasks, and
 * does not say which resources are subscribed to.
 */
export class SubscribingTransport implements Transport {
  onmessage?: NonNullable<Transport["onmessage"]>;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  readonly #inner: StdioTransport;
  readonly #connector: SessionConnector;
  readonly #open = new Map<unknown, AbortController>();

  constructor(inner: StdioTransport, connector: SessionConnector) {
    this.#inner = inner;
    this.#connector = connector;
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- it is no event target
    inner.onmessage = (message, extra) => {
      if (!this.#handle(message)) this.onmessage?.(message, extra);
    };
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- it is no event target
    inner.onclose = () => {
      for (const each of this.#open.values()) each.abort();
      this.onclose?.();
    };
  }

  start(): Promise<void> {
    return this.#inner.start();
  }

  send(message: JSONRPCMessage): Promise<void> {
    return this.#inner.send(message);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  /** True: the message was for a subscription. */
  #handle(message: JSONRPCMessage): boolean {
    const listen = parseListenRequest(message);
    if (listen !== null) {
      void this.#listen(listen);
      return true;
    }
    if (!("method" in message) || message.method !== "notifications/cancelled") return false;
    const id = (message.params as { readonly requestId?: unknown } | undefined)?.requestId;
    const open = this.#open.get(id);
    open?.abort();
    this.#open.delete(id);
    return open !== undefined;
  }

  async #listen(request: ListenRequest): Promise<void> {
    const { id, clientName } = request;
    this.#open.get(id)?.abort();
    this.#open.delete(id);
    const over = new AbortController();
    try {
      if (this.#open.size >= defaults.mcpSubscriptions)
        throw new TooManyRequests(`${this.#open.size} open subscriptions`);
      this.#open.set(id, over);
      const connection = await this.#connector.connect(clientName);
      using _ = countListen(connection, request);
      await serveListen(connection, request, (message) => this.send(message as JSONRPCMessage), over.signal);
      // Also when its tasks have ended, a subscription stays open until the client cancels it.
    } catch (error) {
      if (this.#open.get(id) === over) this.#open.delete(id);
      const { message } = error as Error;
      await this.send({ jsonrpc: "2.0", id, error: { code: ProtocolErrorCode.InternalError, message } });
    }
  }
}
