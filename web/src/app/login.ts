import { signal } from "@preact/signals";
import { exchangeLink, logOut } from "../api/client.js";
import { removeLogin, storedLogin, storeLogin } from "../api/stored-login.js";
import { connection } from "../live/connection.js";
import { followEvents } from "../live/events.js";
import { followRuns } from "../live/runs.js";
import { dropFragment } from "../router/location.js";

/** A sentence with the reason that the page is not logged in; null: there was no error. */
export const loginProblem = signal<string | null>(null);
/** The session whose view this is; null: the operator's. Undefined: not known yet. */
export const viewedSession = signal<string | null | undefined>(undefined);

const LINK = /^#link=([\w-]+)$/;

/** Exchanges the link that the page was opened with, if there is one, and starts to follow the gateway. */
export async function logIn(): Promise<void> {
  const link = LINK.exec(location.hash)?.[1];
  if (link !== undefined) {
    // Before anything else: the link must not stay in the history.
    dropFragment();
    try {
      storeLogin(await exchangeLink(link));
    } catch (error) {
      if (storedLogin() === null) loginProblem.value = (error as Error).message;
    }
  }
  const login = storedLogin();
  if (login === null) {
    connection.value = "logged-out";
    return;
  }
  viewedSession.value = login.sessionId;
  followRuns();
  void followEvents();
}

// A link that is pasted into the open page changes only the fragment, which loads nothing.
window.addEventListener("hashchange", () => {
  if (LINK.test(location.hash)) location.reload();
});

export async function endLogin(): Promise<void> {
  await logOut().catch(() => undefined);
  removeLogin();
  connection.value = "logged-out";
}
