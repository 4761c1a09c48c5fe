import { Client, Pool } from "pg";
import type { PoolClient } from "pg";
import { defaults } from "../../defaults.js";
import { isStandByError, noServer, triesNextHost, type HostFailure } from "./errors.js";
import { clientConfig, prepareSession, type SessionSettings } from "./session.js";
import type { PostgresHost, PostgresTarget } from "./target.js";

/** `met` is told what each new connection leads to: this start of this server, this database, these tables. */
export function openPool(
  target: PostgresTarget,
  settings: SessionSettings,
  met: (what: string) => void = () => {},
): Pool {
  return new HostPool(target, settings, met);
}

/** Settings of the next client that the pool creates. */
interface Plan {
  host: number;
  standByWillDo: boolean;
}

/** Connection pool over several hosts. Each new connection tries the host of the last successful one first, then the others. */
class HostPool extends Pool {
  readonly #target: PostgresTarget;
  readonly #plan: Plan;
  readonly #settings: SessionSettings;
  #served = 0;

  constructor(target: PostgresTarget, settings: SessionSettings, met: (what: string) => void) {
    const plan: Plan = { host: 0, standByWillDo: false };
    const pooled = new Set<PostgresHost>();
    class HostClient extends Client {
      readonly at = plan.host;
      readonly standByWillDo = plan.standByWillDo;
      constructor() {
        super(clientConfig(target, hostAt(target, plan.host), settings));
        // The user of a lost connection gets the error from its statement.
        this.on("error", () => {});
      }
    }
    super({
      Client: HostClient,
      // This time also covers the wait for a place in the pool.
      connectionTimeoutMillis: (settings.busyMs ?? defaults.storeBusyMs) * target.hosts.length,
      max: defaults.storeConnections,
      min: 1,
      idleTimeoutMillis: defaults.storeIdleMs,
      // An idle connection is no reason for a process to stay.
      allowExitOnIdle: true,
      // oxlint-disable-next-line typescript/no-misused-promises -- the pool waits for it; its types do not say so.
      onConnect: async (client) => {
        const { at, standByWillDo } = client as HostClient;
        const host = hostAt(target, at);
        const poolingChecked = pooled.has(host);
        met(await prepareSession(client, { target, host, settings, standByWillDo, poolingChecked }));
        pooled.add(host);
        this.#served = at;
      },
    });
    this.#target = target;
    this.#settings = settings;
    this.#plan = plan;
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
    const standByWillDo = this.#settings.readOnly && attributes === "any";
    const failures: HostFailure[] = [];
    const order = hosts.map((_, index) => (this.#served + index) % hosts.length);
    // Readers prefer the primary where there are several.
    const passes = hosts.length === 1 || !standByWillDo ? [standByWillDo] : [false, true];
    for (const [pass, accepts] of passes.entries())
      for (const at of order) {
        const former = failures.find((failure) => failure.at === at);
        if (pass > 0 && !isStandByError(former?.error)) continue;
        // Read by the client that this call creates, if it creates one.
        this.#plan.host = at;
        this.#plan.standByWillDo = accepts;
        try {
          return await super.connect();
        } catch (error) {
          if (hosts.length === 1 || !triesNextHost(error)) throw error;
          if (former === undefined) failures.push({ at, host: hostAt(this.#target, at).name, error });
        }
      }
    throw noServer(this.#target, failures);
  }
}

function hostAt({ hosts }: PostgresTarget, at: number): PostgresHost {
  const host = hosts[at];
  if (host === undefined) throw new Error(`there is no host ${at}`);
  return host;
}
