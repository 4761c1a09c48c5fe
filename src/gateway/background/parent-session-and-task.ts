import { defaults } from "../../defaults.js";
import type { SessionRecord } from "../../model/session.js";
import type { TaskRecord } from "../../model/task.js";
import type { Requester } from "../../sessions/requester.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { TaskStore } from "../../store/tasks/contract.js";

/** The parent session, open or closed. Null: none. */
export async function findParentSession(
  sessions: Pick<Sessions, "get">,
  { parentSessionKey, lineage }: SessionRecord,
): Promise<string | null> {
  if (parentSessionKey === null) return null;
  for (const id of lineage) if ((await sessions.get(id))?.key === parentSessionKey) return id;
  return null;
}

/** The running turn and the longest queue. */
const MAX_TURNS = 1 + defaults.acpQueued;

/** The open task of the requesting session, which becomes the parent of a new task. */
export async function findCurrentTask(
  store: Pick<TaskStore, "listTasks">,
  requester: Requester,
): Promise<string | null> {
  if (requester.kind !== "session") return null;
  return (await currentTask(store, requester.session.id))?.taskId ?? null;
}

export async function currentTask(
  store: Pick<TaskStore, "listTasks">,
  childSessionId: string,
): Promise<TaskRecord | null> {
  const open = await store.listTasks({ childSessionId, open: true, limit: MAX_TURNS });
  return open.find(({ status }) => status === "running") ?? open.at(-1) ?? null;
}
