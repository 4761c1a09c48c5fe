import { defaults } from "../../defaults.js";
import type { PublicGateway } from "../../model/gateway.js";
import type { ReadStore } from "../store.js";

/**
 * `up`: sent a heartbeat within a lease. `silent`: did not. `unreachable`: did not for so long that its runs count as
 * stalled. `stopped`: reported that it stopped.
 */
export type GatewayStatus = "up" | "silent" | "unreachable" | "stopped";

export interface GatewayWithStatus extends PublicGateway {
  readonly presence: GatewayStatus;
  /** On the reader's clock; null: before the last boot of its host. */
  readonly lastHeardAt: number | null;
  /** How many open runs it owns. */
  readonly runs: number;
}

/** `silentMs` null: measured on the clock of another boot. */
export function gatewayStatus(
  { stoppedAt }: Pick<PublicGateway, "stoppedAt">,
  silentMs: number | null,
): GatewayStatus {
  if (stoppedAt !== null) return "stopped";
  if (silentMs === null || silentMs > defaults.stalledOwnerMs) return "unreachable";
  return silentMs > defaults.leaseMs ? "silent" : "up";
}

/** All gateways with their status and number of open runs. */
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
