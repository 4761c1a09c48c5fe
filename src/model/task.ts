import type { DELIVER_MODES } from "./enums.js";
import type { RecordOf } from "./record-type.js";
import type { chatOriginSchema, taskEventSchema, taskSchema } from "./task-schema.js";

export type TaskRecord = RecordOf<typeof taskSchema>;
export type TaskRuntime = TaskRecord["runtime"];
export type TaskStatus = TaskRecord["status"];
export type TaskDelivery = TaskRecord["delivery"];
export type TaskOutcome = NonNullable<TaskRecord["outcome"]>;
export type NotifyPolicy = TaskRecord["policy"];
export type ChatOrigin = RecordOf<typeof chatOriginSchema>;
export type DeliverMode = (typeof DELIVER_MODES)[number];

/** The fields that a change may set. The store counts `seq` and `version`. */
export type TaskPatch = Partial<
  Omit<TaskRecord, "taskId" | "key" | "runtime" | "ownerSessionId" | "createdAt" | "seq" | "version">
>;

export type TaskEvent = RecordOf<typeof taskEventSchema>;
export type TaskEventType = TaskEvent["type"];
export type NewTaskEvent = Omit<TaskEvent, "taskId" | "seq">;

export function isTaskEnded(status: TaskStatus): boolean {
  return status !== "queued" && status !== "running";
}
