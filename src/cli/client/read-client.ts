import { GatewaySilent } from "../../errors.js";
import { resolveHome } from "../../home/state-directory.js";
import { notice } from "../print/errors-and-notices.js";
import { connectForReading, type GatewayConnection, type ReadClient } from "./connect.js";
import { sessionToken } from "./requester.js";
import { NoGatewayForSession } from "./read-runs.js";

/**
 * For commands that read: the gateway if one answers, else the store and the spools, with a notice. Starts nothing. A
 * session needs a gateway, which knows what the session may see.
 */
export async function openReadClient(): Promise<ReadClient> {
  const running = await connectForReading().catch(gatewaySilentOrThrow);
  if (running instanceof GatewaySilent) {
    if (sessionToken() !== null) throw new NoGatewayForSession(running.message);
    notice(`${running.message}; showing what the store has`, "yellow");
  } else if (running !== null)
    return { client: running.client, [Symbol.asyncDispose]: async () => undefined };
  else if (sessionToken() !== null) throw new NoGatewayForSession();
  else notice("no gateway is running; showing what the store has", "dim");
  const { openOfflineReader } = await import("./offline-reader.js");
  return openOfflineReader(resolveHome());
}

/** The gateway for commands that can read without it. Null: none is running, or it does not answer (reported). */
export async function tryConnectForReading(): Promise<GatewayConnection | null> {
  const running = await connectForReading().catch(gatewaySilentOrThrow);
  if (!(running instanceof GatewaySilent)) return running;
  if (sessionToken() !== null) throw new NoGatewayForSession(running.message);
  notice(`${running.message}; continuing without it`, "yellow");
  return null;
}

/** Returns the error instead of throwing it: the caller can read without a gateway. */
function gatewaySilentOrThrow(error: unknown): GatewaySilent {
  if (error instanceof GatewaySilent) return error;
  throw error;
}
