import { BadInput, NotFound, TaskRefused } from "../../errors.js";
import { isEnded, type TaskRecord } from "../../store/task-record.js";
import type { Store } from "../../store/store.js";
import { keyOfCaller } from "../../tasks/key.js";
import { shownMeasure } from "../../tasks/shown-measure.js";
import type { Tasks, Told } from "../../tasks/tasks.js";
import type { Happening } from "../../tasks/transition.js";
import type { Verb } from "../contract/contract.js";
import type { Asking, Handlers } from "../server/app.js";
import { sessionIdOf, type Requester } from "../server/requester.js";
import type { Sights } from "../sights.js";
import type { Background } from "../work/background.js";
import { cancelTask, type CancelParts } from "../work/cancel.js";
import { mayBeTold, taskOf, whomToTell } from "../work/whom.js";
import type { ChannelEntries } from "./channels.js";
import type { TaskPlaces } from "./task-places.js";
import {
  createTaskReading,
  visibleTask,
  type TaskReadingDesk,
  type TaskReadingVerb,
} from "./task-reading.js";

export type TaskVerb =
  | TaskReadingVerb
  | Extract<
      Verb,
      | "createTask"
      | "taskProgress"
      | "finishTask"
      | "notifyTask"
      | "cancelTask"
      | "retryTask"
      | "dismissTask"
      | "maintainTasks"
    >;

export interface TaskDesk extends CancelParts {
  readonly store: Store;
  readonly tasks: Tasks;
  readonly sights: Sights;
  readonly background: Background;
  readonly channels: ChannelEntries;
  readonly places: TaskPlaces;
  readonly notRestored: TaskReadingDesk["notRestored"];
  /** There is something to send. */
  readonly send: () => void;
}

/** Whose work it is, of a session's own agent; of others the operator alone can say. */
function agentOf(requester: Requester, said: string | undefined): string | null {
  if (requester.kind === "operator") return said ?? null;
  const { agentId } = requester.session;
  if (said === undefined || said === agentId) return agentId;
  throw new BadInput(
    "agentId",
    "a session's work is its own agent's, and cannot be said to be another's; nothing was recorded",
  );
}

export function createTaskHandlers(desk: TaskDesk): Pick<Handlers, TaskVerb> {
  const { store, background } = desk;
  const visible = (requester: Requester, id: string) => visibleTask(desk, requester, id);
  const external = async (requester: Requester, id: string): Promise<TaskRecord> => {
    const task = await visible(requester, id);
    if (task.runtime === "external") return task;
    throw new BadInput(
      "task",
      `task ${task.taskId} follows what does it (${task.runtime}), and nobody's word; nothing was recorded`,
    );
  };
  const said = async (taskId: string, happening: Happening): Promise<Told> => {
    const told = await background.tell(taskId, happening);
    if (told === null) throw new NotFound(`task ${taskId}`);
    return told;
  };
  const taken = (told: Told): { readonly task: TaskRecord; readonly changed: boolean } => {
    const { task } = told;
    if (told.kind === "refused") throw new TaskRefused(task.taskId, task.status, told.why);
    return { task, changed: told.kind === "changed" };
  };
  const decide =
    (type: "retried" | "dismissed") =>
    async ({ params }: { readonly params: { readonly id: string } }, { requester }: Asking) => {
      const { taskId } = await visible(requester, params.id);
      const event = { type, at: Date.now(), data: { actor: requester.actor } };
      const messages = await (type === "retried"
        ? store.retryOutbox(taskId, event)
        : store.dismissOutbox(taskId, event));
      desk.send();
      return { task: await visible(requester, taskId), messages };
    };
  return {
    ...createTaskReading(desk),

    createTask: async ({ body }, { requester }) => {
      const { key, queued, parent, notify, origin, ...rest } = body;
      const self = sessionIdOf(requester);
      mayBeTold(requester, body, desk.channels);
      const whom = whomToTell({
        requester,
        said: { notify, origin },
        mode: "run",
        parentSessionId: self,
      });
      const made = await desk.tasks.create({
        ...rest,
        agentId: agentOf(requester, rest.agentId),
        ...whom,
        runtime: "external",
        key: key === undefined ? null : keyOfCaller(self, key),
        parentTaskId:
          parent === undefined ? await taskOf(store, requester) : (await visible(requester, parent)).taskId,
      });
      const { task, created } = made;
      if (queued || task.status !== "queued") return made;
      return { task: (await said(task.taskId, { type: "start", at: Date.now() })).task, created };
    },

    taskProgress: async ({ params, body: { text, queued } }, { requester }) => {
      const { taskId, status } = await external(requester, params.id);
      const at = Date.now();
      if (status === "queued" && !queued) await said(taskId, { type: "start", at });
      const { task } = await said(
        taskId,
        text === undefined ? { type: "heartbeat", at } : { type: "progress", at, text },
      );
      return { task, stop: isEnded(task.status) };
    },

    finishTask: async ({ params, body }, { requester }) => {
      const { taskId } = await external(requester, params.id);
      const { status, outcome = null, summary = null, error = null } = body;
      const { actor } = requester;
      const finish = { status, outcome, summary, error, actor, startedAt: null, at: Date.now() };
      return taken(await said(taskId, { type: "finish", ...finish }));
    },

    notifyTask: async ({ params, body: { policy } }, { requester }) => {
      const { taskId, ownerSessionId } = await visible(requester, params.id);
      if (!(await desk.sights.runsOf(requester)(ownerSessionId)))
        throw new BadInput(
          "task",
          `who asked for task ${taskId} decides when to hear of it, not who does it; nothing was changed`,
        );
      const { actor } = requester;
      return taken(await said(taskId, { type: "policy", at: Date.now(), policy, actor }));
    },

    cancelTask: async ({ params, body: { reason } }, { requester, gone }) => {
      const task = await visible(requester, params.id);
      const actor = reason === undefined ? requester.actor : `${requester.actor} (${reason})`;
      return cancelTask(desk, task, actor, gone);
    },

    retryTask: decide("retried"),
    dismissTask: decide("dismissed"),

    maintainTasks: async ({ body: { apply } }) => {
      const measures = await background.maintain(apply, true);
      return { applied: apply, measures: measures.map(shownMeasure) };
    },
  };
}
