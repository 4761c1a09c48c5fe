import { sql } from "kysely";
import type { Compilable, RawBuilder } from "kysely";
import { defaults } from "../../defaults.js";
import { toGatewayColumns } from "../gateway-columns.js";
import type {
  GatewayFacts,
  GatewayRecord,
  HostIntroduction,
  HostRecord,
  NewGateway,
} from "../gateway-record.js";
import type { GatewayFilter, GatewayStore } from "../gateway-store.js";
import type { Engine } from "./engine.js";
import * as read from "./read-gateways.js";
import { SqlSessionStore } from "./sql-session-store.js";
import { countOf, type Steps } from "./steps.js";

export class SqlGatewayStore extends SqlSessionStore implements GatewayStore {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    super(engine);
    this.#engine = engine;
  }

  announceGateway(gateway: NewGateway): Promise<boolean> {
    return this.#engine.transact(() => this.#announce(gateway));
  }

  async beatGateway(instanceId: string): Promise<boolean> {
    const beat = this.#engine.db
      .updateTable("gateways")
      .set({ heartbeat_at: this.#engine.words.now() })
      .where("instance_id", "=", instanceId)
      .where("stopped_at", "is", null);
    return (await this.#engine.perform(() => countOf(beat))) > 0;
  }

  async retireGateway(instanceId: string): Promise<void> {
    const retire = this.#engine.db
      .updateTable("gateways")
      // Its good-bye is the last that is heard of it. Nobody is to connect where nobody answers any more.
      .set({
        stopped_at: Date.now(),
        heartbeat_at: this.#engine.words.now(),
        address: null,
        peer_key: null,
      })
      .where("instance_id", "=", instanceId)
      .where("stopped_at", "is", null);
    await this.#engine.perform(() => countOf(retire));
  }

  listGateways(filter?: GatewayFilter): Promise<readonly GatewayFacts[]> {
    return read.listGateways(this.#engine.db, filter);
  }

  getGateway(instanceId: string): Promise<GatewayRecord | null> {
    return read.getGateway(this.#engine.db, instanceId);
  }

  async forgetGateway(instanceId: string): Promise<boolean> {
    const forget = this.#engine.db.deleteFrom("gateways").where("instance_id", "=", instanceId);
    return (await this.#engine.perform(() => countOf(forget))) > 0;
  }

  async introduceHost(host: HostIntroduction): Promise<void> {
    const known = await this.listHosts();
    const same = known.find(({ hostId }) => hostId === host.hostId);
    if (same?.name === host.name && same.platform === host.platform) return;
    await this.#engine.perform(() => countOf(this.#introduce(host)));
  }

  listHosts(): Promise<readonly HostRecord[]> {
    return read.listHosts(this.#engine.db);
  }

  countHeld(): Promise<ReadonlyMap<string, number>> {
    return read.countHeld(this.#engine.db);
  }

  *#announce(gateway: NewGateway): Steps<boolean> {
    const { db, words } = this.#engine;
    const columns = toGatewayColumns(gateway, words.now());
    const announce = db
      .insertInto("gateways")
      .values(columns)
      .onConflict((conflict) => {
        const { instance_id: _, ...rest } = columns;
        const replace = conflict.column("instance_id").doUpdateSet(rest);
        // A file is used by one host at a time, and a former one's clock says nothing here.
        return words.shared ? replace.where(this.#replaceable(gateway.hostId)) : replace;
      });
    if ((yield* countOf(announce)) === 0) return false;
    const { hostId, hostName, capabilities } = gateway;
    yield* countOf(this.#introduce({ hostId, name: hostName, platform: capabilities.platform }));
    return true;
  }

  #replaceable(hostId: string): RawBuilder<boolean> {
    const silentSince = sql`${this.#engine.words.now()} - ${defaults.leaseMs}`;
    return sql<boolean>`(gateways.host_id = ${hostId} or gateways.stopped_at is not null or gateways.heartbeat_at <= ${silentSince})`;
  }

  #introduce({ hostId, name, platform }: HostIntroduction): Compilable {
    const now = Date.now();
    return this.#engine.db
      .insertInto("hosts")
      .values({ host_id: hostId, name, platform, first_seen_at: now, last_seen_at: now })
      .onConflict((conflict) =>
        conflict.column("host_id").doUpdateSet({ name, platform, last_seen_at: now }),
      );
  }
}
