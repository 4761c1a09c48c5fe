import { formatSize } from "../../text/format-units.js";
import { notice } from "../print/errors-and-notices.js";
import { showPs } from "../runs/ps.js";
import {
  clearScreen,
  printPsJson,
  printPsTable,
  psRows,
  type PsRequest,
  type PsRow,
  type PsSource,
} from "../runs/ps-table.js";
import { CLIENT_LABEL, SERVER_LABEL } from "./wrapped-command.js";

/** Lists the wrapped servers that run, with their processes and memory; with `all`, also those that have ended. */
export async function listServers(request: Pick<PsRequest, "all" | "watch" | "json">): Promise<number> {
  return showPs(request, printServers);
}

function printServers(request: PsRequest, source: PsSource): void {
  const found = psRows(source, ({ labels }) => labels[SERVER_LABEL] !== undefined);
  const shown = found.toSorted((a, b) => serverOf(a).localeCompare(serverOf(b)) || a.createdAt - b.createdAt);
  if (request.json === true) return printPsJson(request, shown);
  if (shown.length === 0) {
    clearScreen(request);
    return notice("no wrapped server runs; `holdfast mcp wrap` shows which servers can be wrapped", "dim");
  }
  printPsTable(request, shown, source.hosts, [
    { name: "SERVER", cellOf: serverOf },
    { name: "CLIENT", cellOf: ({ labels }) => labels[CLIENT_LABEL] ?? "" },
  ]);
  notice(totalText(shown), "dim");
}

function serverOf({ labels }: PsRow): string {
  return labels[SERVER_LABEL] ?? "";
}

function totalText(shown: readonly PsRow[]): string {
  const processes = shown.flatMap((run) => run.processes);
  const kilobytes = processes.reduce((total, { rssKb }) => total + rssKb, 0);
  const open = shown.filter(({ state }) => state !== "exited").length;
  const servers = open === 1 ? "1 server" : `${open} servers`;
  const inAll = processes.length === 1 ? "1 process" : `${processes.length} processes`;
  return `${servers}, ${inAll}, ${formatSize(kilobytes * 1024)}`;
}
