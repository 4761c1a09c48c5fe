import { z } from "zod";
import { NOTIFY_POLICIES } from "../../model/enums.js";
import { isTaskEnded, type TaskRecord } from "../../model/task.js";
import { taskView, viewTask, waitForTask } from "../tasks/task-view.js";
import { defineTool, requireArguments, type ToolAnswer, type ToolCall } from "../tool.js";

const input = z.strictObject({
  action: z.enum(["list", "show", "wait", "cancel", "notify"]),
  taskId: z
    .string()
    .min(1)
    .max(200)
    .nullish()
    .describe("for every action but list; a runId or turnId is accepted, too"),
  waitMs: z.int().min(0).max(120_000).nullish().describe("wait: how long to wait for the end. Default 30000"),
  policy: z.enum(NOTIFY_POLICIES).nullish().describe("notify: when this session is notified of changes"),
  open: z.boolean().nullish().describe("list: only tasks that have not ended"),
  cursor: z.string().max(200).nullish().describe("list: nextCursor of the page before"),
});

const output = z.object({
  tasks: z.array(taskView).optional(),
  nextCursor: z.string().nullable().optional().describe("null: the last page"),
  task: taskView.optional(),
  outcome: z.string().optional().describe("cancel: cancelled, ended-before or going-on"),
});

type Given = z.output<typeof input>;
type Answer = ToolAnswer & { readonly data: z.input<typeof output> };

const PAGE = 50;
const WAIT_MS = 30_000;

export const tasksTool = defineTool({
  name: "tasks",
  title: "Background work",
  description:
    "Work that continues when its call has returned: commands that yielded or ran in the background, turns of agents. " +
    "Tasks survive this client and restarts. list; show: one with its result; wait: until it has ended; " +
    "cancel: stop the work; notify: when this session is notified of changes.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
  input,
  output,
  run: (given, call) => actions[given.action](given, call),
});

const actions: Readonly<Record<Given["action"], (given: Given, call: ToolCall) => Promise<Answer>>> = {
  list: async ({ open, cursor }, { client, signal }) => {
    const query = {
      limit: PAGE,
      ...(open === true ? { open: "1" as const } : {}),
      ...(typeof cursor === "string" ? { cursor } : {}),
    };
    const { tasks, next } = await client.listTasks({ query }, signal);
    const lines = tasks.map(
      ({ taskId, status, text }) => `${taskId}  ${status}  ${text.split("\n", 1)[0] ?? ""}`,
    );
    const more = next === null ? "" : `\n[there are older ones: list with cursor ${next}]`;
    return {
      text: (lines.length === 0 ? "there are no tasks" : lines.join("\n")) + more,
      data: { tasks: tasks.map(viewTask), nextCursor: next },
    };
  },

  show: async (given, { client, signal }) => {
    requireArguments("tasks", "show", given, "taskId");
    const { task } = await client.getTask({ params: { id: given.taskId } }, signal);
    return aboutTask(task);
  },

  wait: async (given, call) => {
    requireArguments("tasks", "wait", given, "taskId");
    const waitMs = given.waitMs ?? WAIT_MS;
    const task = await waitForTask(call, given.taskId, waitMs, call.signal, ({ status, progress }) =>
      call.reportProgress?.(`${status}${progress === null ? "" : `: ${progress}`}`),
    );
    return aboutTask(task);
  },

  cancel: async (given, { client, signal }) => {
    requireArguments("tasks", "cancel", given, "taskId");
    const { task, outcome } = await client.cancelTask({ params: { id: given.taskId }, body: {} }, signal);
    const said = {
      cancelled: "cancelled; its processes are gone",
      "ended-before": `had already ended (${task.status}); nothing was done`,
      "going-on": "the cancellation was requested; the work has not ended yet: tasks wait",
    }[outcome];
    return { text: `${task.taskId}: ${said}`, data: { task: viewTask(task), outcome } };
  },

  notify: async (given, { client, signal }) => {
    requireArguments("tasks", "notify", given, "taskId", "policy");
    const { taskId, policy } = given;
    const { task } = await client.notifyTask({ params: { id: taskId }, body: { policy } }, signal);
    return { text: `${task.taskId} now notifies with the policy ${policy}`, data: { task: viewTask(task) } };
  },
};

function aboutTask(task: TaskRecord): Answer {
  const { taskId, status, runId, summary, error, progress } = task;
  const about = isTaskEnded(status) ? (error ?? summary) : progress;
  const next = isTaskEnded(status)
    ? runId === null
      ? ""
      : `; process log shows the output of ${runId}`
    : "; tasks wait waits for its end";
  return {
    text: `${taskId} is ${status}${next}${about === null || about === "" ? "" : `\n${about}`}`,
    data: { task: viewTask(task) },
  };
}
