import { type Compilable, type RawBuilder, sql } from "kysely";
import { defaults } from "../../defaults.js";
import type { HostInfo, NewGateway } from "../../model/gateway.js";
import type { EventLog } from "../runs/event-log.js";
import { gatewayTable, remoteStopTable } from "../schema.js";
import { countChanged, hasChanged, type SqlEngine, type Steps } from "../sql/engine.js";
import { isOpenStop } from "./queries.js";
import type { GatewayReads, GatewayWrites, RemoteStopWrites } from "./contract.js";

export function gatewayWrites(
  engine: SqlEngine,
  { listHosts }: Pick<GatewayReads, "listHosts">,
): GatewayWrites {
  const { db, dialect } = engine;
  const updateRunning = (instanceId: string) =>
    db.updateTable("gateways").where("instance_id", "=", instanceId).where("stopped_at", "is", null);
  return {
    registerGateway: (gateway) => engine.transact(() => registerGateway(engine, gateway)),
    heartbeatGateway: (instanceId) =>
      engine.perform(() => hasChanged(updateRunning(instanceId).set({ heartbeat_at: dialect.now() }))),
    async retireGateway(instanceId) {
      const retire = updateRunning(instanceId).set({
        stopped_at: Date.now(),
        heartbeat_at: dialect.now(),
        // Peers must not connect to a gateway that has stopped.
        address: null,
        peer_key: null,
      });
      await engine.perform(() => countChanged(retire));
    },
    deleteGateway(instanceId, silentMs = 0) {
      const all = db.deleteFrom("gateways").where("instance_id", "=", instanceId);
      return engine.perform(() => hasChanged(silentMs === 0 ? all : all.where(silentFor(engine, silentMs))));
    },
    deleteSilentGateways: (silentMs) => engine.transact(() => deleteSilent(engine, silentMs)),
    async registerHost(host) {
      const same = (await listHosts()).find(({ hostId }) => hostId === host.hostId);
      if (same?.name === host.name && same.platform === host.platform) return;
      await engine.perform(() => countChanged(upsertHost(engine, host)));
    },
    unwritableTables: () => engine.unwritableTables(),
  };
}

function* registerGateway(engine: SqlEngine, gateway: NewGateway): Steps<boolean> {
  const { db, dialect } = engine;
  const columns = {
    ...gatewayTable.toColumns({ ...gateway, stoppedAt: null }),
    heartbeat_at: dialect.now(),
  };
  const register = db
    .insertInto("gateways")
    .values(columns)
    .onConflict((conflict) => {
      const { instance_id: _, ...rest } = columns;
      const replace = conflict.column("instance_id").doUpdateSet(rest);
      // One host at a time uses a file, and the clock of an earlier host means nothing here.
      return dialect.shared ? replace.where(isReplaceable(engine, gateway)) : replace;
    });
  if (!(yield* hasChanged(register))) return false;
  const { hostId, hostName, capabilities } = gateway;
  yield* countChanged(upsertHost(engine, { hostId, name: hostName, platform: capabilities.platform }));
  return true;
}

/** The same host and directory, whatever the boot: a gateway of an earlier boot is gone. */
function isReplaceable(engine: SqlEngine, { hostId, directory }: NewGateway): RawBuilder<boolean> {
  const here = sql`(gateways.host_id = ${hostId} and gateways.directory = ${directory})`;
  return sql<boolean>`(${here} or ${silentFor(engine, defaults.leaseMs)})`;
}

/** The gateway has stopped, or sent no heartbeat for so long. */
function silentFor({ dialect }: SqlEngine, ms: number): RawBuilder<boolean> {
  const since = sql`${dialect.now()} - ${Math.ceil(ms)}`;
  return sql<boolean>`(gateways.stopped_at is not null or gateways.heartbeat_at <= ${since})`;
}

function* deleteSilent({ db, dialect }: SqlEngine, silentMs: number): Steps<number> {
  const before = Date.now() - silentMs;
  // Heartbeats in a file are on the clock of one boot.
  const silent = dialect.shared
    ? sql<boolean>`heartbeat_at < ${dialect.now()} - ${Math.ceil(silentMs)}`
    : sql<boolean>`stopped_at < ${before}`;
  const openRuns = sql`select 1 from runs where runs.state <> 'exited' and (runs.state_id = gateways.state_id
      or runs.owner_instance_id = gateways.instance_id or runs.origin_instance_id = gateways.instance_id)`;
  const deleted = yield* countChanged(
    db
      .deleteFrom("gateways")
      .where(silent)
      .where(sql<boolean>`not exists (${openRuns})`),
  );
  const used = sql`select 1 from gateways where gateways.host_id = hosts.host_id
      union all select 1 from runs where runs.host_id = hosts.host_id`;
  yield* countChanged(
    db
      .deleteFrom("hosts")
      .where("last_seen_at", "<", before)
      .where(sql<boolean>`not exists (${used})`),
  );
  return deleted;
}

function upsertHost({ db }: SqlEngine, { hostId, name, platform }: HostInfo): Compilable {
  const now = Date.now();
  return db
    .insertInto("hosts")
    .values({ host_id: hostId, name, platform, first_seen_at: now, last_seen_at: now })
    .onConflict((conflict) => conflict.column("host_id").doUpdateSet({ name, platform, last_seen_at: now }));
}

export function remoteStopWrites(engine: SqlEngine, events: EventLog): RemoteStopWrites {
  const { db, dialect } = engine;
  const update = (id: string) => db.updateTable("commands").where("id", "=", id).where(isOpenStop);
  return {
    async insertRemoteStop({ graceMs, ...stop }, news) {
      const row = {
        ...remoteStopTable.toColumns({
          ...stop,
          graceMs: graceMs === null ? null : Math.round(graceMs),
          acceptedAt: null,
          doneAt: null,
          outcome: null,
          survivors: [],
          error: null,
        }),
        created_at: dialect.now(),
      };
      const insert = db.insertInto("commands").values(row);
      const inserted = await events.write(news, () =>
        hasChanged(insert.onConflict((conflict) => conflict.column("id").doNothing())),
      );
      if (inserted) engine.notifyTarget(stop.target);
      return inserted;
    },
    async acceptRemoteStop(id) {
      const accept = update(id).set({ accepted_at: dialect.now() }).where("accepted_at", "is", null);
      await engine.perform(() => countChanged(accept));
    },
    finishRemoteStop(id, { outcome, survivors, error }, news) {
      const result = remoteStopTable.toColumns({ outcome, survivors, error });
      return events.write(news, () => hasChanged(update(id).set({ ...result, done_at: dialect.now() })));
    },
    deleteRemoteStops(olderThanMs) {
      const before = sql<number>`${dialect.now()} - ${Math.ceil(olderThanMs)}`;
      return engine.perform(() => countChanged(db.deleteFrom("commands").where("created_at", "<", before)));
    },
  };
}
