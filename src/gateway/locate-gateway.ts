import { createClient, type GatewayClient } from "../api/client.js";
import type { ResponseOf } from "../api/contract.js";
import type { NoAnswer } from "../api/single-request.js";
import { defaults } from "../defaults.js";
import { GatewayNotProven, GatewayUnreachable } from "../errors.js";
import { gatewaySocketPath } from "../home/state-directory.js";
import type { ProcessIdentity } from "../model/process.js";
import { readOperatorToken } from "../sessions/tokens.js";
import {
  findLockedInstance,
  findWaitingGateway,
  readLiveProcess,
  type WaitingGateway,
} from "./gateway-files.js";

/** A gateway that is alive, because it holds the instance lock, and does not answer on its socket. */
export interface UnreachableGateway {
  readonly instanceId: string;
  /** Verified to be alive. Null: unknown. */
  readonly process: ProcessIdentity | null;
  /** False: the socket is missing, or no process listens on it. */
  readonly listens: boolean;
  /** False: the process that listens there did not prove that it knows the token; gateways of earlier versions cannot. */
  readonly proven: boolean;
}

export type GatewayLocation =
  | ({ readonly kind: "answers" } & ReachableGateway)
  /** It has started, and waits for its store. */
  | { readonly kind: "waiting"; readonly waiting: WaitingGateway }
  | { readonly kind: "unreachable"; readonly gateway: UnreachableGateway }
  | { readonly kind: "none" };

/** The gateway of a state directory, whether it answers or not. Starts nothing. */
export async function locateGateway(home: string, token: string | null = null): Promise<GatewayLocation> {
  const key = token ?? (await readOperatorToken(home));
  const probed = key === null ? "not-listening" : await probeGateway(home, key).catch(onlyNotProven);
  if (typeof probed === "object" && !(probed instanceof Error)) return { kind: "answers", ...probed };
  return locateSilentGateway(home, probed);
}

/** Locates a gateway that has not answered. `probed`: the result of the attempt to reach it. */
export async function locateSilentGateway(
  home: string,
  probed: NoAnswer | GatewayNotProven,
): Promise<Exclude<GatewayLocation, { readonly kind: "answers" }>> {
  const waiting = await findWaitingGateway(home);
  if (waiting !== null) return { kind: "waiting", waiting };
  const instanceId = await findLockedInstance(home);
  if (instanceId === null) {
    if (probed instanceof Error) throw probed;
    return { kind: "none" };
  }
  const process = await readLiveProcess(home, instanceId);
  return {
    kind: "unreachable",
    gateway: { instanceId, process, listens: probed !== "not-listening", proven: !(probed instanceof Error) },
  };
}

function onlyNotProven(error: unknown): GatewayNotProven {
  if (error instanceof GatewayNotProven) return error;
  throw error;
}

export function describeUnreachable(
  home: string,
  { instanceId, process, listens, proven }: UnreachableGateway,
  runsGoOn = true,
): string {
  const name = `gateway ${instanceId} (${process === null ? "pid not known" : `pid ${process.pid}`})`;
  if (!proven)
    return `${name} runs, but the process that listens on ${gatewaySocketPath(home)} did not prove that it knows the token: the gateway was started by an earlier version, or another process has taken its socket. Nothing but the token's id and a nonce was sent to it`;
  return listens
    ? `${name} does not answer: it is stopped or overloaded${runsGoOn ? ". Its runs continue under their anchors" : ""}`
    : `${name} runs, but cannot be reached: no process listens on ${gatewaySocketPath(home)}. A running gateway creates a missing socket again within ${defaults.gatewayRebindMs / 1_000} s`;
}

interface ReachableGateway {
  readonly client: GatewayClient;
  readonly status: ResponseOf<"status">;
}

/** The gateway of a state directory, if one answers. Starts nothing. */
export async function reachGateway(
  home: string,
  token: string | null = null,
): Promise<ReachableGateway | null> {
  const key = token ?? (await readOperatorToken(home));
  const probed = key === null ? "not-listening" : await probeGateway(home, key);
  return typeof probed === "object" ? probed : null;
}

export async function probeGateway(home: string, token: string): Promise<ReachableGateway | NoAnswer> {
  const client = createClient({ socketPath: gatewaySocketPath(home), token });
  const late = AbortSignal.timeout(defaults.gatewayAnswerMs);
  try {
    return { client, status: await client.status({}, late) };
  } catch (error) {
    if (late.aborted) return "silent";
    if (!(error instanceof GatewayUnreachable)) throw error;
    const { code } = (error.cause ?? {}) as NodeJS.ErrnoException;
    return code === "ENOENT" || code === "ECONNREFUSED" ? "not-listening" : "silent";
  }
}
