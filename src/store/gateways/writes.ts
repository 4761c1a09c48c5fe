import { type Compilable, type RawBuilder, sql } from "kysely";
import { defaults } from "../../defaults.js";
import type { GatewayRecord, HostInfo, HostRecord, NewGateway, PublicGateway } from "../../model/gateway.js";
import { SqlAcpStore } from "../acp/writes.js";
import { countChanged, type SqlEngine, type Steps } from "../sql/engine.js";
import * as read from "./queries.js";
import { toGatewayColumns } from "./rows.js";
import type { GatewayFilter, GatewayStore } from "./store.js";

export class SqlGatewayStore extends SqlAcpStore implements GatewayStore {
  readonly #engine: SqlEngine;

  constructor(engine: SqlEngine, eventsKept: number) {
    super(engine, eventsKept);
    this.#engine = engine;
  }

  registerGateway(gateway: NewGateway): Promise<boolean> {
    return this.#engine.transact(() => this.#register(gateway));
  }

  async heartbeatGateway(instanceId: string): Promise<boolean> {
    const beat = this.#engine.db
      .updateTable("gateways")
      .set({ heartbeat_at: this.#engine.dialect.now() })
      .where("instance_id", "=", instanceId)
      .where("stopped_at", "is", null);
    return (await this.#engine.perform(() => countChanged(beat))) > 0;
  }

  async retireGateway(instanceId: string): Promise<void> {
    const retire = this.#engine.db
      .updateTable("gateways")
      // Its good-bye is the last that is heard of it. Nobody is to connect where nobody answers any more.
      .set({
        stopped_at: Date.now(),
        heartbeat_at: this.#engine.dialect.now(),
        address: null,
        peer_key: null,
      })
      .where("instance_id", "=", instanceId)
      .where("stopped_at", "is", null);
    await this.#engine.perform(() => countChanged(retire));
  }

  listGateways(filter?: GatewayFilter): Promise<readonly PublicGateway[]> {
    return read.listGateways(this.#engine.db, filter);
  }

  getGateway(instanceId: string): Promise<GatewayRecord | null> {
    return read.getGateway(this.#engine.db, instanceId);
  }

  async deleteGateway(instanceId: string, silentMs = 0): Promise<boolean> {
    const all = this.#engine.db.deleteFrom("gateways").where("instance_id", "=", instanceId);
    const forget = silentMs === 0 ? all : all.where(this.#silentFor(silentMs));
    return (await this.#engine.perform(() => countChanged(forget))) > 0;
  }

  deleteSilentGateways(silentMs: number): Promise<number> {
    return this.#engine.transact(() => this.#deleteSilent(silentMs));
  }

  async registerHost(host: HostInfo): Promise<void> {
    const known = await this.listHosts();
    const same = known.find(({ hostId }) => hostId === host.hostId);
    if (same?.name === host.name && same.platform === host.platform) return;
    await this.#engine.perform(() => countChanged(this.#upsertHost(host)));
  }

  listHosts(): Promise<readonly HostRecord[]> {
    return read.listHosts(this.#engine.db);
  }

  unwritableTables(): Promise<readonly string[]> {
    return this.#engine.unwritableTables();
  }

  countOpenRunsByOwner(): Promise<ReadonlyMap<string, number>> {
    return read.countOpenRunsByOwner(this.#engine.db);
  }

  *#register(gateway: NewGateway): Steps<boolean> {
    const { db, dialect } = this.#engine;
    const columns = toGatewayColumns(gateway, dialect.now());
    const announce = db
      .insertInto("gateways")
      .values(columns)
      .onConflict((conflict) => {
        const { instance_id: _, ...rest } = columns;
        const replace = conflict.column("instance_id").doUpdateSet(rest);
        // A file is used by one host at a time, and a former one's clock says nothing here.
        return dialect.shared ? replace.where(this.#replaceable(gateway)) : replace;
      });
    if ((yield* countChanged(announce)) === 0) return false;
    const { hostId, hostName, capabilities } = gateway;
    yield* countChanged(this.#upsertHost({ hostId, name: hostName, platform: capabilities.platform }));
    return true;
  }

  /** Where it was is told by host and directory, not by boot: what a restart of the host has ended is in nobody's way. */
  #replaceable({ hostId, directory }: NewGateway): RawBuilder<boolean> {
    const here = sql`(gateways.host_id = ${hostId} and gateways.directory = ${directory})`;
    return sql<boolean>`(${here} or ${this.#silentFor(defaults.leaseMs)})`;
  }

  /** It has said good-bye, or nothing for so long. */
  #silentFor(ms: number): RawBuilder<boolean> {
    const since = sql`${this.#engine.dialect.now()} - ${Math.ceil(ms)}`;
    return sql<boolean>`(gateways.stopped_at is not null or gateways.heartbeat_at <= ${since})`;
  }

  *#deleteSilent(silentMs: number): Steps<number> {
    const { db, dialect } = this.#engine;
    const before = Date.now() - silentMs;
    // Heartbeats in a file are on the clock of one boot.
    const silent = dialect.shared
      ? sql<boolean>`heartbeat_at < ${dialect.now()} - ${Math.ceil(silentMs)}`
      : sql<boolean>`stopped_at < ${before}`;
    const open = sql`select 1 from runs where runs.state <> 'exited' and (runs.state_id = gateways.state_id
      or runs.owner_instance_id = gateways.instance_id or runs.origin_instance_id = gateways.instance_id)`;
    const forgotten = yield* countChanged(
      db
        .deleteFrom("gateways")
        .where(silent)
        .where(sql<boolean>`not exists (${open})`),
    );
    const used = sql`select 1 from gateways where gateways.host_id = hosts.host_id
      union all select 1 from runs where runs.host_id = hosts.host_id`;
    yield* countChanged(
      db
        .deleteFrom("hosts")
        .where("last_seen_at", "<", before)
        .where(sql<boolean>`not exists (${used})`),
    );
    return forgotten;
  }

  #upsertHost({ hostId, name, platform }: HostInfo): Compilable {
    const now = Date.now();
    return this.#engine.db
      .insertInto("hosts")
      .values({ host_id: hostId, name, platform, first_seen_at: now, last_seen_at: now })
      .onConflict((conflict) =>
        conflict.column("host_id").doUpdateSet({ name, platform, last_seen_at: now }),
      );
  }
}
