import { setTimeout } from "node:timers/promises";
import { isatty } from "node:tty";
import type { GatewayClient } from "../../api/client.js";
import { defaults } from "../../defaults.js";
import { GatewayUnreachable } from "../../errors.js";
import { startGateway } from "../../gateway/start.js";
import { reachGateway } from "../../gateway/locate.js";
import { formatDuration } from "../options/units.js";
import { notice } from "../print/stderr.js";
import { type GatewayConnection, isInsideRun, requesterToken } from "./connect.js";
import { hasErrorCode } from "./exec-request.js";

/** How often to look for the next gateway: it listens within half a second of its start. */
const POLL_MS = 50;

export interface ReconnectOptions {
  /** The last one was told to stop, so another is not to be started for that reason alone. */
  readonly onPurpose: boolean;
  /** How long it is worth waiting: after that there is no run to come back to. */
  readonly forMs: number;
  readonly say: (message: string) => void;
  /** What goes on meanwhile. */
  readonly what?: string;
  /** What is said of that, where its anchor is not all there is to it. */
  readonly meanwhile?: string;
  /** Called before each attempt to start a gateway; true: it is worth trying for longer than `forMs`. */
  readonly keepAlive?: () => Promise<boolean>;
}

/**
 * The next gateway, when the last one has gone from under a command that goes on. Null: none came. One that was killed is
 * replaced from here, like any acting command would, unless somebody else does it first. A replacement may be killed as
 * well, or fail to start: the next one is started after a pause that grows.
 */
export async function waitForNextGateway(
  home: string,
  { onPurpose, forMs, say, what = "the command", meanwhile, keepAlive = async () => false }: ReconnectOptions,
): Promise<GatewayConnection | null> {
  const began = performance.now();
  const mayStart = !onPurpose && !isInsideRun();
  let nextTryAt = began + defaults.gatewayBackMs;
  let pauseMs: number = defaults.gatewayRetryMs;
  let kept = false;
  let failure = "";
  let said = false;
  for (;;) {
    const token = await requesterToken(home);
    const found = await reachGateway(home, token).catch(() => null);
    if (found?.status.ready === true) return { client: found.client, home, token };
    const passed = performance.now() - began;
    if (passed > forMs && !kept) return null;
    if (!said && (isatty(2) || passed > defaults.gatewayGapMs)) {
      said = true;
      const why = onPurpose ? "the gateway was stopped" : "the gateway is gone";
      const anchored = `${what} keeps running; its output continues when another gateway runs (${mayStart ? "one is being started" : `at most ${formatDuration(forMs)} from now, then its anchor ends it`})`;
      say(`${why}; ${meanwhile ?? anchored}`);
    }
    if (mayStart && performance.now() > nextTryAt) {
      kept = await keepAlive().catch(() => kept);
      // Another process may start a gateway although this attempt failed.
      if (found === null)
        await startGateway(home).catch((error: unknown) => {
          const { message } = error as Error;
          if (message !== failure) say(message);
          failure = message;
        });
      nextTryAt = performance.now() + pauseMs;
      pauseMs = Math.min(pauseMs * 2, defaults.gatewayRetryMaxMs);
    }
    await setTimeout(POLL_MS);
  }
}

/**
 * Ask until a gateway has answered. One that was asked may be gone before it does, and nobody knows how far it came:
 * what is asked must be the same however often it is.
 */
export async function retryUntilAnswered<Answer>(
  connection: GatewayConnection,
  ask: (client: GatewayClient) => Promise<Answer>,
): Promise<{ readonly answer: Answer; readonly connection: GatewayConnection }> {
  let now = connection;
  for (;;)
    try {
      return { answer: await ask(now.client), connection: now };
    } catch (error) {
      if (!(error instanceof GatewayUnreachable) && !hasErrorCode(error, "SUPERVISOR_CLOSED")) throw error;
      const next = await waitForNextGateway(now.home, {
        onPurpose: hasErrorCode(error, "SUPERVISOR_CLOSED"),
        forMs: defaults.ownerLossMs,
        say: (message) => notice(message, "dim"),
        what: "the agent",
      });
      if (next === null) throw error;
      now = next;
    }
}
