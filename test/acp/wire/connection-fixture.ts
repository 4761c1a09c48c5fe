import { AcpConnection } from "../../../src/acp/wire/connection.js";
import type { StreamChunk } from "../../../src/acp/wire/frames.js";
import type {
  AcpConnectionDeps,
  AgentRpcRequest,
  ConnectionHandlers,
} from "../../../src/acp/wire/connection-contract.js";
import type { SessionUpdate } from "../../../src/acp/wire/message.js";
import { TestClock } from "../../support/sessions/session-fixture.js";

type SentMessage = Record<string, unknown> & { id?: number; method?: string };

export const permissionRequest = (id: number | string): object => ({
  id,
  method: "session/request_permission",
  params: { sessionId: "s", toolCall: { toolCallId: "t" }, options: [] },
});

/** A connection whose agent is the test. */
export class ConnectionFixture {
  readonly clock = new TestClock();
  /** Messages to the agent. */
  readonly sent: SentMessage[] = [];
  readonly updates: SessionUpdate[] = [];
  readonly batches: number[] = [];
  readonly questions: AgentRpcRequest[] = [];
  readonly malformed: string[] = [];
  acked = 0;
  /** Chunks that were pulled. */
  pulled = 0;
  readonly connection: AcpConnection;
  readonly #chunks: StreamChunk[] = [];
  #wake: () => void = () => undefined;
  #ended = false;
  #offset: number;

  constructor(parts: Partial<AcpConnectionDeps> = {}, handlers: Partial<ConnectionHandlers> = {}) {
    this.#offset = parts.startAt ?? 0;
    this.connection = new AcpConnection({
      source: (signal) => this.#pull(signal),
      write: async (bytes) => {
        this.sent.push(JSON.parse(Buffer.from(bytes).toString()) as SentMessage);
      },
      ack: (offset) => {
        this.acked = offset;
      },
      clock: this.clock,
      firstId: 1,
      ...parts,
      handlers: {
        onUpdates: async (batch) => {
          this.batches.push(batch.length);
          this.updates.push(...batch);
        },
        requests: {
          "session/request_permission": async (question) => {
            this.questions.push(question);
          },
        },
        onMalformed: (why) => this.malformed.push(why),
        ...handlers,
      },
    });
  }

  /** Sends a request. Resolves when it is written. */
  async request(): Promise<{ readonly answer: Promise<unknown> }> {
    const answer = this.connection.request("session/list", {}, { deadlineMs: 1_000 });
    answer.catch(() => undefined);
    await flushPending();
    return { answer };
  }

  get offset(): number {
    return this.#offset;
  }

  /** Writes messages of the agent. Resolves when they are handled as far as possible. */
  receive(...messages: object[]): Promise<void> {
    return this.write(
      messages.map((message) => `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`).join(""),
    );
  }

  update(text: string): object {
    const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text } };
    return { method: "session/update", params: { sessionId: "s", update } };
  }

  write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    this.#chunks.push({ offset: this.#offset, bytes });
    this.#offset += bytes.length;
    this.#wake();
    return flushPending();
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  async *#pull(signal: AbortSignal): AsyncGenerator<StreamChunk, void, undefined> {
    signal.addEventListener("abort", () => this.#wake());
    for (;;) {
      if (signal.aborted) return;
      const chunk = this.#chunks.shift();
      if (chunk !== undefined) {
        this.pulled++;
        yield chunk;
        continue;
      }
      if (this.#ended) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/** Resolves when everything that needs no further input has happened. */
export async function flushPending(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}
