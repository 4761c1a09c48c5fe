import { errorMessage } from "../../home/errno.js";
import { HoldfastError } from "../../errors.js";
import { redactedExcerpt } from "../../text/redact.js";
import { INTERNAL_ERROR, type RpcOutcome } from "../wire/message.js";

/** "Resource not found" of ACP. */
export const RESOURCE_NOT_FOUND = -32_002;
/** The gateway refuses. (-32000 is "authentication required" in ACP.) */
export const REQUEST_REFUSED = -32_001;

/** An error that is answered to the agent. */
export class RpcFailure extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

export async function toRpcOutcome(work: () => Promise<unknown>): Promise<RpcOutcome> {
  try {
    return { result: await work() };
  } catch (error) {
    return toErrorOutcome(error);
  }
}

export function toErrorOutcome(error: unknown): RpcOutcome {
  const message = redactedExcerpt(errorMessage(error), MAX_MESSAGE_CHARS);
  if (error instanceof RpcFailure) return { error: { code: error.code, message } };
  return { error: { code: error instanceof HoldfastError ? REQUEST_REFUSED : INTERNAL_ERROR, message } };
}

/** Room for a path. */
const MAX_MESSAGE_CHARS = 1_000;
