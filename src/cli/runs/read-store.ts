import { GatewayUnreachable } from "../../errors.js";
import * as store from "../../store/open.js";
import { findStateDirectory, resolveHome } from "../../store/state-directory.js";
import { runningGateway } from "../gateway/connect.js";
import { sessionToken } from "../session-token.js";
import type { RunView } from "../gateway/session-view.js";

/**
 * The store, for looking only; null when nothing has ever been recorded, and then no database is loaded. For a session,
 * what its gateway shows it.
 */
export async function openStoreForReading(): Promise<RunView | null> {
  if (sessionToken() === null) {
    const directory = await findStateDirectory(resolveHome());
    return store.openStoreForReading(directory?.storePath ?? null);
  }
  const running = await runningGateway();
  if (running === null) throw new NoGatewayForSession();
  const { sessionView } = await import("../gateway/session-view.js");
  return sessionView(running.client);
}

/** Only a gateway knows what a session may see. */
export class NoGatewayForSession extends GatewayUnreachable {
  constructor(why = "no gateway is running") {
    super(`${why}, and only a gateway can say what this session may see; nothing was done`);
  }
}
