import type { RequestContext, RouteHandlers } from "../../api/contract.js";
import { defaults } from "../../defaults.js";
import { BadInput, NotFound, TaskRefused } from "../../errors.js";
import { isTaskEnded, type TaskRecord } from "../../model/task.js";
import { createTaskQueries, resolveTask } from "../../queries/tasks.js";
import { type Requester, sessionIdOf } from "../../sessions/requester.js";
import { taskKeyOfCaller, type ApplyResult } from "../../tasks/tasks.js";
import { describeAction } from "../../tasks/plan-maintenance.js";
import type { TaskInputEvent } from "../../tasks/transition.js";
import { cancelTaskWork } from "../background/cancel-task-work.js";
import { assertMaySetOrigin, channelTargetOf, resolveTargets } from "../background/notification-targets.js";
import { findCurrentTask } from "../background/parent-session-and-task.js";
import type { HandlerDeps } from "./handler-deps.js";

/** The agent id of a task. A session can only name its own; the operator any. */
function resolveAgentId(requester: Requester, named: string | undefined): string | null {
  if (requester.kind === "operator") return named ?? null;
  const { agentId } = requester.session;
  if (named === undefined || named === agentId) return agentId;
  throw new BadInput("agentId", "a session can only name its own agent; nothing was recorded");
}

export function createTaskHandlers(deps: HandlerDeps) {
  const { store, background } = deps;
  const visible = (requester: Requester, id: string) => resolveTask(deps, requester, id);
  const external = async (requester: Requester, id: string): Promise<TaskRecord> => {
    const task = await visible(requester, id);
    if (task.runtime === "external") return task;
    throw new BadInput(
      "task",
      `task ${task.taskId} is updated from its own work (${task.runtime}), not by requests; nothing was recorded`,
    );
  };
  const applyEvent = async (taskId: string, event: TaskInputEvent): Promise<ApplyResult> => {
    const result = await background.apply(taskId, event);
    if (result === null) throw new NotFound(`task ${taskId}`);
    return result;
  };
  const requireAccepted = (result: ApplyResult): { readonly task: TaskRecord; readonly changed: boolean } => {
    const { task } = result;
    if (result.kind === "refused") throw new TaskRefused(task.taskId, task.status, result.why);
    return { task, changed: result.kind === "changed" };
  };
  const decide =
    (type: "retried" | "dismissed") =>
    async ({ params }: { readonly params: { readonly id: string } }, { requester }: RequestContext) => {
      const { taskId } = await visible(requester, params.id);
      const event = { type, at: Date.now(), data: { actor: requester.actor } };
      const messages = await (type === "retried"
        ? store.retryOutbox(taskId, event)
        : store.dismissOutbox(taskId, event));
      deps.wakeNotifier();
      return { task: await visible(requester, taskId), messages };
    };
  return {
    ...createTaskQueries(deps),

    createTask: async ({ body }, { requester }) => {
      const { key, queued, parent, notify, origin, deliver, ...rest } = body;
      const self = sessionIdOf(requester);
      assertMaySetOrigin(requester, body, deps.channels);
      const targets = await resolveTargets(deps, {
        requester,
        requested: { notify, origin, deliver },
        mode: "run",
        parentSessionId: self,
      });
      const made = await deps.tasks.create({
        ...rest,
        agentId: resolveAgentId(requester, rest.agentId),
        ...targets,
        runtime: "external",
        key: key === undefined ? null : taskKeyOfCaller(self, key),
        parentTaskId:
          parent === undefined
            ? await findCurrentTask(store, requester)
            : (await visible(requester, parent)).taskId,
      });
      const { task, created } = made;
      if (queued || task.status !== "queued") return made;
      return { task: (await applyEvent(task.taskId, { type: "start", at: Date.now() })).task, created };
    },

    taskProgress: async ({ params, body: { text, queued } }, { requester }) => {
      const { taskId, status } = await external(requester, params.id);
      const at = Date.now();
      if (status === "queued" && !queued) await applyEvent(taskId, { type: "start", at });
      const { task } = await applyEvent(
        taskId,
        text === undefined ? { type: "heartbeat", at } : { type: "progress", at, text },
      );
      return { task, stop: isTaskEnded(task.status) };
    },

    finishTask: async ({ params, body }, { requester }) => {
      const { taskId } = await external(requester, params.id);
      const { status, outcome = null, summary = null, error = null } = body;
      const { actor } = requester;
      const finish = { status, outcome, summary, error, actor, startedAt: null, at: Date.now() };
      return requireAccepted(await applyEvent(taskId, { type: "finish", ...finish }));
    },

    notifyTask: async ({ params, body }, { requester }) => {
      const { taskId, ownerSessionId, targets } = await visible(requester, params.id);
      const { policy, origin } = body;
      assertMaySetOrigin(requester, body, deps.channels, "nothing was changed");
      if (!(await deps.authorizer.canSeeRunsOf(requester)(ownerSessionId)))
        throw new BadInput(
          "task",
          `only the owner of task ${taskId} may change its notifications; nothing was changed`,
        );
      if (origin !== undefined && targets.length >= defaults.taskTargets)
        throw new BadInput(
          "origin",
          `task ${taskId} has ${targets.length} notification targets, the most that are allowed; nothing was changed`,
        );
      const { actor } = requester;
      const target = origin === undefined ? undefined : channelTargetOf(deps.channels, origin);
      const event = { type: "policy", at: Date.now(), policy, actor, target } as const;
      return requireAccepted(await applyEvent(taskId, event));
    },

    cancelTask: async ({ params, body: { reason } }, { requester, disconnected }) => {
      const task = await visible(requester, params.id);
      const actor = reason === undefined ? requester.actor : `${requester.actor} (${reason})`;
      return cancelTaskWork(deps, task, actor, disconnected);
    },

    retryTask: decide("retried"),
    dismissTask: decide("dismissed"),

    maintainTasks: async ({ body: { apply } }) => {
      const actions = await background.maintain(apply, true);
      return { applied: apply, measures: actions.map(describeAction) };
    },
  } satisfies Partial<RouteHandlers>;
}
