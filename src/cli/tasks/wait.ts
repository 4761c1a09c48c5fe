import { setTimeout } from "node:timers/promises";
import type { RunRecord } from "../../model/run.js";
import { isTaskEnded } from "../../model/task.js";
import { outcomeOfRun } from "../../tasks/outcome.js";
import { sanitizeText } from "../../text/sanitize.js";
import { connectOrStart } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { ReconnectingStream } from "../client/reconnect.js";
import type { JsonFlag } from "../options/command-definition.js";
import { formatDuration } from "../../text/format-units.js";
import type { TaskEvent } from "../../model/task.js";
import { taskEventText } from "../../text/task-event.js";
import { exitCodes } from "../print/exit-code.js";
import { pendingRecordText } from "../print/run-status.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { isCapableTerminal, ProgressLine } from "../print/colours-and-progress.js";
import { dieBySignal } from "../run/interrupt-signals.js";
import { type ShownTask, taskParams, taskStatusText } from "./task-texts.js";

/** The exit code of a command that has waited for a task. */
function taskExitCode({ status, outcome }: Pick<ShownTask, "status" | "outcome">): number {
  switch (status) {
    case "succeeded":
      return outcome === "blocked" ? exitCodes.incomplete : 0;
    case "failed":
      return exitCodes.taskFailed;
    case "timed_out":
      return exitCodes.timeout;
    case "cancelled":
      return exitCodes.cancelled;
    // How it ended is not known, or it has not ended.
    case "lost":
    case "queued":
    case "running":
      return exitCodes.failure;
  }
}

/** How a task has ended; its result is printed separately. */
function taskEndNotice(task: ShownTask): readonly [message: string, colour: "red" | "yellow" | "dim"] {
  const { taskId, label, startedAt, endedAt, error, status, outcome } = task;
  const took = startedAt === null || endedAt === null ? "" : ` after ${formatDuration(endedAt - startedAt)}`;
  const why = error === null ? "" : `: ${error.replaceAll(/\s+/g, " ")}`;
  const message = `${taskId} (${label}): ${taskStatusText(task)}${took}${why}`;
  if (status === "succeeded") return [message, outcome === "blocked" ? "yellow" : "dim"];
  return [message, status === "cancelled" ? "yellow" : "red"];
}

/** Waits until a task has ended, over restarts of the gateway. Prints its result to stdout. */
export async function waitForTask(wanted: string, { json = false }: JsonFlag): Promise<number> {
  const before = await findEndedTask(wanted);
  const { task, pending } =
    before === null
      ? await waitUntilEnded(wanted, isCapableTerminal(2) && !json)
      : { task: before, pending: null };
  if (pending !== null) notice(pendingRecordText(pending.run, pending.why), "yellow");
  if (json) print(toJson(pending === null ? task : { ...task, recordPending: pending.why }));
  else {
    notice(...taskEndNotice(task));
    const result = sanitizeText(task.summary ?? "").trimEnd();
    if (result !== "") print(`${result}\n`);
  }
  return taskExitCode(task);
}

/** An ended task needs no gateway. */
async function findEndedTask(wanted: string): Promise<ShownTask | null> {
  await using reader = await openReadClient();
  const { task } = await reader.client.getTask({ params: taskParams(wanted) });
  return isTaskEnded(task.status) ? task : null;
}

interface WaitResult {
  readonly task: ShownTask;
  /** Its run has ended and its record is not written yet: the task has its future state. */
  readonly pending: { readonly run: RunRecord; readonly why: string } | null;
}

async function waitUntilEnded(wanted: string, shows: boolean): Promise<WaitResult> {
  const connection = await connectOrStart();
  const { task, events } = await connection.client.getTask({ params: taskParams(wanted) });
  const { taskId } = task;
  const params = { id: taskId };
  using line = new ProgressLine(shows);
  using _ = onInterrupt(() => {
    line.clear();
    notice(`stopped waiting; ${taskId} continues (\`holdfast tasks cancel ${taskId}\` cancels it)`, "dim");
  });
  const stream = new ReconnectingStream<TaskEvent>({
    connection,
    path: `/v1/tasks/${taskId}/events`,
    after: events.at(-1)?.seq ?? 0,
    isOver: async (client, last) => {
      const now = await client.taskEvents({ params, query: { after: last } });
      return isTaskEnded(now.task.status) && now.events.length === 0;
    },
    notice: (message) => {
      line.clear();
      notice(message, "dim");
    },
    subject: taskId,
    meanwhile: "waiting for the next gateway, which knows the result",
    laterCommand: `holdfast tasks show ${taskId}`,
  });
  line.show(task.label, task.progress ?? task.status);
  const left = new AbortController();
  const recorded = (async () => {
    for await (const event of stream) line.show(task.label, taskEventText(event) || event.type);
    return null;
  })();
  const pending = await Promise.race([recorded, awaitPendingRecord(stream, task.runId, left.signal)]);
  left.abort();
  if (pending === null) return { task: (await stream.client.getTask({ params })).task, pending };
  // The result is not needed; the request ends with this process.
  recorded.catch(() => undefined);
  return { task: { ...task, ...endFields(pending.run) }, pending };
}

/** Resolves when the task's run has ended and its record is not written yet; otherwise never. */
async function awaitPendingRecord(
  stream: ReconnectingStream<TaskEvent>,
  runId: string | null,
  left: AbortSignal,
): Promise<NonNullable<WaitResult["pending"]>> {
  // An offset beyond any output: the poll returns for state changes only.
  const query = { waitMs: POLL_MS, maxChars: 0, stdout: BEYOND_OUTPUT, stderr: BEYOND_OUTPUT };
  while (runId !== null && !left.aborted) {
    const news = await stream.client.poll({ params: { runId }, query }, left).catch(() => null);
    if (typeof news?.recordPending === "string") return { run: news.run, why: news.recordPending };
    // The task ends in a moment.
    if (news?.run.state === "exited") break;
    await setTimeout(RETRY_MS, undefined, { signal: left }).catch(() => undefined);
  }
  return new Promise(() => {});
}

const POLL_MS = 30_000;
/** Beyond any output, and small enough for a query. */
const BEYOND_OUTPUT = Number.MAX_SAFE_INTEGER;
/** The pause between two polls. */
const RETRY_MS = 200;

function endFields(run: RunRecord): Partial<ShownTask> {
  const finish = outcomeOfRun(run, null);
  if (finish === null) return {};
  const { status, outcome, error, at: endedAt, startedAt } = finish;
  return { status, outcome, error, endedAt, startedAt };
}

const INTERRUPT_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** An interrupt ends only the wait. */
function onInterrupt(act: () => void): Disposable {
  const listeners = INTERRUPT_SIGNALS.map((signal) => {
    const leave = (): void => {
      act();
      dieBySignal(signal);
    };
    process.on(signal, leave);
    return [signal, leave] as const;
  });
  return {
    [Symbol.dispose]: () => {
      for (const [signal, leave] of listeners) process.off(signal, leave);
    },
  };
}
