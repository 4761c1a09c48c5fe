import { isatty } from "node:tty";
import { sanitizeLine } from "../../output/sanitize.js";
import { presentGateways, type PresentGateway } from "../../store/gateway-presence.js";
import { observeMachineIdentity } from "../../store/machine.js";
import { openStoreForReading } from "../../store/open.js";
import { findStateDirectory, resolveHome } from "../../store/state-directory.js";
import { say } from "../complain.js";
import { formatDuration } from "../duration.js";
import { mustBeOperator } from "../gateway/connect.js";
import { readHosts, type Hosts } from "../hosts/hosts.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { print } from "../runs/print.js";
import { table } from "../runs/table.js";

/** Reads the store; asks no gateway, and starts none. */
export async function listGateways(json: boolean): Promise<number> {
  mustBeOperator("list the gateways");
  const directory = await findStateDirectory(resolveHome());
  await using store = await openStoreForReading(directory?.storePath ?? null);
  const { bootId } = await observeMachineIdentity(resolveHome());
  const now = Date.now();
  const gateways = store === null ? [] : await presentGateways(store, bootId, now);
  if (json) print(toJson(gateways, 2));
  else if (gateways.length === 0) say("no gateway has ever run here", "dim");
  else {
    const hosts = await readHosts(store);
    const width = isatty(1) ? process.stdout.columns : null;
    print(`${gatewayLines(gateways, now, width, hosts).join("\n")}\n`);
  }
  return 0;
}

export function gatewayLines(
  gateways: readonly PresentGateway[],
  now: number,
  width: number | null,
  hosts: Hosts,
): string[] {
  const ago = (at: number): string => `${formatDuration(Math.max(0, now - at))} ago`;
  const rows = gateways.map((gateway) => [
    hosts.shown(gateway.hostId),
    sanitizeLine(gateway.instanceId),
    sanitizeLine(gateway.version),
    gateway.presence,
    String(gateway.runs),
    gateway.lastHeardAt === null ? "before its host restarted" : ago(gateway.lastHeardAt),
    gateway.address === null ? "-" : sanitizeLine(`${gateway.address.host}:${gateway.address.port}`),
  ]);
  const head = ["HOST", "GATEWAY", "VERSION", "STATUS", "RUNS", "LAST HEARD", "ADDRESS"];
  const [first, ...lines] = table([head, ...rows], width);
  return [paletteFor(1).bold(first ?? ""), ...lines];
}
