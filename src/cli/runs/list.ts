import { isatty } from "node:tty";
import { observeMachineIdentity } from "../../home/machine-identity.js";
import { resolveHome } from "../../home/state-directory.js";
import type { RunRecord, RunStateName } from "../../model/run.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { hostFilter, type KnownHosts, readKnownHosts } from "../client/known-hosts.js";
import { openReadClient } from "../client/read-client.js";
import { openRunView, openStoreRunView } from "../client/run-view.js";
import type { RunView } from "../client/session-run-view.js";
import { formatDuration } from "../options/units.js";
import { type Palette, paletteFor } from "../print/palette.js";
import {
  leaseObserver,
  ownerWarning,
  type OwnerWarning,
  ownerWarningText,
  runStatusText,
  statusTone,
} from "../print/run-status.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { formatTable } from "../print/table.js";

export interface ListRunsRequest {
  readonly states: readonly RunStateName[];
  readonly labels: Readonly<Record<string, string>>;
  readonly host: string | null;
  readonly hidden: boolean;
  readonly limit: number;
  readonly json: boolean;
}

export async function printRuns(request: ListRunsRequest): Promise<number> {
  const { states, labels, host, hidden, limit, json } = request;
  await using view = await openRunView();
  const store = view.view;
  const hosts = await readKnownHosts(store);
  const filter = {
    states,
    labels,
    ...hostFilter(hosts, host),
    ...(hidden ? {} : { hidden: false as const }),
  };
  // One more than shown, to know whether that was all.
  const found = (await store?.listRuns({ ...filter, limit: limit + 1 })) ?? [];
  const shown = found.slice(0, limit);
  if (json) {
    const named = shown.map((record) => ({ ...record, hostName: hosts.nameOf(record.hostId) }));
    print(toJson(named, 2));
    return 0;
  }
  if (shown.length > 0) {
    const care = store === null ? null : await ownerWarnings(store);
    print(`${runTable(shown, Date.now(), terminalWidth(), paletteFor(1), care, hosts).join("\n")}\n`);
  } else
    notice(
      states.includes("exited")
        ? "no such runs are recorded"
        : "nothing is running; --all shows what has ended",
      "dim",
    );
  if (found.length > limit) notice(`there are more; --limit shows them`, "dim");
  return 0;
}

export function runTable(
  records: readonly RunRecord[],
  now: number,
  width: number | null,
  palette: Palette,
  careOfRun: WarningOf | null = null,
  hosts: KnownHosts | null = null,
): string[] {
  const several = hosts?.hasSeveral === true;
  const status = (record: RunRecord): string => {
    const care = careOfRun?.(record) ?? null;
    return care === null ? runStatusText(record) : `${runStatusText(record)}, ${ownerWarningText(care)}`;
  };
  const rows = records.map((record) => [
    record.runId,
    ...(several ? [hosts.displayName(record.hostId)] : []),
    status(record),
    `${formatDuration(Math.max(0, now - record.createdAt))} ago`,
    record.startedAt === null ? "-" : formatDuration(Math.max(0, (record.endedAt ?? now) - record.startedAt)),
    record.state === "exited" ? "-" : String(record.root?.pid ?? "-"),
    sanitizeLine(record.command),
  ]);
  const names = ["RUN", ...(several ? ["HOST"] : []), "STATUS", "CREATED", "TIME", "PID", "COMMAND"];
  const [head, ...lines] = formatTable([names, ...rows], width);
  const colours = { good: palette.green, bad: palette.red, live: palette.cyan, ended: palette.yellow };
  return [
    palette.bold(head ?? ""),
    ...lines.map((line, at) => {
      const record = records[at];
      // Only the status, once the columns stand: escape sequences have no width.
      return record === undefined
        ? line
        : line.replace(`  ${status(record)}`, (text) => colours[statusTone(record)](text));
    }),
  ];
}

type WarningOf = (record: RunRecord) => OwnerWarning | null;

async function ownerWarnings(store: RunView): Promise<WarningOf> {
  const view = await leaseObserver(store, await observeMachineIdentity(resolveHome()));
  return (record) => ownerWarning(record, view);
}

function terminalWidth(): number | null {
  return isatty(1) ? process.stdout.columns : null;
}

export interface ProcessListRequest {
  readonly all: boolean;
  readonly limit: number;
  readonly json: boolean;
}

/** What the one who asks may see: runs that go on and runs that have ended, but for those that were hidden. */
export async function printVisibleRuns({ all, limit, json }: ProcessListRequest): Promise<number> {
  await using reader = await openReadClient();
  const { runs, storeAway } = await reader.client.listRuns({
    query: { all: "1", limit, ...(all ? { hidden: "1" } : {}) },
  });
  if (json) print(toJson(runs, 2));
  else if (runs.length === 0) notice("there are no runs to be seen", "dim");
  else {
    const width = isatty(1) ? process.stdout.columns : null;
    const hosts = typeof storeAway === "string" ? null : await readHostsIfPossible();
    print(`${runTable(runs, Date.now(), width, paletteFor(1), null, hosts).join("\n")}\n`);
  }
  // A gateway of an earlier version does not send storeAway.
  if (typeof storeAway === "string")
    notice(`the store cannot be read, so only runs of this host are listed: ${storeAway}`, "yellow");
  return 0;
}

/** Names only: who cannot read the store sees the runs all the same. */
async function readHostsIfPossible(): Promise<KnownHosts | null> {
  try {
    await using store = await openStoreRunView();
    return await readKnownHosts(store);
  } catch {
    return null;
  }
}
