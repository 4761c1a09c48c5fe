import { GatewayUnreachable, InsideRun, OperatorOnly } from "../../errors.js";
import { createClient, type GatewayClient } from "../../gateway/client.js";
import { gatewaySocket } from "../../gateway/server/listen.js";
import { readOperatorToken } from "../../gateway/server/requester.js";
import { reach, startGateway } from "../../gateway/start.js";
import { openStateDirectory, resolveHome } from "../../store/state-directory.js";
import { say } from "../complain.js";
import { sessionToken } from "../session-token.js";

export interface Connection {
  readonly client: GatewayClient;
  readonly home: string;
  readonly token: string;
}

/** Nothing is started from inside a run that would outlive it. */
export function insideRun(): boolean {
  return process.env["HOLDFAST_RUN_ID"] !== undefined;
}

export function mustBeOutside(verb: string): void {
  if (insideRun()) throw new InsideRun(verb);
}

/** Before what a gateway would refuse a session, or could not: a way that does not lead through it. */
export function mustBeOperator(what: string): void {
  if (sessionToken() !== null) throw new OperatorOnly(what);
}

/** A token that a run inherited acts for its session; otherwise this is the operator. */
export async function tokenFor(home: string): Promise<string> {
  return sessionToken() ?? (await readOperatorToken(home)) ?? "";
}

/** The gateway, if one answers. Starts nothing. */
export async function runningGateway(): Promise<Connection | null> {
  return (await find())?.connection ?? null;
}

async function find(): Promise<{ readonly connection: Connection; readonly ready: boolean } | null> {
  const home = resolveHome();
  const token = await tokenFor(home);
  const found = token === "" ? null : await reach(home, token);
  if (found === null) return null;
  return { connection: { client: found.client, home, token }, ready: found.status.ready };
}

/** The gateway, for a command that acts: started in the background when none runs, and said so. Never inside a run. */
export async function needGateway(instead = ""): Promise<Connection> {
  const found = await find();
  if (found?.ready === true) return found.connection;
  if (found === null && insideRun())
    throw new GatewayUnreachable(
      `no gateway is running, and inside a run none is started; nothing was done. Start one outside: holdfast gateway start${instead}`,
    );
  const opened = await openStateDirectory(resolveHome());
  const { started, status } = await startGateway(opened.home);
  if (started)
    say(`started a gateway in the background (pid ${status.pid}); \`holdfast gateway stop\` stops it`, "dim");
  const key = await tokenFor(opened.home);
  const client = createClient({ socketPath: gatewaySocket(opened.home), token: key });
  return { client, home: opened.home, token: key };
}
