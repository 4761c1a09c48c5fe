import { defaults } from "../../defaults.js";
import type { PublicGateway } from "../../model/gateway.js";
import type { ReadStore } from "../store.js";

/**
 * `up`: heard of within a lease. `silent`: not for longer. `unreachable`: not for so long that its runs count as
 * stalled. `stopped`: it said good-bye.
 */
export type GatewayStatus = "up" | "silent" | "unreachable" | "stopped";

export interface GatewayWithStatus extends PublicGateway {
  readonly presence: GatewayStatus;
  /** On the clock of whoever asks; null: before the last restart of its host. */
  readonly lastHeardAt: number | null;
  /** How many open runs it holds. */
  readonly runs: number;
}

/** `silentMs` null: on a clock that is gone. */
export function gatewayStatus(
  { stoppedAt }: Pick<PublicGateway, "stoppedAt">,
  silentMs: number | null,
): GatewayStatus {
  if (stoppedAt !== null) return "stopped";
  if (silentMs === null || silentMs > defaults.stalledOwnerMs) return "unreachable";
  return silentMs > defaults.leaseMs ? "silent" : "up";
}

/** Every gateway that is known, how it is, and what it holds. Only reads. */
export async function listGatewaysWithStatus(
  store: Pick<ReadStore, "listGateways" | "countOpenRunsByOwner" | "now" | "shared">,
  bootId: string,
  wall: number,
): Promise<readonly GatewayWithStatus[]> {
  const [gateways, held, now] = await Promise.all([
    store.listGateways(),
    store.countOpenRunsByOwner(),
    store.now(),
  ]);
  return gateways.map((gateway) => {
    const sameClock = store.shared || gateway.bootId === bootId;
    const silentMs = sameClock ? Math.max(0, now - gateway.heartbeatAt) : null;
    return {
      ...gateway,
      presence: gatewayStatus(gateway, silentMs),
      lastHeardAt: silentMs === null ? null : wall - silentMs,
      runs: held.get(gateway.instanceId) ?? 0,
    };
  });
}
