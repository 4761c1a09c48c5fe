import { isatty } from "node:tty";
import type { ResponseOf } from "../../api/contract.js";
import { sanitizeLine } from "../../text/sanitize.js";
import type { ReadApi } from "../client/read-api.js";
import { openReadClient } from "../client/read-client.js";
import { formatDuration } from "../options/units.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { printTable, truncateToWidth } from "../print/table.js";
import { type ShownTask, taskStatusText } from "./status.js";

export interface TaskListFilter {
  /** Several are separated by commas. */
  readonly status?: string;
  readonly runtime?: string;
  readonly session?: string;
  readonly limit: number;
}

export async function printTasks(filter: TaskListFilter, json: boolean): Promise<number> {
  await using reader = await openReadClient();
  const { tasks, more } = await readPages(reader.client, filter);
  const now = Date.now();
  if (json) print(toJson(tasks, 2));
  else if (tasks.length === 0)
    notice(`there are no ${isUnfiltered(filter) ? "" : "such "}tasks to be seen`, "dim");
  else {
    const width = (isatty(1) && process.stdout.columns) || Infinity;
    const shown = (cells: readonly string[]): string[] =>
      cells.filter((_, at) => (MIN_WIDTHS[at] ?? 0) <= width);
    printTable(
      shown(COLUMNS),
      tasks.map((task) => shown(taskRow(task, now))),
    );
  }
  if (more) notice("there may be more than these; --limit shows more", "dim");
  return 0;
}

const COLUMNS = ["TASK", "STATUS", "RUNTIME", "TOLD", "CREATED", "LABEL", "LAST WORD"];
/** How wide a terminal must be for each: on a narrower one little would be seen of the label. */
const MIN_WIDTHS = [0, 0, 90, 90, 0, 0, 110];

function isUnfiltered({ status, runtime, session }: TaskListFilter): boolean {
  return status === undefined && runtime === undefined && session === undefined;
}

/** As many as one answer may hold. */
const PAGE_LIMIT = 1_000;

/** A page may be short of what it could hold: of a session, where much may not be seen. */
async function readPages(
  client: ReadApi,
  { limit, ...filter }: TaskListFilter,
): Promise<{ readonly tasks: readonly ShownTask[]; readonly more: boolean }> {
  const tasks: ShownTask[] = [];
  let cursor: string | null = null;
  do {
    const at = cursor === null ? {} : { cursor };
    const query = { ...filter, ...at, limit: Math.min(PAGE_LIMIT, limit - tasks.length) };
    const page: ResponseOf<"listTasks"> = await client.listTasks({ query });
    tasks.push(...page.tasks);
    cursor = page.next;
  } while (cursor !== null && tasks.length < limit);
  return { tasks, more: cursor !== null };
}

function taskRow(task: ShownTask, now: number): readonly string[] {
  const { taskId, runtime, delivery, createdAt, label } = task;
  const age = `${formatDuration(Math.max(0, now - createdAt))} ago`;
  const told = delivery === "not_applicable" ? "-" : delivery;
  return [taskId, taskStatusText(task), runtime, told, age, shorten(label), shorten(lastOutputText(task))];
}

/** What came of it, or else what was last heard of it: of what a command wrote, the last line. */
function lastOutputText({ error, summary, progress, runtime }: ShownTask): string {
  const word = [error, summary, progress].find((text) => text !== null && text !== "") ?? "";
  return runtime === "exec" && word === summary ? (word.trimEnd().split("\n").at(-1) ?? "") : word;
}

const CELL_WIDTH = 60;

/** Of several lines the first. */
function shorten(text: string): string {
  const [first = "", ...more] = text.trimEnd().split("\n");
  return truncateToWidth(sanitizeLine(more.length === 0 ? first : `${first} …`), CELL_WIDTH);
}
