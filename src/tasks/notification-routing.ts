import type { InteractionMode } from "../model/session.js";
import type { NotificationTarget } from "../model/outbox.js";

/** The chat in which a user talks to a session. */
export interface ChatOrigin {
  readonly chat: "direct" | "group" | "channel";
  /** Name of a channel in the config. */
  readonly channel: string;
  readonly address: string | null;
}

export interface RoutingRequest {
  /** The mode of the session that does the work. */
  readonly mode: InteractionMode;
  readonly parentSessionId: string | null;
  /** The session that requested the work. */
  readonly requesterSessionId: string | null;
  /** Null: unknown. */
  readonly origin: ChatOrigin | null;
}

export interface NotificationRouting {
  /** `background`: only the parent is notified, and decides what its user sees. */
  readonly kind: "background" | "interactive";
  /** The result. Null, also in the fields below: no target. */
  readonly text: NotificationTarget | null;
  readonly progress: NotificationTarget | null;
  /** The typing indicator; only channels show one. */
  readonly typing: ChannelTarget | null;
}

export type ChannelTarget = Extract<NotificationTarget, { readonly kind: "channel" }>;

/**
 * Decides where the notifications of work go:
 *
 *     background work of a parent ─▶ the parent, never a user's channel
 *     requested in a group        ─▶ the session that talks there
 *     requested in a direct chat  ─▶ that chat
 *     requested elsewhere         ─▶ the parent, or else the requester
 */
export function resolveNotificationRouting(request: RoutingRequest): NotificationRouting {
  const { mode, parentSessionId, requesterSessionId, origin } = request;
  if (mode === "run" && parentSessionId !== null) return routeToSession("background", parentSessionId);
  if (origin === null) return routeToSession("interactive", parentSessionId ?? requesterSessionId);
  if (origin.chat !== "direct") return routeToSession("interactive", requesterSessionId ?? parentSessionId);
  return routeTo("interactive", { kind: "channel", channel: origin.channel, address: origin.address });
}

/** The targets of the result: one or none. */
export function resultTargets(request: RoutingRequest): readonly NotificationTarget[] {
  const { text } = resolveNotificationRouting(request);
  return text === null ? [] : [text];
}

export function canShowTyping(target: NotificationTarget): target is ChannelTarget {
  return target.kind === "channel";
}

function routeToSession(kind: NotificationRouting["kind"], sessionId: string | null): NotificationRouting {
  return routeTo(kind, sessionId === null ? null : { kind: "session", sessionId });
}

function routeTo(kind: NotificationRouting["kind"], target: NotificationTarget | null): NotificationRouting {
  const typing = target !== null && canShowTyping(target) ? target : null;
  return { kind, text: target, progress: target, typing };
}
