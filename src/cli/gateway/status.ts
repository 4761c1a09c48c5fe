import type { ResponseOf } from "../../api/contract.js";
import { type NoAnswer, readOnce } from "../../api/single-request.js";
import { defaults } from "../../defaults.js";
import { GatewayNotProven } from "../../errors.js";
import type { UnreachableGateway } from "../../gateway/locate-gateway.js";
import { packageVersion } from "../../home/package.js";
import { gatewaySocketPath, resolveHome } from "../../home/state-directory.js";
import { readOperatorToken } from "../../sessions/tokens.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { sessionToken } from "../client/requester.js";
import type { JsonFlag } from "../options/command-definition.js";
import { formatElapsed } from "../../text/format-units.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";

type GatewayStatusAnswer = ResponseOf<"status">;

export async function showGatewayStatus({ json = false }: JsonFlag): Promise<number> {
  const home = resolveHome();
  const probed = await askStatus(home);
  if (typeof probed === "object" && !(probed instanceof GatewayNotProven)) {
    print(
      json
        ? toJson({ running: true, ...probed, installedVersion: packageVersion() })
        : `${gatewayStatusLine(probed)}\n`,
    );
    return 0;
  }
  const [
    { describeUnreachable, locateSilentGateway: locateSilent },
    { describeWaitingGateway: describeWaiting },
  ] = await Promise.all([
    import("../../gateway/locate-gateway.js"),
    import("../../gateway/gateway-files.js"),
  ]);
  const found = await locateSilent(home, probed);
  switch (found.kind) {
    case "waiting":
      if (json) print(toJson({ running: false, waiting: found.waiting }));
      else notice(describeWaiting(found.waiting), "yellow");
      return exitCodes.notThere;
    case "unreachable":
      if (json) print(toJson({ running: true, ...unreachableJson(found.gateway) }));
      else notice(`${describeUnreachable(home, found.gateway)}. To end it: holdfast gateway stop`, "yellow");
      return exitCodes.incomplete;
    case "none":
      if (json) print(toJson({ running: false }));
      else notice("no gateway is running", "dim");
      return exitCodes.notThere;
  }
}

async function askStatus(home: string): Promise<GatewayStatusAnswer | NoAnswer | GatewayNotProven> {
  const token = sessionToken() ?? (await readOperatorToken(home)) ?? "";
  if (token === "") return "not-listening";
  const address = { socketPath: gatewaySocketPath(home), token };
  return readOnce(address, "status", {}, defaults.gatewayAnswerMs).catch((error: unknown) => {
    if (error instanceof GatewayNotProven) return error;
    throw error;
  });
}

export function unreachableJson({ instanceId, process, listens }: UnreachableGateway): object {
  return { reachable: false, listens, instanceId, pid: process?.pid ?? null };
}

export function gatewayStatusLine(status: GatewayStatusAnswer): string {
  const { instanceId, pid, home, runs, startedAt, version, listen, storeAway, storeWrites } = status;
  const installed = packageVersion();
  const outdated = installed === version ? "" : ` (restart to use ${installed}: holdfast gateway restart)`;
  const parts = [
    `gateway ${instanceId} ${version}${outdated}`,
    `pid ${pid}`,
    `up ${formatElapsed(startedAt)}`,
    `${runs} open ${runs === 1 ? "run" : "runs"}`,
    `state in ${home}`,
    ...(listen === null ? [] : [`listening on ${listen}`]),
  ];
  return (
    parts.join(", ") + (storeAway === null ? storeWritesText(storeWrites) : `; ${sanitizeLine(storeAway)}`)
  );
}

/** Only for a store that can be read. A gateway of an earlier version does not report it. */
function storeWritesText(writes: GatewayStatusAnswer["storeWrites"] | undefined): string {
  if (writes === undefined || writes.writable) return "";
  const { since, backlog, refusal } = writes;
  const forMs = formatElapsed(since ?? Date.now());
  return `; the store can be read but not written, for ${forMs}, and ${backlog} ${backlog === 1 ? "write is" : "writes are"} waiting: ${sanitizeLine(refusal ?? "")}`;
}
