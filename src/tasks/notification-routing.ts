import { type ChannelTarget, type NotificationTarget, targetKey } from "../model/outbox.js";
import type { InteractionMode } from "../model/session.js";
import type { ChatOrigin, DeliverMode } from "../model/task.js";

export interface RoutingRequest {
  /** The mode of the session that does the work. */
  readonly mode: InteractionMode;
  readonly parentSessionId: string | null;
  /** The session that requested the work. */
  readonly requesterSessionId: string | null;
  /** The chat that the request names. Null: none. */
  readonly origin: ChatOrigin | null;
  /** The chat of the parent's own work, or the default channel. Null: neither is known. */
  readonly inherited: ChatOrigin | null;
  readonly deliver: DeliverMode;
}

interface NotificationRouting {
  /** `background`: the user is notified of nothing but the end. */
  readonly kind: "background" | "interactive";
  readonly targets: readonly NotificationTarget[];
}

/**
 * Decides where the notifications of work go:
 *
 *     background work of a parent    ─▶ the parent
 *     requested in a group           ─▶ the session that belongs to that chat, or else the group
 *     requested in a direct chat     ─▶ that chat
 *     requested elsewhere            ─▶ the parent, or else the requester, or else the default channel
 *
 * A session is notified by a notice, which its agent reads at its next turn. So the end also goes to the user's chat
 * (`deliver` is `user`), or wakes the session's agent, which answers the user (`wake`).
 */
export function resolveNotificationRouting(request: RoutingRequest): NotificationRouting {
  const { mode, parentSessionId, origin, inherited, deliver } = request;
  const kind = mode === "run" && parentSessionId !== null ? "background" : "interactive";
  const sessionId = notifiedSession(request);
  const chat = origin ?? inherited;
  const user: ChannelTarget | null =
    chat === null ? null : { kind: "channel", channel: chat.channel, address: chat.address };
  if (sessionId === null) return { kind, targets: user === null ? [] : [user] };
  const session = { kind: "session", sessionId } as const;
  if (deliver === "wake")
    return { kind, targets: [{ ...session, wake: true, ...(user === null ? {} : { fallback: user }) }] };
  if (deliver === "session" || user === null) return { kind, targets: [session] };
  return { kind, targets: [session, { ...user, on: "end" }] };
}

/** Null: the user is notified directly, of changes too. */
function notifiedSession({
  mode,
  parentSessionId,
  requesterSessionId,
  origin,
}: RoutingRequest): string | null {
  if (mode === "run" && parentSessionId !== null) return parentSessionId;
  if (origin === null) return parentSessionId ?? requesterSessionId;
  return origin.chat === "direct" ? null : (requesterSessionId ?? parentSessionId);
}

/** True if the user sees a typing indicator in that chat while the work continues. */
export function canShowTyping(target: NotificationTarget): target is ChannelTarget {
  return target.kind === "channel" && isNotifiedOfChanges(target);
}

/** False: the target is only notified of the end. */
export function isNotifiedOfChanges(target: NotificationTarget): boolean {
  return target.kind === "session" || target.on !== "end";
}

/** Adds a target. A target that was notified only of the end is then notified of changes too. */
export function addTarget(
  targets: readonly NotificationTarget[],
  added: NotificationTarget,
): readonly NotificationTarget[] {
  const key = targetKey(added);
  const same = targets.find((target) => targetKey(target) === key);
  if (same === undefined) return [...targets, added];
  return isNotifiedOfChanges(same) ? targets : targets.map((target) => (target === same ? added : target));
}
