import { signal } from "@preact/signals";

/** `lost`: the gateway does not answer, and the page tries again. `logged-out`: the page needs a new link. */
export type ConnectionState = "connecting" | "live" | "lost" | "restored" | "paused" | "logged-out";

export const connection = signal<ConnectionState>("connecting");

/** When the connection was lost; null: it is not. */
export const lostAt = signal<number | null>(null);

/** The store was rolled back while the connection was lost: events are missing, and everything was read again. */
export const rolledBack = signal(false);

/** How long "restored" is shown. */
const RESTORED_MS = 4_000;

export function connected(): void {
  const wasLost = lostAt.value !== null;
  lostAt.value = null;
  connection.value = wasLost ? "restored" : "live";
  if (!wasLost) return;
  setTimeout(() => {
    if (connection.value === "restored") connection.value = "live";
  }, RESTORED_MS);
}

export function storeRolledBack(): void {
  rolledBack.value = true;
}

export function disconnected(): void {
  rolledBack.value = false;
  lostAt.value ??= Date.now();
  connection.value = "lost";
}
