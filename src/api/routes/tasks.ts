import { z } from "zod";
import { defaults } from "../../defaults.js";
import {
  CHAT_KINDS,
  DELIVER_MODES,
  NOTIFY_POLICIES,
  TASK_DELIVERIES,
  TASK_OUTCOMES,
  TASK_RUNTIMES,
  TASK_STATUSES,
} from "../../model/enums.js";
import { AUDIT_CODES } from "../../tasks/audit.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import {
  count,
  flag,
  pageLimit,
  runSchema,
  survivor,
  taskEventSchema,
  taskMessageSchema,
  taskSchema,
} from "./schemas.js";

/** PostgreSQL cannot store every control character. */
const printable = (chars: number) =>
  z
    .string()
    .min(1)
    .max(chars)
    .regex(/^[^\p{C}]+$/u, "must be printable");
const name = printable(200);
/** The id of a task, of its run, turn or session (its open task, or the newest), or an unambiguous prefix of a task id. */
const taskParams = z.object({ id: name });
const policy = z.enum(NOTIFY_POLICIES, { error: `must be one of ${NOTIFY_POLICIES.join(", ")}` });

const chatOrigin = z.strictObject({
  chat: z.enum(CHAT_KINDS).default("direct"),
  /** A channel of the configuration. */
  channel: name,
  /** The chat or thread within the channel. Default: the configured one. */
  address: printable(500).nullable().default(null),
});

/** Where notifications about background work go, and when. */
export const notifyFields = {
  /** Default: by the kind of work; `silent` if the caller waits for the result or follows it. */
  notify: policy.optional(),
  /**
   * The chat that the request came from, for the operator only. Default: that of the session's current task, or else
   * the default channel.
   */
  origin: chatOrigin.optional(),
  /** The receiver of the end of a session's work. Default: `notify.deliver` of the configuration. */
  deliver: z.enum(DELIVER_MODES, { error: `must be one of ${DELIVER_MODES.join(", ")}` }).optional(),
};

/** One word, or several separated by commas. */
function commaSeparated<const Words extends readonly [string, ...string[]]>(words: Words) {
  const one = z.enum(words, { error: `must be one of ${words.join(", ")}` });
  return z
    .string()
    .transform((text) => text.split(","))
    .pipe(z.array(one).min(1))
    .optional();
}

export const listTasksRoute = defineRoute({
  ...endpoints.listTasks,
  summary: "List tasks, newest first",
  audience: "session",
  query: z.strictObject({
    status: commaSeparated(TASK_STATUSES),
    runtime: commaSeparated(TASK_RUNTIMES),
    delivery: commaSeparated(TASK_DELIVERIES),
    /** The id or key of a session that owns the task or works on it. */
    session: name.optional(),
    /** Only tasks that have not ended. */
    open: flag.optional(),
    /** `next` of the previous page. */
    cursor: z
      .string()
      .max(200)
      .refine((text) => /^\d{1,15}\.\S+$/.test(text), "must be the `next` of an earlier page")
      .transform((text) => {
        const dot = text.indexOf(".");
        return { createdAt: Number(text.slice(0, dot)), taskId: text.slice(dot + 1) };
      })
      .optional(),
    limit: pageLimit(),
  }),
  /** `next`: cursor of the next page. Null: this is the last page. */
  response: z.object({ tasks: z.array(taskSchema), next: z.string().nullable() }),
});

export const getTaskRoute = defineRoute({
  ...endpoints.getTask,
  summary: "Get a task with its events, messages and run",
  audience: "session",
  params: taskParams,
  response: z.object({
    task: taskSchema,
    events: z.array(taskEventSchema),
    messages: z.array(taskMessageSchema),
    /** Null: the task has no run, or the run's record was deleted. */
    run: runSchema.nullable(),
  }),
});

/** With `follow`, the response is a stream of the same events, one per line, until the task has ended. */
export const taskEventsRoute = defineRoute({
  ...endpoints.taskEvents,
  summary: "List the events of a task in order of their sequence numbers",
  audience: "session",
  params: taskParams,
  query: z.strictObject({ after: count.default(0), follow: flag.optional() }),
  response: z.object({ task: taskSchema, events: z.array(taskEventSchema), after: z.int() }),
});

const text = (chars: number) => z.string().max(chars);

export const createTaskRoute = defineRoute({
  ...endpoints.createTask,
  summary: "Create a task for work that another program does",
  errors: ["SESSION_STORAGE_FULL"],
  audience: "session",
  body: z.strictObject({
    label: text(defaults.taskTextChars).optional(),
    text: text(defaults.taskTextChars).default(""),
    /** Idempotency key: a repeated request returns the first task. Keys of different sessions are independent. */
    key: printable(defaults.taskKeyChars).optional(),
    kind: name.optional(),
    agentId: name.optional(),
    /** A visible task. */
    parent: name.optional(),
    /** The longest time between two progress reports. Default: none; the task never becomes lost. */
    heartbeatMs: z.number().min(1_000).max(defaults.taskKeptMs).optional(),
    /** The work has not started. */
    queued: z.boolean().default(false),
    ...notifyFields,
  }),
  response: z.object({ task: taskSchema, created: z.boolean() }),
});

export const taskProgressRoute = defineRoute({
  ...endpoints.taskProgress,
  summary: "Report a heartbeat or progress of an external task",
  errors: ["TASK_REFUSED"],
  audience: "session",
  params: taskParams,
  body: z.strictObject({
    /** Default: a heartbeat without text. */
    text: text(defaults.taskTextChars).optional(),
    /** The work has not started. */
    queued: z.boolean().default(false),
  }),
  /** `stop`: the task has ended, so the work is to stop. */
  response: z.object({ task: taskSchema, stop: z.boolean() }),
});

export const finishTaskRoute = defineRoute({
  ...endpoints.finishTask,
  summary: "Report the end of an external task",
  errors: ["TASK_REFUSED"],
  audience: "session",
  params: taskParams,
  body: z
    .strictObject({
      status: z.enum(["succeeded", "failed", "timed_out", "cancelled"]),
      /** Only of a task that succeeded. `blocked`: it needs an answer before it can continue. */
      outcome: z.enum(TASK_OUTCOMES).optional(),
      /** The result. */
      summary: text(16 * defaults.taskSummaryChars).optional(),
      error: text(16 * defaults.taskErrorChars).optional(),
    })
    .refine(({ status, outcome }) => outcome === undefined || status === "succeeded", {
      message: "only a task that succeeded has an outcome",
      path: ["outcome"],
    }),
  /** `changed` is false if the task had already ended in the same way. */
  response: z.object({ task: taskSchema, changed: z.boolean() }),
});

export const notifyTaskRoute = defineRoute({
  ...endpoints.notifyTask,
  summary: "Change when the requester of a task is notified, and add a target",
  errors: ["TASK_REFUSED"],
  audience: "session",
  params: taskParams,
  /** `origin`: another chat that is notified, for the operator only. */
  body: z.strictObject({ policy, origin: chatOrigin.optional() }),
  response: z.object({ task: taskSchema, changed: z.boolean() }),
});

export const cancelTaskRoute = defineRoute({
  ...endpoints.cancelTask,
  summary: "Cancel a task and wait until its processes are gone or its turn has ended",
  errors: ["TASK_REFUSED", "ACP_NOT_HELD"],
  audience: "session",
  params: taskParams,
  body: z.strictObject({ reason: z.string().max(200).optional() }),
  /** `going-on`: the cancellation was requested and the work has not ended yet; `survivors` are the known processes of its run. */
  response: z.object({
    task: taskSchema,
    outcome: z.enum(["cancelled", "ended-before", "going-on"]),
    survivors: z.array(survivor),
  }),
});

const messagesResponse = z.object({ task: taskSchema, messages: z.int() });

export const retryTaskRoute = defineRoute({
  ...endpoints.retryTask,
  summary: "Retry the failed messages of a task",
  audience: "operator",
  params: taskParams,
  response: messagesResponse,
});

export const dismissTaskRoute = defineRoute({
  ...endpoints.dismissTask,
  summary: "Dismiss the failed messages of a task",
  audience: "operator",
  params: taskParams,
  response: messagesResponse,
});

export const auditTasksRoute = defineRoute({
  ...endpoints.auditTasks,
  summary: "List tasks that need the operator's attention",
  audience: "operator",
  response: z.object({
    findings: z.array(z.object({ code: z.enum(AUDIT_CODES), taskId: z.string(), detail: z.string() })),
  }),
});

export const maintainTasksRoute = defineRoute({
  ...endpoints.maintainTasks,
  summary: "Update tasks from the state of their work and delete old ones, or list what would be done",
  audience: "operator",
  body: z.strictObject({ apply: z.boolean().default(false) }),
  response: z.object({
    applied: z.boolean(),
    measures: z.array(
      z.object({
        taskId: z.string(),
        /** `tell`: record an event. `date`: set when the task may be deleted. `forget`: delete the task. */
        act: z.enum(["tell", "date", "forget"]),
        /** A sentence for a person. */
        detail: z.string(),
      }),
    ),
  }),
});
