import { storedLogin } from "../api/stored-login.js";

/** False: the page has the rights of a session, and some routes do not exist for it. */
export function viewerIsOperator(): boolean {
  return storedLogin()?.sessionId === null;
}
