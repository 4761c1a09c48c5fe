import { Client, Pool, type PoolClient } from "pg";
import { defaults } from "../../defaults.js";
import { isStandbyError, noHostReachable, shouldTryNextHost, type HostFailure } from "./errors.js";
import { clientConfig, prepareSession, type SessionSettings } from "./prepare-connection.js";
import type { PostgresHost, PostgresAddress } from "../../config/postgres-url.js";

/** Enough for all statements of this program; bounded, because callers combine filters. */
const NAMES_KEPT = 256;

/** A statement with a name is parsed and planned once per connection. Those beyond the bound have none, and still work. */
export class StatementNames {
  readonly #names = new Map<string, string>();

  of(text: string): { readonly name?: string } {
    const known = this.#names.get(text);
    if (known !== undefined) return { name: known };
    if (this.#names.size >= NAMES_KEPT) return {};
    const name = `s${this.#names.size}`;
    this.#names.set(text, name);
    return { name };
  }
}

/** Counts the servers, databases and sets of tables that connections have reached. */
export class ServerGenerations {
  #last = "";
  generation = 0;
  changedAt = -Infinity;

  readonly observe = (what: string): void => {
    if (what === this.#last) return;
    this.generation += 1;
    if (this.generation > 1) this.changedAt = Date.now();
    this.#last = what;
  };
}

/** `generations` gets an identifier of the server, its start, the database and the tables for each new connection. */
export function openPool(
  address: PostgresAddress,
  settings: SessionSettings,
  generations: (what: string) => void = () => {},
): Pool {
  return new MultiHostPool(address, settings, generations);
}

/** Settings of the next client that the pool creates. */
interface NextConnection {
  host: number;
  acceptsStandby: boolean;
}

/** Connection pool over several hosts. Each new connection tries the host of the last successful one first, then the others. */
class MultiHostPool extends Pool {
  readonly #target: PostgresAddress;
  readonly #nextConnection: NextConnection;
  readonly #settings: SessionSettings;
  #lastHost = 0;

  constructor(address: PostgresAddress, settings: SessionSettings, generations: (what: string) => void) {
    const plan: NextConnection = { host: 0, acceptsStandby: false };
    const pooled = new Set<PostgresHost>();
    class HostClient extends Client {
      readonly at = plan.host;
      readonly acceptsStandby = plan.acceptsStandby;
      constructor() {
        super(clientConfig(address, hostAt(address, plan.host), settings));
        // The user of a lost connection gets the error from its statement.
        this.on("error", () => {});
      }
    }
    super({
      Client: HostClient,
      // This time also covers the wait for a place in the pool.
      connectionTimeoutMillis: (settings.busyMs ?? defaults.storeBusyMs) * address.hosts.length,
      max: defaults.storeConnections,
      min: 1,
      idleTimeoutMillis: defaults.storeIdleMs,
      // An idle connection is no reason for a process to stay.
      allowExitOnIdle: true,
      // oxlint-disable-next-line typescript/no-misused-promises -- the pool waits for it; its types do not say so.
      onConnect: async (client) => {
        const { at, acceptsStandby } = client as HostClient;
        const host = hostAt(address, at);
        const poolingChecked = pooled.has(host);
        generations(
          await prepareSession(client, { target: address, host, settings, acceptsStandby, poolingChecked }),
        );
        pooled.add(host);
        this.#lastHost = at;
      },
    });
    this.#target = address;
    this.#settings = settings;
    this.#nextConnection = plan;
    this.on("error", () => {});
  }

  override connect(): Promise<PoolClient>;
  override connect(callback: Parameters<Pool["connect"]>[0]): void;
  override connect(callback?: Parameters<Pool["connect"]>[0]): Promise<PoolClient> | void {
    const connected = this.#connect();
    if (callback === undefined) return connected;
    connected.then(
      (client) => callback(undefined, client, (release?: Error | boolean) => client.release(release)),
      (error: unknown) => callback(error as Error, undefined, () => {}),
    );
  }

  async #connect(): Promise<PoolClient> {
    const { hosts, attributes } = this.#target;
    const acceptsStandby = this.#settings.readOnly && attributes === "any";
    const failures: HostFailure[] = [];
    const order = hosts.map((_, index) => (this.#lastHost + index) % hosts.length);
    // Readers prefer the primary where there are several.
    const passes = hosts.length === 1 || !acceptsStandby ? [acceptsStandby] : [false, true];
    for (const [pass, accepts] of passes.entries())
      for (const at of order) {
        const former = failures.find((failure) => failure.at === at);
        if (pass > 0 && !isStandbyError(former?.error)) continue;
        // Read by the client that this call creates, if it creates one.
        this.#nextConnection.host = at;
        this.#nextConnection.acceptsStandby = accepts;
        try {
          return await super.connect();
        } catch (error) {
          if (hosts.length === 1 || !shouldTryNextHost(error)) throw error;
          if (former === undefined) failures.push({ at, host: hostAt(this.#target, at).name, error });
        }
      }
    throw noHostReachable(this.#target, failures);
  }
}

function hostAt({ hosts }: PostgresAddress, at: number): PostgresHost {
  const host = hosts[at];
  if (host === undefined) throw new Error(`there is no host ${at}`);
  return host;
}
