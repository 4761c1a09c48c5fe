/** Defaults of the dashboard. */
export const dashboardDefaults = {
  /** A link is opened by the browser within seconds, or copied by hand to the end of an SSH tunnel. */
  dashboardLinkMs: 2 * 60_000,
  /** Unused links at the same time: more than a person opens, so that only a loop reaches it. */
  dashboardLinks: 16,
  /** A working day: then the page needs a new link. */
  dashboardLoginMs: 12 * 3_600_000,
  /** Browsers that are logged in at the same time; beyond it the oldest is logged out. */
  dashboardLogins: 32,
  /** Interval of the check for logins that have ended, after which their streams and the listener close. */
  dashboardExpiryPollMs: 10_000,
  /** A program that cannot open the page ends sooner with an error; a browser itself is still running then. */
  dashboardBrowserMs: 2_000,
} as const;
