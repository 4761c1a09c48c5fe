import type { ChannelEntries } from "../../config/channels.js";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import type { InteractionMode, SessionRecord } from "../../model/session.js";
import type { NotifyPolicy } from "../../model/task.js";
import { type Requester, sessionIdOf } from "../../sessions/requester.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { TaskStore } from "../../store/tasks/store.js";
import { type ReplyOrigin, resultTargets } from "../../tasks/reply-routing.js";
import type { TaskInput } from "../../tasks/tasks.js";
import type { StartOptions } from "./background.js";

/** The notification fields of a request. */
export interface NotifyRequest {
  readonly notify?: NotifyPolicy | undefined;
  readonly origin?: ReplyOrigin | undefined;
}

export interface TargetRequest {
  readonly requester: Requester;
  readonly requested: NotifyRequest;
  readonly mode: InteractionMode;
  /** The session that owns the work. Null: the operator. */
  readonly parentSessionId: string | null;
  /** The requester sees the result itself and needs no notification. */
  readonly seesResult?: boolean;
}

/** A caller that waits for the response needs no notification unless it requested one. */
export function waitingOptions(
  { background, notify }: NotifyRequest & { readonly background: boolean },
  disconnected: AbortSignal,
): StartOptions {
  return { waiting: background || notify !== undefined ? undefined : disconnected };
}

/** The notification policy and targets of a task. */
export function resolveTargets({
  requester,
  requested: { notify, origin },
  mode,
  parentSessionId,
  seesResult = false,
}: TargetRequest): Pick<TaskInput, "policy" | "targets" | "ownerSessionId"> {
  const requesterSessionId = sessionIdOf(requester);
  const defaultPolicy = origin === undefined ? (seesResult ? "silent" : undefined) : "done_only";
  return {
    ownerSessionId: requesterSessionId ?? parentSessionId,
    policy: notify ?? defaultPolicy,
    targets: resultTargets({ mode, parentSessionId, requesterSessionId, origin: origin ?? null }),
  };
}

/** Throws unless the requester may set `origin` and the channel exists. Called before any work starts. */
export function assertMaySetOrigin(
  { kind }: Requester,
  { origin }: NotifyRequest,
  channels: ChannelEntries,
): void {
  if (origin === undefined) return;
  const { channel } = origin;
  if (kind !== "operator")
    throw new BadInput("origin", "only the operator may set origin; nothing was started");
  if (!Object.hasOwn(channels, channel))
    throw new BadInput("origin", `there is no channel ${channel} in the config; nothing was started`);
}

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
  const open = await store.listTasks({ childSessionId: requester.session.id, open: true, limit: MAX_TURNS });
  const task = open.find(({ status }) => status === "running") ?? open.at(-1);
  return task?.taskId ?? null;
}
