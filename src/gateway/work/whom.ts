import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { InteractionMode, SessionRow } from "../../store/session-record.js";
import type { NotifyPolicy } from "../../store/task-record.js";
import type { TaskStore } from "../../store/task-store.js";
import type { TaskInput } from "../../tasks/new-task.js";
import { targetsOf, type Origin } from "../../tasks/routing.js";
import type { ChannelEntries } from "../handlers/channels.js";
import { sessionIdOf, type Requester } from "../server/requester.js";
import type { Given } from "./background.js";

/** What a request says of who is to hear of its work. */
export interface Tell {
  readonly notify?: NotifyPolicy | undefined;
  readonly origin?: Origin | undefined;
}

export interface WhomRequest {
  readonly requester: Requester;
  readonly said: Tell;
  readonly mode: InteractionMode;
  /** Whose work it is; null: an operator's. */
  readonly parentSessionId: string | null;
  /** Whoever asked sees the end coming: it need not be told. */
  readonly readsAlong?: boolean;
}

/** Whoever waits for the answer has it, and need not be told; unless it said that it wants to be. */
export function awaitedUnless(
  { background, notify }: Tell & { readonly background: boolean },
  gone: AbortSignal,
): Given {
  return { awaited: background || notify !== undefined ? undefined : gone };
}

/** Who hears of work, and when, unless its kind says otherwise. */
export function whomToTell({
  requester,
  said: { notify, origin },
  mode,
  parentSessionId,
  readsAlong = false,
}: WhomRequest): Pick<TaskInput, "policy" | "targets" | "ownerSessionId"> {
  const requesterSessionId = sessionIdOf(requester);
  const unsaid = origin === undefined ? (readsAlong ? "silent" : undefined) : "done_only";
  return {
    ownerSessionId: requesterSessionId ?? parentSessionId,
    policy: notify ?? unsaid,
    targets: targetsOf({ mode, parentSessionId, requesterSessionId, origin: origin ?? null }),
  };
}

/** Asked before anything is begun: whom the operator alone may name, and can. */
export function mayBeTold({ kind }: Requester, { origin }: Tell, channels: ChannelEntries): void {
  if (origin === undefined) return;
  const { channel } = origin;
  if (kind !== "operator")
    throw new BadInput("origin", "where a user is, only the operator can say; nothing was started");
  if (!Object.hasOwn(channels, channel))
    throw new BadInput("origin", `there is no channel ${channel} in the config; nothing was started`);
}

/** Whom a session was made for, open or not. Null: nobody. */
export async function parentOf(
  sessions: Pick<Sessions, "get">,
  { parentSessionKey, lineage }: SessionRow,
): Promise<string | null> {
  if (parentSessionKey === null) return null;
  for (const id of lineage) if ((await sessions.get(id))?.key === parentSessionKey) return id;
  return null;
}

/** The one that goes on, and all that can wait. */
const TURNS = 1 + defaults.acpQueued;

/** What the session that asks is at itself, or about to be: what it asks for is a part of that. */
export async function taskOf(
  store: Pick<TaskStore, "listTasks">,
  requester: Requester,
): Promise<string | null> {
  if (requester.kind !== "session") return null;
  const open = await store.listTasks({ childSessionId: requester.session.id, open: true, limit: TURNS });
  const task = open.find(({ status }) => status === "running") ?? open.at(-1);
  return task?.taskId ?? null;
}
