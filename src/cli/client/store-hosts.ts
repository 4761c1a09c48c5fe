import { NotFound } from "../../errors.js";
import type { HostRecord } from "../../model/gateway.js";
import type { ReadStore } from "../../store/store.js";
import { sanitizeLine } from "../../text/sanitize.js";

/** Characters of a host id that are enough to distinguish hosts. */
const SHORT_ID_CHARS = 8;

/** The hosts that share this store, with their names. */
export class KnownHosts {
  readonly #known: readonly HostRecord[];

  constructor(known: readonly HostRecord[]) {
    this.#known = known;
  }

  /** With several hosts, lists show the host of each run. */
  get hasSeveral(): boolean {
    return this.#known.length > 1;
  }

  /** The host's name, or else the beginning of its id. For JSON, which has the id as well. */
  nameOf(hostId: string): string {
    const name = this.#known.find((host) => host.hostId === hostId)?.name ?? "";
    return sanitizeLine(name) === "" ? hostId.slice(0, SHORT_ID_CHARS) : name;
  }

  /** The host's name for a terminal, with the beginning of its id if two hosts have the same name. */
  displayName(hostId: string): string {
    const name = sanitizeLine(this.nameOf(hostId));
    const alike = this.#known.filter((host) => sanitizeLine(host.name) === name);
    return alike.length > 1 ? `${name} (${hostId.slice(0, SHORT_ID_CHARS)})` : name;
  }

  /** The ids of the hosts with that name, or with an id that begins so. Rejects if there is none. */
  resolve(wanted: string): readonly string[] {
    // By its name, or by its name as displayed: a name may contain control characters.
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

/** Without a store there are no hosts. */
export async function readKnownHosts(store: Pick<ReadStore, "listHosts"> | null): Promise<KnownHosts> {
  return new KnownHosts((await store?.listHosts()) ?? []);
}

/** The filter for `--host`. */
export function hostFilter(
  hosts: KnownHosts,
  wanted: string | undefined,
): { readonly hostIds?: readonly string[] } {
  return wanted === undefined ? {} : { hostIds: hosts.resolve(wanted) };
}
