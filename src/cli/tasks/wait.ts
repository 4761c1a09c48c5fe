import { isEnded } from "../../store/task-record.js";
import { sanitizeText } from "../../output/sanitize.js";
import { say } from "../complain.js";
import { dieOf } from "../foreground/interrupts.js";
import { needGateway } from "../gateway/connect.js";
import { Followed } from "../gateway/followed.js";
import { openLook } from "../gateway/look.js";
import { toJson } from "../json.js";
import { isSmart } from "../palette.js";
import { print } from "../runs/print.js";
import { endRemark, taskCode } from "./ending.js";
import { taskEventText, type TaskEvent } from "./event-text.js";
import { named } from "./named.js";
import { ProgressLine } from "./progress-line.js";
import type { Task } from "./status.js";

/** Until a task has ended, whichever gateways come and go. Its result goes to stdout. */
export async function waitForTask(wanted: string, json: boolean): Promise<number> {
  const task = (await endedBefore(wanted)) ?? (await waited(wanted, isSmart(2) && !json));
  if (json) print(toJson(task));
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

async function waited(wanted: string, shows: boolean): Promise<Task> {
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
  for await (const event of followed) line.show(task.label, taskEventText(event) || event.type);
  return (await followed.client.getTask({ params })).task;
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
