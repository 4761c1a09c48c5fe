import { setTimeout } from "node:timers/promises";
import { defaults } from "../../defaults.js";
import { GatewayUnreachable } from "../../errors.js";
import type { GatewayClient } from "../../api/client.js";
import { followNdjson } from "../../api/ndjson.js";
import { gatewaySocketPath } from "../../home/state-directory.js";
import type { GatewayConnection } from "./connect.js";
import { waitForNextGateway } from "./reconnect.js";

/** A gateway that is about to stop would otherwise be asked all the time. */
const RETRY_MS = 20;

export interface ReconnectingStreamOptions {
  readonly connection: GatewayConnection;
  /** The path of the stream, without the query. */
  readonly path: string;
  /** The number of the last line that is known. */
  readonly after: number;
  /** Whether no line will follow after that number. */
  readonly isOver: (client: GatewayClient, last: number) => Promise<boolean>;
  readonly notice: (message: string) => void;
  /** What continues while no gateway is running; `meanwhile` replaces the default text about it. */
  readonly subject: string;
  readonly meanwhile?: string;
  /** The command that shows the result later. */
  readonly laterCommand: string;
}

/** A stream of lines that continues over gateway restarts: each line once, in order. */
export class ReconnectingStream<Line extends { readonly seq: number }> implements AsyncIterable<Line> {
  readonly #options: ReconnectingStreamOptions;
  #connection: GatewayConnection;
  #lastSeq: number;

  constructor(parts: ReconnectingStreamOptions) {
    this.#options = parts;
    this.#connection = parts.connection;
    this.#lastSeq = parts.after;
  }

  /** The connection to the current gateway. */
  get connection(): GatewayConnection {
    return this.#connection;
  }

  get client(): GatewayClient {
    return this.#connection.client;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Line, void, undefined> {
    let wasStopped = false;
    for (;;) {
      const { home, token } = this.#connection;
      const path = `${this.#options.path}?follow=1&after=${this.#lastSeq}`;
      const lines = followNdjson<Line>({ socketPath: gatewaySocketPath(home), token }, path);
      try {
        for (;;) {
          const next = await lines.next();
          if (next.done === true) {
            wasStopped ||= next.value;
            break;
          }
          wasStopped = false;
          this.#lastSeq = next.value.seq;
          yield next.value;
        }
      } catch (error) {
        if (!(error instanceof GatewayUnreachable)) throw error;
      } finally {
        await lines.return(false);
      }
      if (await this.#isOver(wasStopped)) return;
    }
  }

  async #isOver(wasStopped: boolean): Promise<boolean> {
    for (;;) {
      await setTimeout(RETRY_MS);
      await this.#reconnect(wasStopped);
      try {
        return await this.#options.isOver(this.client, this.#lastSeq);
      } catch (error) {
        if (!(error instanceof GatewayUnreachable)) throw error;
      }
    }
  }

  async #reconnect(wasStopped: boolean): Promise<void> {
    const { notice, subject, meanwhile, laterCommand } = this.#options;
    const next = await waitForNextGateway(this.#connection.home, {
      wasStopped,
      timeoutMs: defaults.ownerLossMs,
      notice,
      subject,
      ...(meanwhile === undefined ? {} : { meanwhile }),
    });
    if (next === null)
      throw new GatewayUnreachable(`no gateway came back; \`${laterCommand}\` shows the result later`);
    this.#connection = next;
  }
}
