import { z } from "zod";
import { MESSAGE_DELIVERIES, MESSAGE_ROLES } from "./enums.js";
import type { RecordOf } from "./record-type.js";

/** A message of a session. Times are wall-clock milliseconds. */
export const messageSchema = z.object({
  id: z.string(),
  sessionId: z.string(),
  /** Its place in the session, among messages and turns: from 1, without gaps when written, never used again. */
  seq: z.int(),
  role: z.enum(MESSAGE_ROLES),
  /** The session that sent it; null: none. For display only: that session may have been deleted. */
  fromSessionId: z.string().nullable(),
  actor: z.string(),
  text: z.string(),
  /** The run that took the message, or that wrote it. */
  runId: z.string().nullable(),
  /** Identifies the reason for the message. Of two messages with one cause, only the first is kept. */
  cause: z.string().nullable(),
  at: z.number(),
  deliver: z.enum(MESSAGE_DELIVERIES),
  /** The turn that takes it to the session's agent; null: none, or not yet. A failed turn releases its notices only. */
  turnId: z.string().nullable(),
  /** How many turns took this notice and failed. Whether the agent read it is unknown. */
  inVain: z.int(),
  /** When the agent answered it, or no answer was needed. Null: it waits, or its turn failed. */
  deliveredAt: z.number().nullable(),
});

export type SessionMessage = RecordOf<typeof messageSchema>;
export type MessageRole = SessionMessage["role"];
export type MessageDelivery = SessionMessage["deliver"];
export type NewMessage = Omit<SessionMessage, "seq">;
