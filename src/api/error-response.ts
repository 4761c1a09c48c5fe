import { HoldfastError, TooManyRequests } from "../errors.js";

/** The body of every error response. */
export interface ErrorResponse {
  readonly error: { readonly code: string; readonly message: string; readonly [field: string]: unknown };
}

/** An error response of the gateway, with the code and fields of the original error. */
export class GatewayError extends HoldfastError {
  readonly fields: Readonly<Record<string, unknown>>;
  constructor({ code, message, ...fields }: ErrorResponse["error"]) {
    super(code, message);
    this.fields = fields;
  }
}

/** One second: the rate is counted per second, and the other limits apply only to work that is under way. */
const RETRY_AFTER_S = "1";

/** The HTTP status of each code; of any other code it is 500. */
export const HTTP_STATUS = {
  BAD_INPUT: 400,
  UNAUTHORIZED: 401,
  FOREIGN_ORIGIN: 403,
  EXEC_DENIED: 403,
  RUN_NOT_FOUND: 404,
  NOT_FOUND: 404,
  NOT_OURS: 404,
  RUN_EXISTS: 409,
  LEASE_LOST: 409,
  STALE_EPOCH: 409,
  NOT_STEERING: 409,
  NOT_ADOPTED: 409,
  STDIN_CLOSED: 409,
  STDIN_FULL: 409,
  NOTHING_TO_ABANDON: 409,
  INSTANCE_LOCKED: 409,
  SESSION_TAKEN: 409,
  SESSION_CLOSED: 409,
  SESSION_BUSY: 409,
  TASK_REFUSED: 409,
  ACP_NOT_HELD: 409,
  ACP_SESSION_CLOSED: 409,
  ACP_NOT_RESTARTABLE: 409,
  ACP_REFUSED: 422,
  ACP_AUTH_REQUIRED: 422,
  TOO_LARGE: 413,
  SPAWN_FAILED: 422,
  LIMIT_UNAVAILABLE: 422,
  TOO_MANY_REQUESTS: 429,
  TOO_MANY_STREAMS: 429,
  SESSION_STORAGE_FULL: 429,
  TOO_MANY_APPROVALS: 429,
  INBOX_FULL: 429,
  NOT_FORGOTTEN: 409,
  PEER_UNREACHABLE: 502,
  ACP_QUEUE_FULL: 429,
  ACP_CLOSED: 502,
  ACP_TIMEOUT: 504,
  STATE_UNUSABLE: 503,
  UNSAFE_PATH: 503,
  STORE_AWAY: 503,
  STORE_UNREADABLE: 503,
  ANCHOR_UNUSABLE: 503,
  SUPERVISOR_CLOSED: 503,
} as const;

export type ErrorCode = keyof typeof HTTP_STATUS;

export function httpStatusOf(error: unknown): number {
  const statuses: Readonly<Record<string, number>> = HTTP_STATUS;
  return error instanceof HoldfastError ? (statuses[error.code] ?? 500) : 500;
}

/** Headers of the error's response. `retry-after` is when a caller beyond a limit may try again. */
export function errorHeaders(error: unknown): Readonly<Record<string, string>> {
  const status = httpStatusOf(error);
  // Required with every 401: https://www.rfc-editor.org/rfc/rfc9110#section-15.5.2
  if (status === 401) return { "www-authenticate": 'Bearer realm="holdfast"' };
  if (status !== 429) return {};
  const close = error instanceof TooManyRequests && error.close;
  return { "retry-after": RETRY_AFTER_S, ...(close ? { connection: "close" } : {}) };
}

/** The error's code, message and fields, without its stack and cause. */
export function toErrorResponse(error: unknown): ErrorResponse {
  if (!(error instanceof HoldfastError))
    return { error: { code: "INTERNAL", message: "the gateway failed to answer; its log says why" } };
  const { name: _name, cause: _cause, stack: _stack, code, message, ...fields } = error;
  return { error: { ...fields, code, message } };
}
