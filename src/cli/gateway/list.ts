import { observeMachineIdentity } from "../../home/machine-identity.js";
import { resolveHome } from "../../home/state-directory.js";
import { type GatewayWithStatus, listGatewaysWithStatus } from "../../store/gateways/queries.js";
import { findStateDirectory, openStoreForReading } from "../../store/open.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator } from "../client/connect.js";
import { type KnownHosts, readKnownHosts } from "../client/run-view.js";
import { formatDuration } from "../options/units.js";
import { paletteFor } from "../print/palette.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { formatTable, terminalWidth } from "../print/table.js";

/** Reads the store; needs no gateway. */
export async function printGateways(json: boolean): Promise<number> {
  assertOperator("list the gateways");
  const directory = await findStateDirectory(resolveHome());
  await using store = await openStoreForReading(directory?.storePath ?? null);
  const { bootId } = await observeMachineIdentity(resolveHome());
  const now = Date.now();
  const gateways = store === null ? [] : await listGatewaysWithStatus(store, bootId, now);
  if (json) print(toJson(gateways, 2));
  else if (gateways.length === 0) notice("no gateway has run with this store", "dim");
  else {
    const hosts = await readKnownHosts(store);
    const width = terminalWidth();
    print(`${gatewayTable(gateways, now, width, hosts).join("\n")}\n`);
  }
  return 0;
}

export function gatewayTable(
  gateways: readonly GatewayWithStatus[],
  now: number,
  width: number | null,
  hosts: KnownHosts,
): string[] {
  const ago = (at: number): string => `${formatDuration(Math.max(0, now - at))} ago`;
  const rows = gateways.map((gateway) => [
    hosts.displayName(gateway.hostId),
    sanitizeLine(gateway.instanceId),
    sanitizeLine(gateway.version),
    gateway.presence,
    String(gateway.runs),
    gateway.lastHeardAt === null ? "before its host restarted" : ago(gateway.lastHeardAt),
    gateway.address === null ? "-" : sanitizeLine(`${gateway.address.host}:${gateway.address.port}`),
  ]);
  const head = [
    "HOST",
    "GATEWAY",
    { name: "VERSION", optional: 1 },
    "STATUS",
    "RUNS",
    { name: "LAST SEEN", optional: 2 },
    "ADDRESS",
  ];
  const [first, ...lines] = formatTable(head, rows, width);
  return [paletteFor(1).bold(first ?? ""), ...lines];
}
