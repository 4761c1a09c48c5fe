import type { GatewayClient } from "../../gateway/client.js";
import type { AcpReadingVerb } from "../../gateway/handlers/acp-reading.js";
import type { TaskReadingVerb } from "../../gateway/handlers/task-reading.js";
import { resolveHome } from "../../store/state-directory.js";
import { say } from "../complain.js";
import { NoGatewayForSession } from "../runs/read-store.js";
import { runningGateway } from "./connect.js";
import { sessionToken } from "../session-token.js";

/** What can be asked without changing anything. */
export type Looking = Pick<
  GatewayClient,
  | "listRuns"
  | "poll"
  | "log"
  | "screen"
  | "listSessions"
  | "sessionStatus"
  | "sessionHistory"
  | "sessionInbox"
  | AcpReadingVerb
  | TaskReadingVerb
  /** Without `apply`. */
  | "maintainTasks"
>;

export interface Look extends AsyncDisposable {
  readonly client: Looking;
}

/**
 * For a command that only looks: the gateway if one answers, else the store and the spools themselves, and says so.
 * Starts nothing. A session without a gateway sees nothing: only a gateway can say what it may see.
 */
export async function openLook(): Promise<Look> {
  const running = await runningGateway();
  if (running !== null) return { client: running.client, [Symbol.asyncDispose]: async () => undefined };
  if (sessionToken() !== null) throw new NoGatewayForSession();
  const { readLocally } = await import("./read-locally.js");
  say("no gateway is running; this is what the store says", "dim");
  return readLocally(resolveHome());
}
