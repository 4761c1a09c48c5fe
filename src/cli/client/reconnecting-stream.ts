import { setTimeout } from "node:timers/promises";
import { defaults } from "../../defaults.js";
import { GatewayUnreachable } from "../../errors.js";
import type { GatewayClient } from "../../api/client.js";
import { followNdjson } from "../../api/ndjson.js";
import { gatewaySocketPath } from "../../home/state-directory.js";
import type { GatewayConnection } from "./connect.js";
import { waitForNextGateway } from "./reconnect.js";

/** Not at once: one that is about to leave would be asked all the time. */
const RETRY_MS = 20;

export interface ReconnectingStreamOptions {
  readonly connection: GatewayConnection;
  /** Where it is told, without the query. */
  readonly path: string;
  /** The number of the last that is known. */
  readonly after: number;
  /** Whether nothing more will be told after that number. */
  readonly isOver: (client: GatewayClient, last: number) => Promise<boolean>;
  readonly say: (message: string) => void;
  /** What goes on while no gateway runs, and what is said of that if it needs other words. */
  readonly subject: string;
  readonly meanwhile?: string;
  /** The command that tells later what became of it. */
  readonly laterCommand: string;
}

/** What happens to something, to its end: each line once, in order, whichever gateways come and go. */
export class ReconnectingStream<Line extends { readonly seq: number }> implements AsyncIterable<Line> {
  readonly #options: ReconnectingStreamOptions;
  #connection: GatewayConnection;
  #lastSeq: number;

  constructor(parts: ReconnectingStreamOptions) {
    this.#options = parts;
    this.#connection = parts.connection;
    this.#lastSeq = parts.after;
  }

  /** To the gateway that there is now. */
  get connection(): GatewayConnection {
    return this.#connection;
  }

  get client(): GatewayClient {
    return this.#connection.client;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Line, void, undefined> {
    let onPurpose = false;
    for (;;) {
      const { home, token } = this.#connection;
      const path = `${this.#options.path}?follow=1&after=${this.#lastSeq}`;
      const lines = followNdjson<Line>({ socketPath: gatewaySocketPath(home), token }, path);
      try {
        for (;;) {
          const next = await lines.next();
          if (next.done === true) {
            onPurpose ||= next.value;
            break;
          }
          onPurpose = false;
          this.#lastSeq = next.value.seq;
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
    for (;;) {
      await setTimeout(RETRY_MS);
      await this.#reconnect(onPurpose);
      try {
        return await this.#options.isOver(this.client, this.#lastSeq);
      } catch (error) {
        if (!(error instanceof GatewayUnreachable)) throw error;
      }
    }
  }

  async #reconnect(onPurpose: boolean): Promise<void> {
    const { say, subject: what, meanwhile, laterCommand: later } = this.#options;
    const forMs = defaults.ownerLossMs;
    const gap = { onPurpose, forMs, say, what, ...(meanwhile === undefined ? {} : { meanwhile }) };
    const next = await waitForNextGateway(this.#connection.home, gap);
    if (next === null)
      throw new GatewayUnreachable(`no gateway came back; what became of it will be in \`${later}\``);
    this.#connection = next;
  }
}
