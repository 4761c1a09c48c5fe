import { observeMachineIdentity } from "../../home/machine-identity.js";
import { resolveHome } from "../../home/state-directory.js";
import type { GatewayWithStatus } from "../../model/gateway.js";
import { listGatewaysWithStatus } from "../../store/gateways/queries.js";
import { openStoreForReading } from "../../store/open.js";
import { findStateDirectory } from "../../store/open-state-directory.js";
import { assertOperator } from "../client/connect.js";
import { type KnownHosts, readKnownHosts } from "../client/store-hosts.js";
import type { JsonFlag } from "../options/command-definition.js";
import { formatElapsed } from "../../text/format-units.js";
import { notice } from "../print/errors-and-notices.js";
import { printTable } from "../print/table.js";
import { print, toJson } from "../print/write-output.js";

/** Reads the store; needs no gateway. */
export async function printGateways({ json = false }: JsonFlag): Promise<number> {
  assertOperator("list the gateways");
  const directory = await findStateDirectory(resolveHome());
  await using store = await openStoreForReading(directory?.storePath ?? null);
  const { bootId } = await observeMachineIdentity(resolveHome());
  const gateways = store === null ? [] : await listGatewaysWithStatus(store, bootId, Date.now());
  if (json) print(toJson(gateways, 2));
  else if (gateways.length === 0) notice("no gateway has run with this store", "dim");
  else {
    const hosts = await readKnownHosts(store);
    printTable(
      COLUMNS,
      gateways.map((each) => gatewayRow(each, hosts)),
    );
  }
  return 0;
}

const COLUMNS = [
  "HOST",
  "GATEWAY",
  { name: "VERSION", optional: 1 },
  "STATUS",
  "RUNS",
  { name: "LAST SEEN", optional: 2 },
  "ADDRESS",
];

function gatewayRow(gateway: GatewayWithStatus, hosts: KnownHosts): string[] {
  const { hostId, instanceId, version, presence, runs, lastHeardAt, address } = gateway;
  const seen = lastHeardAt === null ? "before its host restarted" : `${formatElapsed(lastHeardAt)} ago`;
  const where = address === null ? "-" : `${address.host}:${address.port}`;
  return [hosts.displayName(hostId), instanceId, version, presence, String(runs), seen, where];
}
