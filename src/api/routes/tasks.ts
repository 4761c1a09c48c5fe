import { z } from "zod";
import { defaults } from "../../defaults.js";
import {
  NOTIFY_POLICIES,
  TASK_DELIVERIES,
  TASK_OUTCOMES,
  TASK_RUNTIMES,
  TASK_STATUSES,
} from "../../model/enums.js";
import { AUDIT_CODES } from "../../tasks/audit.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import { count, emptyObject, flag, survivor } from "./common.js";
import { runSchema } from "./runs.js";
import { taskEventSchema, taskMessageSchema, taskSchema } from "./task-schema.js";

/** Not every database keeps anything else. */
const printable = (chars: number) =>
  z
    .string()
    .min(1)
    .max(chars)
    .regex(/^[^\p{C}]+$/u, "must be printable");
const name = printable(200);
/** Of a task, or of the run, turn or session that does it (its open one, or else the newest); or a beginning that only one task has. */
const taskParams = z.object({ id: name });
const policy = z.enum(NOTIFY_POLICIES, { error: `must be one of ${NOTIFY_POLICIES.join(", ")}` });

/** Who hears of work that goes on in the background, and when. */
export const notifyFields = {
  /** Left out: as is usual for this kind of work, and `silent` where the caller waits for it or reads along. */
  notify: policy.optional(),
  /**
   * Where the user is who asked for it, for the operator to say: one who speaks alone with an agent is told there;
   * anyone else, and whoever a background child works for, through the session.
   */
  origin: z
    .strictObject({
      chat: z.enum(["direct", "group", "channel"]).default("direct"),
      /** Of the configuration. */
      channel: name,
      /** Whom within it; left out: as it is configured. */
      address: printable(500).nullable().default(null),
    })
    .optional(),
};

/** Several are separated by commas. */
function commaSeparated<const Words extends readonly [string, ...string[]]>(words: Words) {
  const one = z.enum(words, { error: `must be of ${words.join(", ")}` });
  return z
    .string()
    .transform((text) => text.split(","))
    .pipe(z.array(one).min(1))
    .optional();
}

export const listTasksRoute = defineRoute({
  ...endpoints.listTasks,
  summary: "Background work, newest first",
  audience: "session",
  params: emptyObject,
  query: z.strictObject({
    status: commaSeparated(TASK_STATUSES),
    runtime: commaSeparated(TASK_RUNTIMES),
    delivery: commaSeparated(TASK_DELIVERIES),
    /** Asked for by that session, or done by it: its id or key. */
    session: name.optional(),
    /** Only those that go on. */
    open: flag.optional(),
    /** The `next` of the page before. */
    cursor: z.string().max(200).optional(),
    limit: z.coerce.number().int().min(1).max(1_000).default(100),
  }),
  body: emptyObject,
  /** `next`: where to ask on from; null: these are all. */
  response: z.object({ tasks: z.array(taskSchema), next: z.string().nullable() }),
});

export const getTaskRoute = defineRoute({
  ...endpoints.getTask,
  summary: "A task: its record, its history, its messages, and the run that does it",
  audience: "session",
  params: taskParams,
  query: emptyObject,
  body: emptyObject,
  response: z.object({
    task: taskSchema,
    events: z.array(taskEventSchema),
    messages: z.array(taskMessageSchema),
    /** Null: there is none, or it is not kept any more. */
    run: runSchema.nullable(),
  }),
});

/** Not followed: what is kept after that number. Followed: the same events, one per line, until the task has ended. */
export const taskEventsRoute = defineRoute({
  ...endpoints.taskEvents,
  summary: "What happened to a task, in order",
  audience: "session",
  params: taskParams,
  query: z.strictObject({ after: count.default(0), follow: flag.optional() }),
  body: emptyObject,
  response: z.object({ task: taskSchema, events: z.array(taskEventSchema), after: z.int() }),
});

const text = (chars: number) => z.string().max(chars);

export const createTaskRoute = defineRoute({
  ...endpoints.createTask,
  summary: "Record work that another program does, before it begins",
  audience: "session",
  params: emptyObject,
  query: emptyObject,
  body: z.strictObject({
    label: text(defaults.taskTextChars).optional(),
    text: text(defaults.taskTextChars).default(""),
    /** Asked again with the same one, the first task is the answer. A session's keys mean nothing to others. */
    key: printable(defaults.taskKeyChars).optional(),
    kind: name.optional(),
    agentId: name.optional(),
    /** A task that may be seen. */
    parent: name.optional(),
    /** It is heard of at least so often; left out: nothing is promised, and it is never taken for lost. */
    heartbeatMs: z.number().min(1_000).max(defaults.taskKeptMs).optional(),
    /** It waits to begin. */
    queued: z.boolean().default(false),
    ...notifyFields,
  }),
  response: z.object({ task: taskSchema, created: z.boolean() }),
});

export const taskProgressRoute = defineRoute({
  ...endpoints.taskProgress,
  summary: "Say that whoever does an external task is at work, and how it is going",
  audience: "session",
  params: taskParams,
  query: emptyObject,
  body: z.strictObject({
    /** Left out: a heartbeat. */
    text: text(defaults.taskTextChars).optional(),
    /** It has not begun. */
    queued: z.boolean().default(false),
  }),
  /** `stop`: the task has ended, by its requester's word or otherwise; nobody waits for more. */
  response: z.object({ task: taskSchema, stop: z.boolean() }),
});

export const finishTaskRoute = defineRoute({
  ...endpoints.finishTask,
  summary: "Say how an external task ended",
  audience: "session",
  params: taskParams,
  query: emptyObject,
  body: z
    .strictObject({
      status: z.enum(["succeeded", "failed", "timed_out", "cancelled"]),
      /** Of one that succeeded: whether it needs somebody before it can go on. */
      outcome: z.enum(TASK_OUTCOMES).optional(),
      /** The result. */
      summary: text(16 * defaults.taskSummaryChars).optional(),
      error: text(16 * defaults.taskErrorChars).optional(),
    })
    .refine(({ status, outcome }) => outcome === undefined || status === "succeeded", {
      message: "only a task that succeeded has an outcome",
      path: ["outcome"],
    }),
  /** Not changed: it had ended so before. */
  response: z.object({ task: taskSchema, changed: z.boolean() }),
});

export const notifyTaskRoute = defineRoute({
  ...endpoints.notifyTask,
  summary: "Decide when the requester of a task hears of it",
  audience: "session",
  params: taskParams,
  query: emptyObject,
  body: z.strictObject({ policy }),
  response: z.object({ task: taskSchema, changed: z.boolean() }),
});

export const cancelTaskRoute = defineRoute({
  ...endpoints.cancelTask,
  summary: "Cancel a task; answers when what did it is proven to be gone, or its agent's turn is over",
  audience: "session",
  params: taskParams,
  query: emptyObject,
  body: z.strictObject({ reason: z.string().max(200).optional() }),
  /** `going-on`: it was told to stop and has not yet; the survivors are those of its run that are known. */
  response: z.object({
    task: taskSchema,
    outcome: z.enum(["cancelled", "ended-before", "going-on"]),
    survivors: z.array(survivor),
  }),
});

const messagesResponse = z.object({ task: taskSchema, messages: z.int() });

export const retryTaskRoute = defineRoute({
  ...endpoints.retryTask,
  summary: "Try the messages of a task again that could not be delivered",
  audience: "operator",
  params: taskParams,
  query: emptyObject,
  body: emptyObject,
  response: messagesResponse,
});

export const dismissTaskRoute = defineRoute({
  ...endpoints.dismissTask,
  summary: "Give up the messages of a task that could not be delivered",
  audience: "operator",
  params: taskParams,
  query: emptyObject,
  body: emptyObject,
  response: messagesResponse,
});

export const auditTasksRoute = defineRoute({
  ...endpoints.auditTasks,
  summary: "What an operator should look at",
  audience: "operator",
  params: emptyObject,
  query: emptyObject,
  body: emptyObject,
  response: z.object({
    findings: z.array(z.object({ code: z.enum(AUDIT_CODES), taskId: z.string(), detail: z.string() })),
  }),
});

export const maintainTasksRoute = defineRoute({
  ...endpoints.maintainTasks,
  summary:
    "Bring tasks in line with what became of their work, and forget old ones; or only say what would be done",
  audience: "operator",
  params: emptyObject,
  query: emptyObject,
  body: z.strictObject({ apply: z.boolean().default(false) }),
  response: z.object({
    applied: z.boolean(),
    measures: z.array(
      z.object({
        taskId: z.string(),
        /** `tell`: something that happened is recorded; `date`: when it may be forgotten; `forget`: it is. */
        act: z.enum(["tell", "date", "forget"]),
        /** One sentence for a person. */
        detail: z.string(),
      }),
    ),
  }),
});
