import { setTimeout } from "node:timers/promises";
import type { RunRecord } from "../../store/run-record.js";
import { isEnded } from "../../store/task-record.js";
import { finishOfRun } from "../../tasks/run-end.js";
import { sanitizeText } from "../../output/sanitize.js";
import { say } from "../complain.js";
import { dieOf } from "../foreground/interrupts.js";
import { needGateway } from "../gateway/connect.js";
import { Followed } from "../gateway/followed.js";
import { openLook } from "../gateway/look.js";
import { toJson } from "../json.js";
import { isSmart } from "../palette.js";
import { print } from "../runs/print.js";
import { pendingText } from "../runs/status.js";
import { endRemark, taskCode } from "./ending.js";
import { taskEventText, type TaskEvent } from "./event-text.js";
import { named } from "./named.js";
import { ProgressLine } from "./progress-line.js";
import type { Task } from "./status.js";

/** Until a task has ended, whichever gateways come and go. Its result goes to stdout. */
export async function waitForTask(wanted: string, json: boolean): Promise<number> {
  const before = await endedBefore(wanted);
  const { task, pending } =
    before === null ? await waited(wanted, isSmart(2) && !json) : { task: before, pending: null };
  if (pending !== null) say(pendingText(pending.run, pending.why), "yellow");
  if (json) print(toJson(pending === null ? task : { ...task, recordPending: pending.why }));
  else {
    say(...endRemark(task));
    const result = sanitizeText(task.summary ?? "").trimEnd();
    if (result !== "") print(`${result}\n`);
  }
  return taskCode(task);
}

/** What has ended needs no gateway to be told. */
async function endedBefore(wanted: string): Promise<Task | null> {
  await using look = await openLook();
  const { task } = await look.client.getTask({ params: named(wanted) });
  return isEnded(task.status) ? task : null;
}

interface Waited {
  readonly task: Task;
  /** Its run has ended, and the store has not taken that yet: the task is as it will be. */
  readonly pending: { readonly run: RunRecord; readonly why: string } | null;
}

async function waited(wanted: string, shows: boolean): Promise<Waited> {
  const connection = await needGateway();
  const { task, events } = await connection.client.getTask({ params: named(wanted) });
  const { taskId } = task;
  const params = { id: taskId };
  using line = new ProgressLine(shows);
  using _ = onInterrupt(() => {
    line.clear();
    say(`not waiting any more; ${taskId} goes on (\`holdfast tasks cancel ${taskId}\` cancels it)`, "dim");
  });
  const followed = new Followed<TaskEvent>({
    connection,
    path: `/v1/tasks/${taskId}/events`,
    after: events.at(-1)?.seq ?? 0,
    isOver: async (client, last) => {
      const now = await client.taskEvents({ params, query: { after: last } });
      return isEnded(now.task.status) && now.events.length === 0;
    },
    say: (message) => {
      line.clear();
      say(message, "dim");
    },
    what: taskId,
    meanwhile: "waiting for the next one, which knows what became of the task",
    later: `holdfast tasks show ${taskId}`,
  });
  line.show(task.label, task.progress ?? task.status);
  const left = new AbortController();
  const recorded = (async () => {
    for await (const event of followed) line.show(task.label, taskEventText(event) || event.type);
    return null;
  })();
  const pending = await Promise.race([recorded, pendingEnd(followed, task.runId, left.signal)]);
  left.abort();
  if (pending === null) return { task: (await followed.client.getTask({ params })).task, pending };
  // The result is not needed any more; the request ends with this process.
  recorded.catch(() => undefined);
  return { task: { ...task, ...endOf(pending.run) }, pending };
}

/** Resolves when the task's run has ended and the store has not taken its record; otherwise never. */
async function pendingEnd(
  followed: Followed<TaskEvent>,
  runId: string | null,
  left: AbortSignal,
): Promise<NonNullable<Waited["pending"]>> {
  // An offset beyond any output: the poll returns for state changes only.
  const query = { waitMs: POLL_MS, maxChars: 0, stdout: LAST, stderr: LAST };
  while (runId !== null && !left.aborted) {
    const news = await followed.client.poll({ params: { runId }, query }, left).catch(() => null);
    if (typeof news?.recordPending === "string") return { run: news.run, why: news.recordPending };
    // Its task says so in a moment.
    if (news?.run.state === "exited") break;
    await setTimeout(AGAIN_MS, undefined, { signal: left }).catch(() => undefined);
  }
  return new Promise(() => {});
}

const POLL_MS = 30_000;
/** Beyond any output; a number that a query can carry. */
const LAST = Number.MAX_SAFE_INTEGER;
/** Between two questions, of which the first waited or was refused. */
const AGAIN_MS = 200;

function endOf(run: RunRecord): Partial<Task> {
  const finish = finishOfRun(run, null);
  if (finish === null) return {};
  const { status, outcome, error, at: endedAt, startedAt } = finish;
  return { status, outcome, error, endedAt, startedAt };
}

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Whoever stops waiting stops nothing else. */
function onInterrupt(act: () => void): Disposable {
  const listeners = signals.map((signal) => {
    const leave = (): void => {
      act();
      dieOf(signal);
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
