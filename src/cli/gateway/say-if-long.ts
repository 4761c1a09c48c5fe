import { sessionToken } from "../client/requester.js";

const APPROVAL_NOTICE_MS = 2_000;

/** A session's command may need somebody's leave. */
export function noticeIfWaitingForApproval(notice: (message: string) => void): Disposable | null {
  if (sessionToken() === null) return null;
  const waiting = "waiting to be allowed; the operator sees the question with `holdfast approvals list`";
  const timer = setTimeout(() => notice(waiting), APPROVAL_NOTICE_MS);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}
