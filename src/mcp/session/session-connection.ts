import type { GatewayClient } from "../../api/client.js";

/** The gateway as one session sees it. */
export interface SessionConnection {
  readonly client: GatewayClient;
  /** The same for work in the background: it does not start a gateway that was stopped. */
  readonly observer: GatewayClient;
  /** Yields the events of a task after this number, until it has ended, the stream breaks, or `signal` aborts. */
  readonly followTask: (taskId: string, after: number, signal: AbortSignal) => AsyncIterable<unknown>;
  /** Counts resources and tasks that are followed, until it is disposed. Throws TooManyRequests. */
  readonly countFollowed: (count: number) => Disposable;
  /** Stops the command of a cancelled call, in case the gateway did not notice the cancellation. */
  readonly stopCancelled: (runId: string) => Promise<void>;
  /** The directory of commands that name none. Null: the gateway's. */
  readonly cwd: string | null;
  /** The environment of commands. Null: the clean environment of sessions. */
  readonly environment: Readonly<Record<string, string>> | null;
}

/** Finds the session that an MCP client acts for. */
export interface SessionConnector {
  readonly connect: (clientName: string) => Promise<SessionConnection>;
}
