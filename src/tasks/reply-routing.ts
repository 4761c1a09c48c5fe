import type { InteractionMode } from "../model/session.js";
import type { NotificationTarget } from "../model/outbox.js";

/** Where a session's user speaks with it: alone, among others, or where many read. */
export interface ReplyOrigin {
  readonly chat: "direct" | "group" | "channel";
  /** Of the config. */
  readonly channel: string;
  readonly address: string | null;
}

export interface ReplyRequest {
  /** Of the work that has something to say. */
  readonly mode: InteractionMode;
  readonly parentSessionId: string | null;
  /** The session that asked for it. */
  readonly requesterSessionId: string | null;
  /** Null: it is not known where its user is. */
  readonly origin: ReplyOrigin | null;
}

export interface ReplyRouting {
  /** `background`: owned by a parent, who alone decides what its user hears. */
  readonly kind: "background" | "interactive";
  /** What came of it, and what it says. Null, in every lane: nobody hears it. */
  readonly text: NotificationTarget | null;
  /** How it is going. */
  readonly progress: NotificationTarget | null;
  /** That somebody is at work. A session has no use for that. */
  readonly typing: ChannelTarget | null;
}

/** Where a user is, and no session. */
export type ChannelTarget = Extract<NotificationTarget, { readonly kind: "channel" }>;

/**
 * Who hears of a piece of work: the one place that decides it.
 *
 *     a parent's background work ─▶ the parent, and no user's channel in any lane
 *     asked for in a group       ─▶ the session that speaks there
 *     asked for in a direct chat ─▶ that chat
 *     anywhere else              ─▶ the parent, or else who asked
 */
export function resolveReplyRouting(request: ReplyRequest): ReplyRouting {
  const { mode, parentSessionId, requesterSessionId, origin } = request;
  if (mode === "run" && parentSessionId !== null) return routeToSession("background", parentSessionId);
  if (origin === null) return routeToSession("interactive", parentSessionId ?? requesterSessionId);
  if (origin.chat !== "direct") return routeToSession("interactive", requesterSessionId ?? parentSessionId);
  return routeTo("interactive", { kind: "channel", channel: origin.channel, address: origin.address });
}

/** Who hears what came of it: one, or nobody. */
export function resultTargets(request: ReplyRequest): readonly NotificationTarget[] {
  const { text } = resolveReplyRouting(request);
  return text === null ? [] : [text];
}

/** Of those who hear of work, who can also see that somebody is at it: a user. */
export function canShowTyping(target: NotificationTarget): target is ChannelTarget {
  return target.kind === "channel";
}

function routeToSession(kind: ReplyRouting["kind"], sessionId: string | null): ReplyRouting {
  return routeTo(kind, sessionId === null ? null : { kind: "session", sessionId });
}

function routeTo(kind: ReplyRouting["kind"], target: NotificationTarget | null): ReplyRouting {
  const typing = target !== null && canShowTyping(target) ? target : null;
  return { kind, text: target, progress: target, typing };
}
