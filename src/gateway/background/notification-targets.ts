import type { ChannelEntries } from "../../config/channels.js";
import type { Config } from "../../config/schema.js";
import { BadInput } from "../../errors.js";
import type { ChannelTarget, NotificationTarget } from "../../model/outbox.js";
import type { InteractionMode } from "../../model/session.js";
import type { ChatOrigin, DeliverMode, NotifyPolicy } from "../../model/task.js";
import { type Requester, sessionIdOf } from "../../sessions/requester.js";
import type { TaskStore } from "../../store/tasks/contract.js";
import { resolveNotificationRouting, type RoutingRequest } from "../../tasks/notification-routing.js";
import type { TaskInput } from "../../tasks/tasks.js";
import { currentTask } from "./parent-session-and-task.js";

/** The notification fields of a request. */
export interface NotifyRequest {
  readonly notify?: NotifyPolicy | undefined;
  readonly origin?: ChatOrigin | undefined;
  readonly deliver?: DeliverMode | undefined;
  /** The requester does not wait for the result. */
  readonly background?: boolean | undefined;
}

interface TargetRequest {
  readonly requester: Requester;
  readonly requested: NotifyRequest;
  readonly mode: InteractionMode;
  /** The session that owns the work. Null: the operator. */
  readonly parentSessionId: string | null;
  /** The requester sees the result itself and needs no notification. */
  readonly seesResult?: boolean;
}

export interface TargetDeps {
  readonly store: Pick<TaskStore, "listTasks">;
  readonly channels: ChannelEntries;
  /** The defaults of the config. */
  readonly notify: Config["notify"];
}

/** A caller that waits for the response needs no notification unless it requested one. */
export function waitingOptions(
  { background, notify }: NotifyRequest & { readonly background: boolean },
  disconnected: AbortSignal,
): { readonly waiting: AbortSignal | undefined } {
  return { waiting: background || notify !== undefined ? undefined : disconnected };
}

/** The notification policy and targets of a task, and the chat that its own children inherit. */
export async function resolveTargets(
  deps: TargetDeps,
  { requester, requested, mode, parentSessionId, seesResult = false }: TargetRequest,
): Promise<Pick<TaskInput, "policy" | "targets" | "ownerSessionId" | "origin">> {
  const requesterSessionId = sessionIdOf(requester);
  const ownerSessionId = requesterSessionId ?? parentSessionId;
  const { notify, background = false, deliver } = requested;
  const origin = requested.origin === undefined ? null : sameThread(deps.channels, requested.origin);
  const routing = { mode, parentSessionId, requesterSessionId, origin };
  const routed = await routeToUser(deps, routing, deliver);
  // The operator set a default channel to be notified of work in the background.
  const usesDefault = ownerSessionId === null && background && routed.targets.length > 0;
  // A request that names a chat or a receiver of the end wants it.
  const isNamed = origin !== null || deliver !== undefined;
  const defaultPolicy = isNamed ? "done_only" : seesResult ? "silent" : usesDefault ? "done_only" : undefined;
  return { ownerSessionId, policy: notify ?? defaultPolicy, ...routed };
}

/** The targets of work, with the chat that it inherits from its parent and the defaults of the config. */
export async function routeToUser(
  deps: TargetDeps,
  request: Omit<RoutingRequest, "inherited" | "deliver">,
  deliver: DeliverMode = deps.notify.deliver,
): Promise<{ readonly targets: readonly NotificationTarget[]; readonly origin: ChatOrigin | null }> {
  const parent = request.parentSessionId ?? request.requesterSessionId;
  const needed = request.origin === null && parent !== null;
  const inherited = needed ? await inheritedOrigin(deps, parent) : null;
  const { targets } = resolveNotificationRouting({
    ...request,
    inherited: inherited ?? defaultOrigin(deps),
    deliver,
  });
  return { targets, origin: request.origin ?? inherited };
}

/** The default channel of the config. Null: there is none. */
export function defaultOrigin({ channels, notify }: Omit<TargetDeps, "store">): ChatOrigin | null {
  const { channel, address = null } = notify;
  return channel === undefined ? null : sameThread(channels, { chat: "direct", channel, address });
}

/** Leaves out the address of the configured chat, so that one thread has one form and gets no message twice. */
function sameThread(channels: ChannelEntries, origin: ChatOrigin): ChatOrigin {
  const entry = Object.hasOwn(channels, origin.channel) ? channels[origin.channel] : undefined;
  const isConfigured = entry?.kind === "telegram" && entry.chat === origin.address;
  return isConfigured ? { ...origin, address: null } : origin;
}

/** The target of a request that names a chat. */
export function channelTargetOf(channels: ChannelEntries, origin: ChatOrigin): ChannelTarget {
  const { channel, address } = sameThread(channels, origin);
  return { kind: "channel", channel, address };
}

/** Tasks of a session that are searched for the chat of its user. */
const RECENT_TASKS = 20;

/** The chat of the session's current task, or else of its newest task that has one. Null: unknown. */
async function inheritedOrigin(
  { store, channels }: TargetDeps,
  sessionId: string,
): Promise<ChatOrigin | null> {
  const current = await currentTask(store, sessionId);
  const tasks =
    current === null ? await store.listTasks({ childSessionId: sessionId, limit: RECENT_TASKS }) : [current];
  const origin = tasks.find((task) => task.origin !== null)?.origin ?? null;
  // A channel that was removed from the config cannot be reached.
  return origin !== null && Object.hasOwn(channels, origin.channel) ? origin : null;
}

/** Throws unless the requester may set `origin` and the channel exists. Called before any work starts. */
export function assertMaySetOrigin(
  { kind }: Requester,
  { origin }: NotifyRequest,
  channels: ChannelEntries,
  consequence = "nothing was started",
): void {
  if (origin === undefined) return;
  const { channel } = origin;
  if (kind !== "operator") throw new BadInput("origin", `only the operator may set origin; ${consequence}`);
  if (!Object.hasOwn(channels, channel))
    throw new BadInput("origin", `there is no channel ${channel} in the config; ${consequence}`);
}
