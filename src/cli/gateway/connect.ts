import { GatewayUnreachable } from "../../errors.js";
import type { GatewayClient } from "../../gateway/client.js";
import { reach, startGateway } from "../../gateway/start.js";
import { openStateDirectory, resolveHome } from "../../store/state-directory.js";
import { say } from "../complain.js";

export interface Connection {
  readonly client: GatewayClient;
  readonly home: string;
}

/** A token that a run inherited acts for its session; otherwise this is the operator. */
function tokenHere(): string | null {
  return process.env["HOLDFAST_AS_OPERATOR"] === "1" ? null : (process.env["HOLDFAST_TOKEN"] ?? null);
}

/** The gateway, for a command that only reads. Null: none runs, and none is started. */
export async function findGateway(): Promise<Connection | null> {
  const home = resolveHome();
  const reached = await reach(home, tokenHere());
  return reached === null ? null : { client: reached.client, home };
}

/** The gateway, for a command that acts: started in the background when none runs, and said so. Never inside a run. */
export async function needGateway(): Promise<Connection> {
  const found = await findGateway();
  if (found !== null) return found;
  if (process.env["HOLDFAST_RUN_ID"] !== undefined)
    throw new GatewayUnreachable(
      "no gateway is running, and inside a run none is started; nothing was done. Start one outside: holdfast gateway start",
    );
  const { home } = await openStateDirectory(resolveHome());
  const { pid } = await startGateway(home);
  say(`started a gateway in the background (pid ${pid}); \`holdfast gateway stop\` stops it`, "dim");
  const started = await findGateway();
  if (started !== null) return started;
  throw new GatewayUnreachable(
    "the gateway that was started does not answer; its log is gateway.log in the state directory",
  );
}
