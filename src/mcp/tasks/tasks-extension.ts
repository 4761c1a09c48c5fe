import {
  CLIENT_CAPABILITIES_META_KEY,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type Result,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import { defaults } from "../../defaults.js";
import { HoldfastError } from "../../errors.js";
import { isTaskEnded, type TaskRecord } from "../../model/task.js";
import { toCallResult } from "../call-result.js";
import type { SessionConnection } from "../session/session-connection.js";
import type { SdkServer } from "../sdk-server.js";
import { taskAnswer } from "./task-answer.js";

/** The tasks extension (SEP-2663): calls that go on are tasks of Holdfast, which survive every restart. */
export const TASKS_EXTENSION = "io.modelcontextprotocol/tasks";

const params = z.looseObject({ taskId: z.string().min(1).max(200) });

/** Does work with the connection of the client that sent a request. */
type WithConnection = <Answer>(
  context: ServerContext,
  work: (connection: SessionConnection) => Promise<Answer>,
) => Promise<Answer>;

/** True if the client of a request accepts a task instead of a result. */
export function knowsTasks({ mcpReq }: ServerContext): boolean {
  const envelope = mcpReq.envelope as Readonly<Record<string, unknown>> | undefined;
  const capabilities = envelope?.[CLIENT_CAPABILITIES_META_KEY] as
    | { readonly extensions?: Readonly<Record<string, unknown>> }
    | undefined;
  return capabilities?.extensions?.[TASKS_EXTENSION] !== undefined;
}

export function addTaskHandlers(server: SdkServer, withConnection: WithConnection): void {
  const handle = (
    method: string,
    work: (connection: SessionConnection, taskId: string, signal: AbortSignal) => Promise<Result>,
  ): void =>
    server.setRequestHandler(method, { params }, async ({ taskId }, context) => {
      assertNegotiated(method, context);
      return withConnection(context, async (connection) => {
        try {
          return await work(connection, taskId, context.mcpReq.signal);
        } catch (error) {
          if (error instanceof HoldfastError && (error.code === "NOT_FOUND" || error.code === "BAD_INPUT"))
            throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown task: ${taskId}`);
          throw error;
        }
      });
    });

  handle("tasks/get", async (connection, taskId, signal) => {
    const { task } = await connection.client.getTask({ params: { id: taskId } }, signal);
    return taskDetails(connection, task);
  });

  handle("tasks/cancel", async ({ client }, taskId, signal) => {
    await client.cancelTask({ params: { id: taskId }, body: {} }, signal).catch((error: unknown) => {
      // Work that is reported from outside learns of the cancellation with its next report.
      if (!(error instanceof HoldfastError) || error.code !== "TASK_REFUSED") throw error;
    });
    return {};
  });

  // No task of Holdfast waits for input of the client.
  handle("tasks/update", async ({ client }, taskId, signal) => {
    await client.getTask({ params: { id: taskId } }, signal);
    return {};
  });
}

function assertNegotiated(method: string, context: ServerContext): void {
  if (knowsTasks(context)) return;
  if (context.mcpReq.envelope === undefined)
    throw new ProtocolError(ProtocolErrorCode.MethodNotFound, `Method not found: ${method}`);
  throw new MissingRequiredClientCapabilityError({
    requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } },
  });
}

/** The answer to a call that continues as a task. */
export async function createTaskResult({ client }: SessionConnection, taskId: string): Promise<Result> {
  const { task } = await client.getTask({ params: { id: taskId } });
  // A task that has ended meanwhile is shown by tasks/get.
  return { resultType: "task", ...taskFields(task), status: "working" };
}

/** A task with its result, if it has one. */
export async function taskDetails(connection: SessionConnection, task: TaskRecord): Promise<Result> {
  const fields = taskFields(task);
  if (fields.status === "failed")
    return {
      ...fields,
      error: { code: ProtocolErrorCode.InternalError, message: task.error ?? "the task was lost" },
    };
  if (fields.status !== "completed") return fields;
  return {
    ...fields,
    result: { resultType: "complete", ...toCallResult(await taskAnswer(connection, task)) },
  };
}

function taskFields(task: TaskRecord) {
  const { taskId, createdAt, lastEventAt, endedAt, runId, progress } = task;
  // A task is kept for so long after its end; how long it takes is not known.
  const ttlMs = endedAt === null ? null : Math.max(0, Math.round(endedAt + defaults.taskKeptMs - createdAt));
  const statusMessage = [runId, progress].filter((part) => part !== null && part !== "").join(": ");
  return {
    taskId,
    status: statusOf(task),
    ...(statusMessage === "" ? {} : { statusMessage }),
    createdAt: new Date(createdAt).toISOString(),
    lastUpdatedAt: new Date(lastEventAt).toISOString(),
    ttlMs,
    pollIntervalMs: defaults.mcpTaskPollMs,
  };
}

/** `failed` is for work whose result is unknown; work that did not succeed has a result. */
function statusOf({ status }: TaskRecord): "working" | "completed" | "cancelled" | "failed" {
  if (!isTaskEnded(status)) return "working";
  if (status === "cancelled") return "cancelled";
  return status === "lost" ? "failed" : "completed";
}
