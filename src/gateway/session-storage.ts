import { defaults } from "../defaults.js";
import { SessionStorageFull } from "../errors.js";
import type { SessionStore } from "../store/sessions/store.js";
import type { Requester } from "../sessions/requester.js";

/**
 * Limits the size of the records that are stored for one session. The size is measured in the store from time to time;
 * records added in between are estimated.
 */
export class SessionStorageQuota {
  readonly #store: Pick<SessionStore, "storedBytesOfSession">;
  readonly #known = new Map<string, { readonly at: number; bytes: number }>();

  constructor(store: Pick<SessionStore, "storedBytesOfSession">) {
    this.#store = store;
  }

  /** Rejects with SessionStorageFull. Counts one more record. */
  async assertRoom(requester: Requester): Promise<void> {
    if (requester.kind === "operator") return;
    const { id } = requester.session;
    const now = performance.now();
    for (const [each, { at }] of this.#known)
      if (now - at > defaults.sessionStoredLookMs) this.#known.delete(each);
    const known = this.#known.get(id) ?? { at: now, bytes: await this.#store.storedBytesOfSession(id) };
    this.#known.set(id, known);
    if (known.bytes > defaults.sessionStoredBytes)
      throw new SessionStorageFull(id, defaults.sessionStoredBytes);
    known.bytes += defaults.labelsBytes;
  }
}
