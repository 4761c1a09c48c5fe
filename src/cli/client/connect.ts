import { defaults } from "../../defaults.js";
import { GatewaySilent, GatewayUnreachable, HoldfastError, InsideRun, OperatorOnly } from "../../errors.js";
import { createClient, type GatewayClient } from "../../api/client.js";
import { readOperatorToken } from "../../sessions/tokens.js";
import { startGateway, type StartResult } from "../../gateway/start-in-background.js";
import { probeGateway, reachGateway } from "../../gateway/locate-gateway.js";
import { findLockedInstance, readLiveProcess } from "../../gateway/gateway-files.js";
import { gatewaySocketPath, resolveHome } from "../../home/state-directory.js";
import { openStateDirectory } from "../../store/open-state-directory.js";
import type { AcpQueryVerb } from "../../queries/acp.js";
import type { TaskQueryVerb } from "../../queries/tasks.js";
import { notice } from "../print/errors-and-notices.js";
import { sessionToken } from "./requester.js";

export interface GatewayConnection {
  readonly client: GatewayClient;
  readonly home: string;
  readonly token: string;
}

/** The operations that change nothing. */
export type ReadApi = Pick<
  GatewayClient,
  | "listRuns"
  | "poll"
  | "log"
  | "screen"
  | "listSessions"
  | "sessionStatus"
  | "sessionHistory"
  | "sessionInbox"
  | AcpQueryVerb
  | "acpRules"
  | TaskQueryVerb
  /** Without `apply`. */
  | "maintainTasks"
>;

export interface ReadClient extends AsyncDisposable {
  readonly client: ReadApi;
}

export function hasErrorCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof HoldfastError && codes.includes(error.code);
}

/** Inside a run, nothing is started that would outlive the run. */
export function isInsideRun(): boolean {
  return process.env["HOLDFAST_RUN_ID"] !== undefined;
}

export function assertOutsideRun(verb: string): void {
  if (isInsideRun()) throw new InsideRun(verb);
}

/** For operations that do not go through the gateway, which would refuse them to a session. */
export function assertOperator(what: string): void {
  if (sessionToken() !== null) throw new OperatorOnly(what);
}

/** The token of a session if the run inherited one; otherwise that of the operator. */
export async function requesterToken(home: string): Promise<string> {
  return sessionToken() ?? (await readOperatorToken(home)) ?? "";
}

/** The running gateway; null: none is running. Rejects with GatewaySilent if it does not answer. */
export async function connectIfRunning(): Promise<GatewayConnection | null> {
  const home = resolveHome();
  const token = await requesterToken(home);
  const probed = token === "" ? "not-listening" : await probeGateway(home, token);
  if (typeof probed === "object") return { client: probed.client, home, token };
  const held = await findLockedInstance(home);
  if (held === null && probed === "not-listening") return null;
  throw await gatewaySilentError(home, held, probed === "silent" ? defaults.gatewayAnswerMs : null);
}

/** `withinMs`: how long the command waited for an answer; null: no process listens. */
async function gatewaySilentError(
  home: string,
  instanceId: string | null,
  withinMs: number | null,
): Promise<GatewaySilent> {
  const pid = instanceId === null ? null : ((await readLiveProcess(home, instanceId))?.pid ?? null);
  const gateway = `the gateway${pid === null ? "" : ` (pid ${pid})`}`;
  const why =
    withinMs === null
      ? `${gateway} cannot be reached: no process listens on ${gatewaySocketPath(home)}`
      : `${gateway} did not answer within ${withinMs / 1000} s`;
  return new GatewaySilent(pid, why);
}

/** Like `connectIfRunning`, with a timeout for every request. */
export async function connectForReading(): Promise<GatewayConnection | null> {
  const found = await connectIfRunning();
  return found === null ? null : { ...found, client: withTimeouts(found.client, found.home) };
}

/** A client whose requests time out after `gatewayReadMs`, plus the `waitMs` of the request. */
function withTimeouts(client: GatewayClient, home: string): GatewayClient {
  const verbs = Object.entries(client) as [
    string,
    (question?: object, signal?: AbortSignal) => Promise<unknown>,
  ][];
  const bounded = verbs.map(([verb, send]) => [
    verb,
    async (question: { readonly query?: { readonly waitMs?: unknown } } = {}, signal?: AbortSignal) => {
      const waitMs = question.query?.waitMs;
      const withinMs = defaults.gatewayReadMs + (typeof waitMs === "number" ? waitMs : 0);
      const late = AbortSignal.timeout(withinMs);
      try {
        return await send(question, signal === undefined ? late : AbortSignal.any([signal, late]));
      } catch (error) {
        throw late.aborted ? await gatewaySilentError(home, await findLockedInstance(home), withinMs) : error;
      }
    },
  ]);
  return Object.fromEntries(bounded) as GatewayClient;
}

async function findReachable(): Promise<{
  readonly connection: GatewayConnection;
  readonly ready: boolean;
} | null> {
  const home = resolveHome();
  const token = await requesterToken(home);
  const found = token === "" ? null : await reachGateway(home, token);
  if (found === null) return null;
  return { connection: { client: found.client, home, token }, ready: found.status.ready };
}

/** For a gateway in a scope of the user's systemd manager, which ends with the user's last session. */
export function warnOfLogout({ endsAtLogout }: StartResult): void {
  if (endsAtLogout)
    notice(
      "the gateway and its runs end when you log out, because lingering is off; to keep them: loginctl enable-linger",
      "yellow",
    );
}

/**
 * The gateway for a command that acts: if none is running, one is started and a notice printed, except inside a run.
 */
export async function connectOrStart(instead = ""): Promise<GatewayConnection> {
  const found = await findReachable();
  if (found?.ready === true) return found.connection;
  if (found === null && isInsideRun())
    throw new GatewayUnreachable(
      `no gateway is running, and inside a run none is started; nothing was done. Start one outside: holdfast gateway start${instead}`,
    );
  const opened = await openStateDirectory(resolveHome());
  const start = await startGateway(opened.home);
  if (start.started)
    notice(
      `started a gateway in the background (pid ${start.status.pid}); \`holdfast gateway stop\` stops it`,
      "dim",
    );
  warnOfLogout(start);
  const key = await requesterToken(opened.home);
  const client = createClient({ socketPath: gatewaySocketPath(opened.home), token: key });
  return { client, home: opened.home, token: key };
}
