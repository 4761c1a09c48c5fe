import { signal } from "@preact/signals";

/** The time, for texts such as "2 minutes ago". Changes once a second while the page is visible. */
export const now = signal(Date.now());

setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1_000);
