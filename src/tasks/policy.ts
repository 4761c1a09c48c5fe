import { BadInput } from "../errors.js";
import { NOTIFY_POLICIES, type NotifyPolicy, type TaskRuntime } from "../store/task-record.js";

/** Who asked an agent or another program for something waits for it; who put a command in the background need not. */
const byRuntime: Readonly<Record<TaskRuntime, NotifyPolicy>> = {
  acp: "done_only",
  subagent: "done_only",
  external: "done_only",
  exec: "silent",
};

export function defaultPolicy(runtime: TaskRuntime): NotifyPolicy {
  return byRuntime[runtime];
}

export function requirePolicy(text: string): NotifyPolicy {
  const policy = NOTIFY_POLICIES.find((each) => each === text);
  if (policy === undefined)
    throw new BadInput(
      "policy",
      `a task's notify policy is one of ${NOTIFY_POLICIES.join(", ")}; nothing was changed`,
    );
  return policy;
}
