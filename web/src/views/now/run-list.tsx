import type { Run } from "../../api/types.js";
import { ProcessRow } from "../../components/process-row.js";
import { NARROW_ROW_PX, ROW_PX, VirtualList } from "../../components/virtual-list.js";
import { allUsage } from "../../live/usage-of-all-runs.js";
import { flattenTree, type TreeRow } from "../../live/run-usage.js";
import { areProcessesShown } from "./shown-processes.js";
import { RunRow } from "./run-row.js";

/** A run, or below it one of its processes. */
type Item =
  | { readonly run: Run; readonly row: null; readonly more: 0 }
  | { readonly run: Run; readonly row: TreeRow; readonly more: 0 }
  | { readonly run: Run; readonly row: null; readonly more: number };

/** Matches the height of `.run-process` in styles/now.css. */
const PROCESS_PX = 30;
/** All of them are shown in the view of the run. */
const MAX_PROCESSES = 30;

const heightOf = ({ row, more }: Item): number => (row === null && more === 0 ? ROW_PX : PROCESS_PX);
const narrowHeightOf = ({ row, more }: Item): number =>
  row === null && more === 0 ? NARROW_ROW_PX : PROCESS_PX;

export function RunList({ label, runs }: { readonly label: string; readonly runs: readonly Run[] }) {
  const items = runs.flatMap(itemsOf);
  return (
    <VirtualList
      label={label}
      items={items}
      itemKey={({ run, row, more }) => `${run.runId} ${row?.process.pid ?? ""} ${more === 0 ? "" : "more"}`}
      render={(item) => <ListItem item={item} />}
      itemHeight={heightOf}
      narrowItemHeight={narrowHeightOf}
    />
  );
}

function itemsOf(run: Run): readonly Item[] {
  const first = { run, row: null, more: 0 } as const;
  if (!areProcessesShown(run.runId)) return [first];
  const rows = flattenTree(allUsage.value.get(run.runId)?.processes ?? []);
  const shown = rows.slice(0, MAX_PROCESSES).map((row) => ({ run, row, more: 0 }) as const);
  const more = rows.length - shown.length;
  return [first, ...shown, ...(more > 0 ? [{ run, row: null, more }] : [])];
}

function ListItem({ item: { run, row, more } }: { readonly item: Item }) {
  if (row !== null)
    return (
      <div class="run-process">
        <ProcessRow row={row} />
      </div>
    );
  if (more > 0)
    return (
      <div class="run-process">
        <a href={`/runs/${run.runId}`}>and {more} more processes</a>
      </div>
    );
  return <RunRow run={run} />;
}
