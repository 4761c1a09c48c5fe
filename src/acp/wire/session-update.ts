import { isObject } from "./message.js";

/** One `session/update` as received. Unknown kinds are stored like the others, because the protocol grows. */
export interface SessionUpdate {
  /** The offset after its frame, stored together with its effects. */
  readonly end: number;
  /** Size of its frame. */
  readonly bytes: number;
  readonly sessionId: string;
  readonly update: Readonly<Record<string, unknown>> & { readonly sessionUpdate: string };
}

/** Null: not a valid update. */
export function parseSessionUpdate(
  params: unknown,
  { end, bytes }: { readonly end: number; readonly bytes: number },
): SessionUpdate | null {
  if (!isObject(params) || typeof params["sessionId"] !== "string") return null;
  const { sessionId, update } = params;
  if (!isObject(update) || typeof update["sessionUpdate"] !== "string") return null;
  return { end, bytes, sessionId, update: update as SessionUpdate["update"] };
}
