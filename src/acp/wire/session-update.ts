import { isObject } from "./message.js";

/** One `session/update`, as it came. The protocol grows: a kind that is not known here is kept like the others. */
export interface SessionUpdate {
  /** The offset after its frame, to be kept together with its effects. */
  readonly end: number;
  /** Of its frame. */
  readonly bytes: number;
  readonly sessionId: string;
  readonly update: Readonly<Record<string, unknown>> & { readonly sessionUpdate: string };
}

/** Null: not of the form that all updates have. */
export function parseSessionUpdate(
  params: unknown,
  { end, bytes }: { readonly end: number; readonly bytes: number },
): SessionUpdate | null {
  if (!isObject(params) || typeof params["sessionId"] !== "string") return null;
  const { sessionId, update } = params;
  if (!isObject(update) || typeof update["sessionUpdate"] !== "string") return null;
  return { end, bytes, sessionId, update: update as SessionUpdate["update"] };
}
