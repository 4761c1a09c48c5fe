import type { Readable, Writable } from "node:stream";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";
import {
  isJSONRPCErrorResponse,
  isJSONRPCRequest,
  isJSONRPCResultResponse,
  parseJSONRPCMessage,
} from "@modelcontextprotocol/server";
import { type Deferred, deferred } from "../../async/deferred.js";
import { defaults } from "../../defaults.js";

const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;
const LINE_FEED = 10;

interface StdioLimits {
  readonly messageBytes: number;
  readonly unansweredRequests: number;
  readonly unansweredBytes: number;
}

const LIMITS: StdioLimits = {
  messageBytes: defaults.mcpMessageBytes,
  unansweredRequests: defaults.mcpUnansweredRequests,
  unansweredBytes: defaults.mcpUnansweredBytes,
};

/**
 * One JSON-RPC message per line. Unlike the SDK's transport it answers a line that is no message, skips a line that is
 * too long instead of closing the connection, and stops reading while too much is unanswered or unread.
 */
export class StdioTransport implements Transport {
  onmessage?: NonNullable<Transport["onmessage"]>;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  readonly #input: Readable;
  readonly #output: Writable;
  readonly #limits: StdioLimits;
  #parts: Buffer[] = [];
  #partBytes = 0;
  /** The rest of the current line is not kept. */
  #skipping = false;
  /** Bytes of the requests that are not answered, by id. */
  readonly #unanswered = new Map<string, number>();
  #unansweredBytes = 0;
  /** Not null while the client does not read. Resolves when the client reads again, or at the end. */
  #drained: Deferred<void> | null = null;
  #closed = false;
  readonly #ended = deferred<void>();

  constructor(input: Readable, output: Writable, limits: StdioLimits = LIMITS) {
    this.#input = input;
    this.#output = output;
    this.#limits = limits;
  }

  /** Resolves when the client has closed its side, or `close` was called. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  start(): Promise<void> {
    this.#input.on("data", this.#onData);
    for (const event of ["end", "close", "error"]) this.#input.on(event, this.#end);
    this.#output.on("drain", this.#onDrain);
    for (const event of ["close", "error"]) this.#output.on(event, this.#end);
    return Promise.resolve();
  }

  /** Resolves when the client has read enough for another message. */
  send(message: JSONRPCMessage): Promise<void> {
    if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) this.#answered(message.id);
    this.#write(message);
    return this.#drained?.promise ?? Promise.resolve();
  }

  close(): Promise<void> {
    this.#end();
    return Promise.resolve();
  }

  readonly #onData = (chunk: Buffer): void => {
    let from = 0;
    for (;;) {
      const end = chunk.indexOf(LINE_FEED, from);
      this.#keep(chunk.subarray(from, end === -1 ? chunk.length : end));
      if (end === -1) break;
      this.#completeLine();
      from = end + 1;
    }
    this.#throttle();
  };

  readonly #onDrain = (): void => {
    this.#drained?.resolve();
    this.#drained = null;
    this.#throttle();
  };

  readonly #end = (): void => {
    if (this.#closed) return;
    this.#closed = true;
    this.#input.off("data", this.#onData);
    this.#input.pause();
    this.#parts = [];
    this.#drained?.resolve();
    this.onclose?.();
    this.#ended.resolve();
  };

  #keep(part: Buffer): void {
    if (this.#skipping || part.length === 0) return;
    this.#partBytes += part.length;
    this.#parts.push(part);
    if (this.#partBytes <= this.#limits.messageBytes) return;
    this.#skipping = true;
    this.#parts = [];
  }

  #completeLine(): void {
    const line = Buffer.concat(this.#parts).toString("utf8").trim();
    const bytes = this.#partBytes;
    const skipped = this.#skipping;
    this.#parts = [];
    this.#partBytes = 0;
    this.#skipping = false;
    if (this.#closed) return;
    if (skipped)
      return this.#refuse(
        INVALID_REQUEST,
        `the message has more than ${this.#limits.messageBytes} bytes; nothing was done`,
      );
    if (line !== "") this.#deliver(line, bytes);
  }

  #deliver(line: string, bytes: number): void {
    let content: unknown;
    try {
      content = JSON.parse(line);
    } catch {
      return this.#refuse(PARSE_ERROR, "the line is not JSON; nothing was done");
    }
    let message: JSONRPCMessage;
    try {
      message = parseJSONRPCMessage(content);
    } catch {
      return this.#refuse(
        INVALID_REQUEST,
        "the line is no JSON-RPC 2.0 message; nothing was done",
        idOf(content),
      );
    }
    if (isJSONRPCRequest(message)) {
      this.#unansweredBytes -= this.#unanswered.get(keyOf(message.id)) ?? 0;
      this.#unanswered.set(keyOf(message.id), bytes);
      this.#unansweredBytes += bytes;
    } else if ("method" in message && message.method === "notifications/cancelled") {
      // A cancelled request gets no answer.
      this.#answered(idOf({ id: (message.params as { requestId?: unknown } | undefined)?.requestId }));
    }
    this.onmessage?.(message);
  }

  #refuse(code: number, message: string, id: string | number | null = null): void {
    this.#write({ jsonrpc: "2.0", id, error: { code, message } });
  }

  #answered(id: string | number | null | undefined): void {
    if (id === undefined || id === null) return;
    const key = keyOf(id);
    this.#unansweredBytes -= this.#unanswered.get(key) ?? 0;
    this.#unanswered.delete(key);
    this.#throttle();
  }

  #write(message: object): void {
    if (this.#closed) return;
    if (this.#output.write(`${JSON.stringify(message)}\n`)) return;
    this.#drained ??= deferred();
    this.#throttle();
  }

  /** Reads only while answers are read and not too much is unanswered. */
  #throttle(): void {
    if (this.#closed) return;
    const { unansweredRequests, unansweredBytes } = this.#limits;
    const full = this.#unanswered.size >= unansweredRequests || this.#unansweredBytes >= unansweredBytes;
    if (full || this.#drained !== null) this.#input.pause();
    else if (this.#input.isPaused()) this.#input.resume();
  }
}

/** The key of a request. Two requests with the same id are one request to the client. */
function keyOf(id: string | number): string {
  return JSON.stringify(id);
}

function idOf(content: unknown): string | number | null {
  const id = typeof content === "object" && content !== null ? (content as { id?: unknown }).id : null;
  return typeof id === "string" || typeof id === "number" ? id : null;
}
