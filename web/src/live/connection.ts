import { signal } from "@preact/signals";
import { defaults } from "../defaults.js";

/** `lost`: the gateway does not answer, and the page tries again. `logged-out`: the page needs a new link. */
export type ConnectionState = "connecting" | "live" | "lost" | "restored" | "paused" | "logged-out";

export const connection = signal<ConnectionState>("connecting");

/** When the connection was lost; null: it is not. */
export const lostAt = signal<number | null>(null);

/** Events may have been missed while the connection was lost, so everything was read again. */
export const missedEvents = signal(false);

export function connected(): void {
  const wasLost = lostAt.value !== null;
  lostAt.value = null;
  connection.value = wasLost ? "restored" : "live";
  if (!wasLost) return;
  setTimeout(() => {
    if (connection.value === "restored") connection.value = "live";
  }, defaults.restoredShownMs);
}

export function eventsMissed(): void {
  missedEvents.value = true;
}

export function disconnected(): void {
  missedEvents.value = false;
  lostAt.value ??= Date.now();
  connection.value = "lost";
}
