import type { ResponseOf } from "../../api/contract.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { truncateToWidth } from "../../text/width.js";
import type { ReadApi } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { formatDuration } from "../options/units.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { printTable } from "../print/table.js";
import { type ShownTask, taskStatusText } from "./status.js";

export interface TaskListFilter {
  /** Statuses separated by commas. */
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
  else if (tasks.length === 0) notice(isUnfiltered(filter) ? "there are no tasks" : "no task matches", "dim");
  else
    printTable(
      COLUMNS,
      tasks.map((task) => taskRow(task, now)),
    );
  if (more) notice("there may be more tasks; --limit lists more", "dim");
  return 0;
}

const COLUMNS = [
  "TASK",
  "STATUS",
  { name: "RUNTIME", optional: 1 },
  { name: "NOTIFIED", optional: 1 },
  { name: "CREATED", optional: 2 },
  "LABEL",
  "LAST OUTPUT",
];

function isUnfiltered({ status, runtime, session }: TaskListFilter): boolean {
  return status === undefined && runtime === undefined && session === undefined;
}

/** The largest page of the API. */
const PAGE_LIMIT = 1_000;

/** Reads page after page: a page has fewer tasks than its limit if the session may not see all of them. */
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
  const notified = delivery === "not_applicable" ? "-" : delivery;
  return [
    taskId,
    taskStatusText(task),
    runtime,
    notified,
    age,
    shorten(label),
    shorten(lastOutputText(task)),
  ];
}

/** Its error, result or progress; of a command, the last line of its output. */
function lastOutputText({ error, summary, progress, runtime }: ShownTask): string {
  const text = [error, summary, progress].find((each) => each !== null && each !== "") ?? "";
  return runtime === "exec" && text === summary ? (text.trimEnd().split("\n").at(-1) ?? "") : text;
}

const CELL_WIDTH = 60;

/** The first line, at most CELL_WIDTH wide. */
function shorten(text: string): string {
  const [first = "", ...more] = text.trimEnd().split("\n");
  return truncateToWidth(sanitizeLine(more.length === 0 ? first : `${first} …`), CELL_WIDTH);
}
