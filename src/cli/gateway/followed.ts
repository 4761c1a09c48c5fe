import { setTimeout } from "node:timers/promises";
import { defaults } from "../../defaults.js";
import { GatewayUnreachable } from "../../errors.js";
import type { GatewayClient } from "../../gateway/client.js";
import { followLines } from "../../gateway/follow-lines.js";
import { gatewaySocket } from "../../gateway/server/listen.js";
import type { Connection } from "./connect.js";
import { gatewayBack } from "./gateway-back.js";

/** Not at once: one that is about to leave would be asked all the time. */
const AGAIN_MS = 20;

export interface FollowedParts {
  readonly connection: Connection;
  /** Where it is told, without the query. */
  readonly path: string;
  /** The number of the last that is known. */
  readonly after: number;
  /** Whether nothing more will be told after that number. */
  readonly isOver: (client: GatewayClient, last: number) => Promise<boolean>;
  readonly say: (message: string) => void;
  /** What goes on while no gateway runs, and what is said of that if it needs other words. */
  readonly what: string;
  readonly meanwhile?: string;
  /** The command that tells later what became of it. */
  readonly later: string;
}

/** What happens to something, to its end: each line once, in order, whichever gateways come and go. */
export class Followed<Line extends { readonly seq: number }> implements AsyncIterable<Line> {
  readonly #parts: FollowedParts;
  #connection: Connection;
  #last: number;

  constructor(parts: FollowedParts) {
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

  async *[Symbol.asyncIterator](): AsyncGenerator<Line, void, undefined> {
    let onPurpose = false;
    for (;;) {
      const { home, token } = this.#connection;
      const path = `${this.#parts.path}?follow=1&after=${this.#last}`;
      const lines = followLines<Line>({ socketPath: gatewaySocket(home), token }, path);
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
    for (;;) {
      await setTimeout(AGAIN_MS);
      await this.#back(onPurpose);
      try {
        return await this.#parts.isOver(this.client, this.#last);
      } catch (error) {
        if (!(error instanceof GatewayUnreachable)) throw error;
      }
    }
  }

  async #back(onPurpose: boolean): Promise<void> {
    const { say, what, meanwhile, later } = this.#parts;
    const forMs = defaults.ownerLossMs;
    const gap = { onPurpose, forMs, say, what, ...(meanwhile === undefined ? {} : { meanwhile }) };
    const next = await gatewayBack(this.#connection.home, gap);
    if (next === null)
      throw new GatewayUnreachable(`no gateway came back; what became of it will be in \`${later}\``);
    this.#connection = next;
  }
}
