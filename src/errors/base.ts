/** An error with a stable code. The message says what the system did and did not do. */
export class HoldfastError extends Error {
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

export const PERHAPS_DONE = "The request was sent and may have been carried out: check before you repeat it";

/** Advice for the case that repeating the request does not help. */
export const peerAdvice = {
  gateway: "Start a gateway there.",
  listener: "Try on that host, or let its gateway listen.",
  here: "Start one and try again, or try on that host.",
} as const;

export function formatUtc(at: number): string {
  return `${new Date(at).toISOString().replace("T", " ").slice(0, 19)} UTC`;
}

/** An error about one session. */
export class SessionError extends HoldfastError {
  readonly sessionId: string;
  constructor(code: string, sessionId: string, message: string) {
    super(code, message);
    this.sessionId = sessionId;
  }
}
