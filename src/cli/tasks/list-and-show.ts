import type { ResponseOf } from "../../api/contract.js";
import type { RunProcesses } from "../../supervisor/inspect/live-processes.js";
import { sanitizeLine, sanitizeText } from "../../text/sanitize.js";
import { taskEventText } from "../../text/task-event.js";
import { truncateToWidth } from "../../text/display-width.js";
import type { ReadApi } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import type { JsonFlag } from "../options/command-definition.js";
import { formatDuration, formatElapsed } from "../../text/format-units.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { printTable } from "../print/table.js";
import { paletteFor } from "../print/colours-and-progress.js";
import { inspectRun } from "../runs/processes.js";
import { type DisplayField, fieldLines, formatTime } from "../print/fields.js";
import { exitFields, processLines } from "../runs/show.js";
import { type ShownTask, targetText, taskParams, taskStatusColour, taskStatusText } from "./task-texts.js";

interface TaskListFlags extends JsonFlag {
  /** Statuses separated by commas. */
  readonly status?: string;
  readonly runtime?: string;
  readonly session?: string;
  readonly limit: number;
}

export async function printTasks({ json = false, ...filter }: TaskListFlags): Promise<number> {
  await using reader = await openReadClient();
  const { tasks, more } = await readPages(reader.client, filter);
  if (json) print(toJson(tasks, 2));
  else if (tasks.length === 0) notice(isUnfiltered(filter) ? "there are no tasks" : "no task matches", "dim");
  else printTable(COLUMNS, tasks.map(taskRow));
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

function isUnfiltered({ status, runtime, session }: TaskListFlags): boolean {
  return status === undefined && runtime === undefined && session === undefined;
}

/** The largest page of the API. */
const PAGE_LIMIT = 1_000;

/** Reads page after page: a page has fewer tasks than its limit if the session may not see all of them. */
async function readPages(
  client: ReadApi,
  { limit, ...filter }: TaskListFlags,
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

function taskRow(task: ShownTask): readonly string[] {
  const { taskId, runtime, delivery, createdAt, label } = task;
  const age = `${formatElapsed(createdAt)} ago`;
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

/** Everything about a task as text. */
function describeTask({ task, events, messages, run, processes, output }: TaskDetails): string[] {
  const palette = paletteFor(1);
  const section = (title: string, lines: readonly string[]): string[] =>
    lines.length === 0 ? [] : ["", palette.bold(title), ...lines.map((line) => `  ${line}`)];
  const status = taskStatusColour(task, palette)(taskStatusText(task));
  return [
    `${palette.bold(task.taskId)}  ${status}  ${sanitizeLine(task.label)}`,
    ...section("task", fieldLines(taskFields(task))),
    ...section("request", task.text === task.label ? [] : textLines(task.text)),
    ...section("error", task.error === null ? [] : textLines(task.error)),
    ...section("result", task.summary === null ? [] : textLines(task.summary)),
    ...section("notification", notificationLines(task, messages)),
    ...(run === null
      ? []
      : section(
          "run",
          fieldLines([["id", run.runId], ["command", run.command], ["state", run.state], ...exitFields(run)]),
        )),
    ...(run === null || processes === null ? [] : section("processes", processLines(run, processes))),
    ...section("output", output === null || run === null ? [] : outputLines(output, run.runId)),
    ...section(
      "history",
      events.map((event) =>
        `${formatTime(event.at)}  ${event.type.padEnd(9)}  ${sanitizeLine(taskEventText(event))}`.trimEnd(),
      ),
    ),
  ];
}

function taskFields(task: ShownTask): readonly DisplayField[] {
  const { startedAt, endedAt, lastEventAt, cleanupAfter, heartbeatMs } = task;
  return [
    ["runtime", task.kind === null ? task.runtime : `${task.runtime}, ${task.kind}`],
    ["requested by", task.ownerSessionId ?? "the operator"],
    ["done by", task.childSessionId],
    ["agent", task.agentId],
    ["turn", task.turnId],
    ["part of", task.parentTaskId],
    ["created", formatTime(task.createdAt)],
    ["started", startedAt === null ? null : formatTime(startedAt)],
    ["last event", endedAt === null ? formatTime(lastEventAt) : null],
    ["ended", endedAt === null ? null : formatTime(endedAt)],
    [
      endedAt === null ? "running for" : "took",
      startedAt === null ? null : formatElapsed(startedAt, endedAt ?? undefined),
    ],
    ["progress", endedAt === null ? task.progress : null],
    ["heartbeat", heartbeatMs === null ? null : `every ${formatDuration(heartbeatMs)}`],
    ["kept until", cleanupAfter === null ? null : formatTime(cleanupAfter)],
  ];
}

function notificationLines(task: ShownTask, messages: TaskDetails["messages"]): readonly string[] {
  const { policy, targets, delivery } = task;
  const shown = targets.length === 0 ? "none" : targets.map(targetText).join(", ");
  return [
    ...fieldLines([
      ["policy", policy],
      ["targets", shown],
      ["delivery", delivery],
    ]),
    ...messages.map(outboxLine),
  ];
}

function outboxLine(message: TaskDetails["messages"][number]): string {
  const { id, status, target, attempts, error, receipt, settledAt } = message;
  const tries = `${attempts} ${attempts === 1 ? "attempt" : "attempts"}`;
  const settled = settledAt === null ? "" : ` at ${formatTime(settledAt)}`;
  const proof = receipt === null ? "" : ` (receipt ${receipt})`;
  const why = error === null ? "" : `: ${error}`;
  return sanitizeLine(`${id}  ${status}${settled}, ${targetText(target)}, ${tries}${proof}${why}`);
}

function outputLines({ stdout, stderr, why }: TaskOutput, runId: string): readonly string[] {
  if (why !== null) return [sanitizeLine(`cannot be read: ${why}`)];
  const lines = [...textLines(stdout), ...textLines(stderr)];
  return lines.length === 0 ? [] : [...lines, `(last lines; holdfast logs ${runId} prints all)`];
}

function textLines(text: string): string[] {
  const clean = sanitizeText(text).trimEnd();
  return clean === "" ? [] : clean.split("\n");
}

/** The last lines of output of a task's command, or why they cannot be read. */
interface TaskOutput {
  readonly stdout: string;
  readonly stderr: string;
  readonly why: string | null;
}

/** A task with the live processes and the last output of its run. */
type TaskDetails = ResponseOf<"getTask"> & {
  readonly processes: RunProcesses | null;
  readonly output: TaskOutput | null;
};

export async function showTask(wanted: string, { json = false }: JsonFlag): Promise<number> {
  await using reader = await openReadClient();
  const shown = await readTaskDetails(reader.client, wanted);
  if (json) print(toJson(shown, 2));
  else print(`${describeTask(shown).join("\n")}\n`);
  return 0;
}

async function readTaskDetails(client: ReadApi, wanted: string): Promise<TaskDetails> {
  const answer = await client.getTask({ params: taskParams(wanted) });
  const { task, run } = answer;
  if (run === null) return { ...answer, processes: null, output: null };
  const { runs } = await client.listRuns({ query: { hidden: "1", limit: 1_000 } });
  const processes = await inspectRun(run, runs);
  // The output of an ACP agent is its protocol; its answers are in the history of its session.
  const output = task.turnId === null ? await lastOutput(client, run.runId) : null;
  return { ...answer, processes, output };
}

const OUTPUT_LINES = 10;

async function lastOutput({ log }: ReadApi, runId: string): Promise<TaskOutput> {
  const last = async (stream: "stdout" | "stderr"): Promise<string> =>
    (await log({ params: { runId }, query: { stream, lines: OUTPUT_LINES } })).text;
  try {
    return { stdout: await last("stdout"), stderr: await last("stderr"), why: null };
  } catch (error) {
    return { stdout: "", stderr: "", why: (error as Error).message };
  }
}
