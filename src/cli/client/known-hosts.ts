import { NotFound } from "../../errors.js";
import { sanitizeLine } from "../../text/sanitize.js";
import type { HostRecord } from "../../model/gateway.js";
import type { ReadStore } from "../../store/store.js";

/** Of an id, enough to tell hosts apart. */
const SHORT_ID_CHARS = 8;

/** The hosts that keep their runs in this store, as people know them. */
export class KnownHosts {
  readonly #known: readonly HostRecord[];

  constructor(known: readonly HostRecord[]) {
    this.#known = known;
  }

  /** Then a run is not told without its host. */
  get hasSeveral(): boolean {
    return this.#known.length > 1;
  }

  /** As it calls itself, or by the beginning of its id. For programs, which have its id beside it. */
  nameOf(hostId: string): string {
    const name = this.#known.find((host) => host.hostId === hostId)?.name ?? "";
    return sanitizeLine(name) === "" ? hostId.slice(0, SHORT_ID_CHARS) : name;
  }

  /** The same, for a terminal: with the beginning of its id where two would look alike. */
  displayName(hostId: string): string {
    const name = sanitizeLine(this.nameOf(hostId));
    const alike = this.#known.filter((host) => sanitizeLine(host.name) === name);
    return alike.length > 1 ? `${name} (${hostId.slice(0, SHORT_ID_CHARS)})` : name;
  }

  /** By name, or by the beginning of an id. Rejects when there is none, rather than show nothing. */
  resolve(wanted: string): readonly string[] {
    // As it calls itself, or as it is shown: a name can hold what no terminal is given.
    const named = this.#known.filter(
      ({ name, hostId }) =>
        name !== "" && (name === wanted || [sanitizeLine(name), this.displayName(hostId)].includes(wanted)),
    );
    const found = named.length > 0 ? named : this.#known.filter(({ hostId }) => hostId.startsWith(wanted));
    if (wanted !== "" && found.length > 0) return found.map(({ hostId }) => hostId);
    const known = this.#known.map(({ hostId }) => this.displayName(hostId)).join(", ");
    throw new NotFound(`host ${sanitizeLine(wanted)}; ${known === "" ? "none is known" : `known: ${known}`}`);
  }
}

/** Null as store: nothing has ever been recorded. */
export async function readKnownHosts(store: Pick<ReadStore, "listHosts"> | null): Promise<KnownHosts> {
  return new KnownHosts((await store?.listHosts()) ?? []);
}

/** What `--host` says, as a filter; null: it was not given. */
export function hostFilter(
  hosts: KnownHosts,
  wanted: string | null,
): { readonly hostIds?: readonly string[] } {
  return wanted === null ? {} : { hostIds: hosts.resolve(wanted) };
}
