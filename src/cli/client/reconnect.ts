import { setTimeout } from "node:timers/promises";
import { isatty } from "node:tty";
import { followNdjson, type GatewayClient } from "../../api/client.js";
import { defaults } from "../../defaults.js";
import { GatewayUnreachable } from "../../errors.js";
import { reachGateway } from "../../gateway/locate-gateway.js";
import { startGateway } from "../../gateway/start-in-background.js";
import { gatewaySocketPath } from "../../home/state-directory.js";
import { formatDuration } from "../../text/format-units.js";
import { notice } from "../print/errors-and-notices.js";
import { type GatewayConnection, isInsideRun, requesterToken, hasErrorCode } from "./connect.js";

/** Poll interval for the next gateway, which listens within half a second of its start. */
const POLL_MS = 50;

interface ReconnectOptions {
  /** The gateway was stopped by a user, so this process does not start another. */
  readonly wasStopped: boolean;
  /** After this time there is no run to reconnect to. */
  readonly timeoutMs: number;
  readonly notice: (message: string) => void;
  /** The part that continues without a gateway. Default: the command. */
  readonly subject?: string;
  /** Replaces the default text about `subject`. */
  readonly meanwhile?: string;
  /** Called before each attempt to start a gateway; true: keep trying for longer than `timeoutMs`. */
  readonly keepAlive?: () => Promise<boolean>;
}

/**
 * Waits for the next gateway after the connection to the last one was lost. Null: none came. A gateway that was killed is
 * replaced from here, unless another process does so first. If the replacement fails, the next one is started after a
 * growing pause.
 */
export async function waitForNextGateway(
  home: string,
  {
    wasStopped,
    timeoutMs,
    notice: report,
    subject = "the command",
    meanwhile,
    keepAlive = async () => false,
  }: ReconnectOptions,
): Promise<GatewayConnection | null> {
  const began = performance.now();
  const mayStart = !wasStopped && !isInsideRun();
  let nextTryAt = began + defaults.gatewayBackMs;
  let pauseMs: number = defaults.gatewayRetryMs;
  let kept = false;
  let failure = "";
  let reported = false;
  for (;;) {
    const token = await requesterToken(home);
    const found = await reachGateway(home, token).catch(() => null);
    if (found?.status.ready === true) return { client: found.client, home, token };
    const passed = performance.now() - began;
    if (passed > timeoutMs && !kept) return null;
    if (!reported && (isatty(2) || passed > defaults.gatewayGapMs)) {
      reported = true;
      const why = wasStopped ? "the gateway was stopped" : "the gateway is gone";
      const anchored = `${subject} keeps running; its output continues when another gateway runs (${mayStart ? "one is being started" : `at most ${formatDuration(timeoutMs)} from now, then its anchor ends it`})`;
      report(`${why}; ${meanwhile ?? anchored}`);
    }
    if (mayStart && performance.now() > nextTryAt) {
      kept = await keepAlive().catch(() => kept);
      // Another process may start a gateway although this attempt failed.
      if (found === null)
        await startGateway(home).catch((error: unknown) => {
          const { message } = error as Error;
          if (message !== failure) report(message);
          failure = message;
        });
      nextTryAt = performance.now() + pauseMs;
      pauseMs = Math.min(pauseMs * 2, defaults.gatewayRetryMaxMs);
    }
    await setTimeout(POLL_MS);
  }
}

/** Repeats a request until a gateway answers. A gateway may have ended in the middle of it, so the request must be idempotent. */
export async function retryUntilAnswered<Answer>(
  connection: GatewayConnection,
  request: (client: GatewayClient) => Promise<Answer>,
): Promise<{ readonly answer: Answer; readonly connection: GatewayConnection }> {
  let now = connection;
  for (;;)
    try {
      return { answer: await request(now.client), connection: now };
    } catch (error) {
      if (!(error instanceof GatewayUnreachable) && !hasErrorCode(error, "SUPERVISOR_CLOSED")) throw error;
      const next = await waitForNextGateway(now.home, {
        wasStopped: hasErrorCode(error, "SUPERVISOR_CLOSED"),
        timeoutMs: defaults.ownerLossMs,
        notice: (message) => notice(message, "dim"),
        subject: "the agent",
      });
      if (next === null) throw error;
      now = next;
    }
}

/** A gateway that is restarted answers well within this time. */
const RESTART_MS = 10_000;
const RETRY_MS = 100;

/**
 * Repeats a read while its gateway is restarted. A gateway of another host counts as restarting only if it was `reached`
 * before.
 */
export async function retryOverRestarts<Answer>(
  read: () => Promise<Answer>,
  reached: boolean,
): Promise<Answer> {
  for (let until: number | null = null; ;) {
    try {
      return await read();
    } catch (error) {
      until ??= performance.now() + RESTART_MS;
      const away =
        error instanceof GatewayUnreachable || (reached && hasErrorCode(error, "PEER_UNREACHABLE"));
      if (!away || performance.now() > until) throw error;
    }
    await setTimeout(RETRY_MS);
  }
}

/** Pause between requests to a gateway that is about to stop. */
const STREAM_RETRY_MS = 20;

export interface ReconnectingStreamOptions extends Pick<
  ReconnectOptions,
  "notice" | "subject" | "meanwhile"
> {
  readonly connection: GatewayConnection;
  /** The path of the stream, without the query. */
  readonly path: string;
  /** The number of the last line that is known. */
  readonly after: number;
  /** True if no line will follow after that number. */
  readonly isOver: (client: GatewayClient, last: number) => Promise<boolean>;
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
      await setTimeout(STREAM_RETRY_MS);
      await this.#reconnect(wasStopped);
      try {
        return await this.#options.isOver(this.client, this.#lastSeq);
      } catch (error) {
        if (!(error instanceof GatewayUnreachable)) throw error;
      }
    }
  }

  async #reconnect(wasStopped: boolean): Promise<void> {
    const next = await waitForNextGateway(this.#connection.home, {
      ...this.#options,
      wasStopped,
      timeoutMs: defaults.ownerLossMs,
    });
    if (next === null)
      throw new GatewayUnreachable(
        `no gateway came back; \`${this.#options.laterCommand}\` shows the result later`,
      );
    this.#connection = next;
  }
}
