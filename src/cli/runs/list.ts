import { observeMachineIdentity } from "../../home/machine-identity.js";
import { resolveHome } from "../../home/state-directory.js";
import { OPEN_RUN_STATES, type RunRecord, type RunStateName } from "../../model/run.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { NAME_LABEL } from "../../model/enums.js";
import { openReadClient } from "../client/read-client.js";
import {
  hostFilter,
  type KnownHosts,
  openRunView,
  openStoreRunView,
  readKnownHosts,
  type RunView,
} from "../client/run-view.js";
import { formatDuration } from "../options/units.js";
import {
  leaseObserver,
  ownerWarning,
  type OwnerWarning,
  ownerWarningText,
  runStatusText,
  statusTone,
} from "../print/run-status.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { formatTable, terminalWidth } from "../print/table.js";
import { type Palette, paletteFor } from "../print/terminal.js";

/** The options of `runs list`. */
export interface ListRunsRequest {
  readonly all?: true;
  readonly state?: RunStateName;
  readonly label?: Readonly<Record<string, string>>;
  readonly host?: string;
  readonly limit: number;
  readonly json?: true;
}

export async function printRuns(request: ListRunsRequest): Promise<number> {
  const { all, state, label: labels = {}, host, limit, json } = request;
  const open = state === undefined && all !== true;
  await using view = await openRunView();
  const store = view.view;
  const hosts = await readKnownHosts(store);
  const filter = {
    ...(open ? { states: OPEN_RUN_STATES } : {}),
    ...(state === undefined ? {} : { states: [state] }),
    labels,
    ...hostFilter(hosts, host),
    ...(all === true ? {} : { hidden: false as const }),
  };
  // One more than the limit shows whether there are more.
  const found = (await store?.listRuns({ ...filter, limit: limit + 1 })) ?? [];
  const shown = found.slice(0, limit);
  if (json === true) {
    const named = shown.map((record) => ({ ...record, hostName: hosts.nameOf(record.hostId) }));
    print(toJson(named, 2));
    return 0;
  }
  if (shown.length > 0) {
    const warningOf = store === null ? null : await ownerWarnings(store);
    print(`${runTable(shown, Date.now(), terminalWidth(), paletteFor(1), warningOf, hosts).join("\n")}\n`);
  } else notice(open ? "no run is open; --all lists ended runs" : "no run matches", "dim");
  if (found.length > limit) notice("there are more runs; --limit lists more", "dim");
  return 0;
}

export function runTable(
  records: readonly RunRecord[],
  now: number,
  width: number | null,
  palette: Palette,
  warningOf: WarningOf | null = null,
  hosts: KnownHosts | null = null,
): string[] {
  const several = hosts?.hasSeveral === true;
  const named = records.some(({ labels }) => labels[NAME_LABEL] !== undefined);
  const status = (record: RunRecord): string => {
    const warning = warningOf?.(record) ?? null;
    return warning === null
      ? runStatusText(record)
      : `${runStatusText(record)}, ${ownerWarningText(warning)}`;
  };
  const rows = records.map((record) => [
    record.runId,
    ...(named ? [sanitizeLine(record.labels[NAME_LABEL] ?? "")] : []),
    ...(several ? [hosts.displayName(record.hostId)] : []),
    status(record),
    `${formatDuration(Math.max(0, now - record.createdAt))} ago`,
    record.startedAt === null ? "-" : formatDuration(Math.max(0, (record.endedAt ?? now) - record.startedAt)),
    record.state === "exited" ? "-" : String(record.root?.pid ?? "-"),
    sanitizeLine(record.command),
  ]);
  const columns = [
    "RUN",
    ...(named ? [{ name: "NAME", optional: 5 }] : []),
    ...(several ? [{ name: "HOST", optional: 4 }] : []),
    "STATUS",
    { name: "CREATED", optional: 2 },
    { name: "TIME", optional: 3 },
    { name: "PID", optional: 1 },
    "COMMAND",
  ];
  const [head, ...lines] = formatTable(columns, rows, width);
  const colours = { good: palette.green, bad: palette.red, live: palette.cyan, ended: palette.yellow };
  return [
    palette.bold(head ?? ""),
    ...lines.map((line, at) => {
      const record = records[at];
      // After the columns are aligned: escape sequences have no width.
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

/** The options of `process list`. */
export type ProcessListRequest = Pick<ListRunsRequest, "all" | "limit" | "json">;

/** Lists the runs that the requester may see, open and ended, without removed ones. */
export async function printVisibleRuns({ all, limit, json }: ProcessListRequest): Promise<number> {
  await using reader = await openReadClient();
  const { runs, storeAway } = await reader.client.listRuns({
    query: { all: "1", limit, ...(all === true ? { hidden: "1" } : {}) },
  });
  if (json === true) print(toJson(runs, 2));
  else if (runs.length === 0) notice("there are no runs", "dim");
  else {
    const hosts = typeof storeAway === "string" ? null : await readHostsIfPossible();
    print(`${runTable(runs, Date.now(), terminalWidth(), paletteFor(1), null, hosts).join("\n")}\n`);
  }
  // A gateway of an earlier version does not send storeAway.
  if (typeof storeAway === "string")
    notice(`the store cannot be read, so only runs of this host are listed: ${storeAway}`, "yellow");
  return 0;
}

/** Host names are optional: a requester that cannot read the store still gets the list. */
async function readHostsIfPossible(): Promise<KnownHosts | null> {
  try {
    await using store = await openStoreRunView();
    return await readKnownHosts(store);
  } catch {
    return null;
  }
}
