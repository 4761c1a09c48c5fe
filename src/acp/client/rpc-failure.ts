import { HoldfastError } from "../../errors.js";
import { redactedExcerpt } from "../../text/truncate.js";
import type { RpcOutcome } from "../wire/message.js";

export const INVALID_PARAMS = -32_602;
/** The protocol's "resource not found". */
export const RESOURCE_NOT_FOUND = -32_002;
/** It could be done, and is not. (-32000 is "authentication required" in this protocol.) */
export const REQUEST_REFUSED = -32_001;
const INTERNAL_ERROR = -32_603;

/** What an agent is told instead of a result. */
export class RpcFailure extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** The result, or why there is none. */
export async function toRpcOutcome(work: () => Promise<unknown>): Promise<RpcOutcome> {
  try {
    return { result: await work() };
  } catch (error) {
    return toErrorOutcome(error);
  }
}

export function toErrorOutcome(error: unknown): RpcOutcome {
  const message = redactedExcerpt(error instanceof Error ? error.message : String(error), MAX_MESSAGE_CHARS);
  if (error instanceof RpcFailure) return { error: { code: error.code, message } };
  return { error: { code: error instanceof HoldfastError ? REQUEST_REFUSED : INTERNAL_ERROR, message } };
}

/** A sentence with a path in it. */
const MAX_MESSAGE_CHARS = 1_000;
