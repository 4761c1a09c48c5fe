import { setTimeout } from "node:timers/promises";
import { defaults } from "../../defaults.js";
import { GatewayUnreachable } from "../../errors.js";
import type { GatewayClient } from "../../gateway/client.js";
import type { AnswerOf } from "../../gateway/contract/contract.js";
import { followLines } from "../../gateway/follow-lines.js";
import { gatewaySocket } from "../../gateway/server/listen.js";
import type { Connection } from "../gateway/connect.js";
import { gatewayBack } from "../gateway/gateway-back.js";

export type Update = AnswerOf<"acpWatch">["updates"][number];

/** Not at once: one that is about to leave would be asked all the time. */
const AGAIN_MS = 20;

export interface UpdatesParts {
  readonly connection: Connection;
  readonly sessionId: string;
  /** The number of the last that is known. */
  readonly after: number;
  readonly say: (message: string) => void;
}

/** What happens in a session until it is closed: each update once, in order, whichever gateways come and go. */
export class Updates implements AsyncIterable<Update> {
  readonly #parts: UpdatesParts;
  #connection: Connection;
  #last: number;

  constructor(parts: UpdatesParts) {
    this.#parts = parts;
    this.#connection = parts.connection;
    this.#last = parts.after;
  }

  /** To the gateway that there is now. */
  get connection(): Connection {
    return this.#connection;
  }

  get client(): GatewayClient {
    return this.#connection.client;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Update, void, undefined> {
    let onPurpose = false;
    for (;;) {
      const { home, token } = this.#connection;
      const path = `/v1/acp/sessions/${this.#parts.sessionId}/updates?follow=1&after=${this.#last}`;
      const lines = followLines<Update>({ socketPath: gatewaySocket(home), token }, path);
      try {
        for (;;) {
          const next = await lines.next();
          if (next.done === true) {
            onPurpose ||= next.value;
            break;
          }
          onPurpose = false;
          this.#last = next.value.seq;
          yield next.value;
        }
      } catch (error) {
        if (!(error instanceof GatewayUnreachable)) throw error;
      } finally {
        await lines.return(false);
      }
      if (await this.#isOver(onPurpose)) return;
    }
  }

  async #isOver(onPurpose: boolean): Promise<boolean> {
    const { sessionId, say } = this.#parts;
    for (;;) {
      await setTimeout(AGAIN_MS);
      await this.#back(onPurpose, say);
      try {
        const params = { id: sessionId };
        const { session } = await this.client.acpShow({ params });
        if (session.state !== "closed") return false;
        // It may have been closed since the stream broke off.
        return (
          (await this.client.acpWatch({ params, query: { after: this.#last, limit: 1 } })).updates.length ===
          0
        );
      } catch (error) {
        if (!(error instanceof GatewayUnreachable)) throw error;
      }
    }
  }

  async #back(onPurpose: boolean, say: (message: string) => void): Promise<void> {
    const { sessionId } = this.#parts;
    const forMs = defaults.ownerLossMs;
    const next = await gatewayBack(this.#connection.home, { onPurpose, forMs, say, what: "the agent" });
    if (next === null)
      throw new GatewayUnreachable(
        `no gateway came back; what became of it will be in \`holdfast acp history ${sessionId}\``,
      );
    this.#connection = next;
  }
}
