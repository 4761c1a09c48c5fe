import { sessionToken } from "../session-token.js";

const LONG_MS = 2_000;

/** A session's command may need somebody's leave. */
export function sayIfLong(say: (message: string) => void): Disposable | null {
  if (sessionToken() === null) return null;
  const waiting = "waiting to be allowed; the operator sees the question with `holdfast approvals list`";
  const timer = setTimeout(() => say(waiting), LONG_MS);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}
