import type { NotifyPolicy, TaskRuntime } from "../model/task.js";

/** Who asked an agent or another program for something waits for it; who put a command in the background need not. */
const policyByRuntime: Readonly<Record<TaskRuntime, NotifyPolicy>> = {
  acp: "done_only",
  subagent: "done_only",
  external: "done_only",
  exec: "silent",
};

export function defaultNotifyPolicy(runtime: TaskRuntime): NotifyPolicy {
  return policyByRuntime[runtime];
}
