import { GatewaySilent } from "../../errors.js";
import type { GatewayClient } from "../../gateway/client.js";
import type { AcpReadingVerb } from "../../gateway/handlers/acp-reading.js";
import type { TaskReadingVerb } from "../../gateway/handlers/task-reading.js";
import { resolveHome } from "../../store/state-directory.js";
import { say } from "../complain.js";
import { NoGatewayForSession } from "../runs/read-store.js";
import { runningGateway, type Connection } from "./connect.js";
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
  const running = await runningGateway().catch(silence);
  if (running instanceof GatewaySilent) {
    if (sessionToken() !== null) throw new NoGatewayForSession(running.message);
    say(`${running.message}; this is what the store says`, "yellow");
  } else if (running !== null)
    return { client: running.client, [Symbol.asyncDispose]: async () => undefined };
  else if (sessionToken() !== null) throw new NoGatewayForSession();
  else say("no gateway is running; this is what the store says", "dim");
  const { readLocally } = await import("./read-locally.js");
  return readLocally(resolveHome());
}

/** The gateway, for commands that can read without it. Null: none runs, or it does not answer (reported). */
export async function answeringGateway(): Promise<Connection | null> {
  const running = await runningGateway().catch(silence);
  if (!(running instanceof GatewaySilent)) return running;
  if (sessionToken() !== null) throw new NoGatewayForSession(running.message);
  say(`${running.message}; going on without it`, "yellow");
  return null;
}

/** Returns the error instead of throwing it: the caller can read without a gateway. */
export function silence(error: unknown): GatewaySilent {
  if (error instanceof GatewaySilent) return error;
  throw error;
}
