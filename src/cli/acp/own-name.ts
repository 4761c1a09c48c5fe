import { sessionToken } from "../client/requester.js";

/** What a session of mine is called by everybody: a session's own sessions bear its name in front of theirs. */
export function qualifiedSessionName(name: string): string {
  const mine = process.env["HOLDFAST_SESSION_KEY"];
  return sessionToken() === null || mine === undefined || mine === "" ? name : `${mine}/${name}`;
}
