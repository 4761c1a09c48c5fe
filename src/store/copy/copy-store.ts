import { readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { databaseUrl } from "../../config/database-url.js";
import { defaults } from "../../defaults.js";
import { CopyRefused } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import { isInstanceLockFree } from "../../home/instance-lock.js";
import { machineFacts } from "../../home/machine-facts.js";
import { localCopyDirectory } from "../local-copy/run-copy.js";
import { type StoreLocation, storeLocationName } from "../location.js";
import { SCHEMA_VERSION, TABLES } from "../sql/migrations.js";
import {
  type ColumnValue,
  TableChecksum,
  type TableReader,
  type TableRow,
  type TableWriter,
} from "./table-io.js";

/** The instances below some state directories: descriptions of the live ones, and the ids of the dead ones. */
interface InstanceLiveness {
  readonly alive: readonly string[];
  readonly dead: ReadonlySet<string>;
}

async function findInstances(homes: readonly string[]): Promise<InstanceLiveness> {
  const alive: string[] = [];
  const dead = new Set<string>();
  for (const home of homes) {
    const path = join(home, "instances");
    for (const name of await readdir(path).catch(() => [])) {
      // A lock that cannot be read proves nothing.
      const free = await isInstanceLockFree(join(path, name)).catch(() => false);
      if (free) dead.add(name);
      else alive.push(`supervisor ${name} is at work in ${home}`);
    }
  }
  return { alive, dead };
}

/** The supervisors and gateways that write to a store, as far as the store itself shows. */
async function findActiveWriters(
  reader: TableReader,
  dead: ReadonlySet<string>,
  bootId: string | null,
): Promise<readonly string[]> {
  const now = await reader.now();
  // The clock of a SQLite store ends with the boot, so leases of another boot cannot be compared.
  const boot = bootId === null ? "" : ` and boot_id = '${bootId}'`;
  const leases = await reader.query(
    `select owner_instance_id as owner, host_id as host, max(lease_expires_at) as until, count(*) as runs
     from runs where state <> 'exited' and lease_expires_at > ${now}${boot} group by owner_instance_id, host_id`,
  );
  const held = leases
    .filter(({ owner }) => !dead.has(String(owner)))
    .map(({ owner, host, until, runs }) => {
      const seconds = Math.ceil((Number(until) - now) / 1_000);
      return `supervisor ${owner} of host ${host} holds ${runs} open runs, for ${seconds} s more at least`;
    });
  const beating = await reader.query(
    `select instance_id as gateway, host_name as host from gateways
     where stopped_at is null and heartbeat_at > ${now - defaults.leaseMs} and heartbeat_at <= ${now}${boot}`,
  );
  const alive = beating
    .filter(({ gateway }) => !dead.has(String(gateway)))
    .map(
      ({ gateway, host }) =>
        `gateway ${gateway} of host ${host} sent a heartbeat in the last ${defaults.leaseMs / 1_000} s`,
    );
  const connected = (await reader.connectedInstances()).filter((name) => !dead.has(name));
  return [...held, ...alive, ...connected.map((name) => `supervisor ${name} is connected`)];
}

export interface CopiedTable {
  readonly table: string;
  /** Counted and summed on both sides, and the same. */
  readonly rows: number;
  readonly checksum: string;
}

interface CopyOptions {
  readonly from: StoreLocation;
  readonly to: StoreLocation;
  /** A state directory whose supervisors must have stopped, in addition to those of the stores. */
  readonly home: string;
  readonly onProgress?: (table: string, rows: number) => void;
  /** Called if the records are copied but a later step failed. */
  readonly onIncomplete?: (what: string) => void;
}

/**
 * Copies all records of one store into another that has none. The source is read in one snapshot and never changed. The
 * target is written in one transaction, which is read back and compared before the commit, so an interrupted copy leaves
 * it empty.
 */
export async function copyStore(options: CopyOptions): Promise<readonly CopiedTable[]> {
  const { from, to, home, onProgress = () => {}, onIncomplete = () => {} } = options;
  await requireNoWriters(options);
  await using source = await openReader(from);
  if (source === null) throw new CopyRefused(`${storeLocationName(from)} has no records`);
  await requireKnownSchema(source, from);
  await using target = await openWriter(to);
  await requireKnownSchema(target, to);
  await requireEmpty(target, to);
  const since = (await target.now()) - (await source.now());
  const copied: CopiedTable[] = [];
  for (const table of TABLES)
    copied.push(await copyTable(source, target, table, since, (rows) => onProgress(table, rows)));
  await source.requireConsistentRead();
  // A writer may have started meanwhile; its records would not be in the copy.
  await requireNoWriters(options);
  await target.commit();
  await removeLocalCopy(to, home).catch((error: unknown) =>
    onIncomplete(
      `${localCopyDirectory(home)} could not be removed (${errorMessage(error)}); remove it before a gateway uses the copy`,
    ),
  );
  return copied;
}

/** The local copy belongs to the former store. A backup to another place keeps it. */
async function removeLocalCopy(to: StoreLocation, home: string): Promise<void> {
  if (to.kind === "sqlite" && dirname(to.path) !== home) return;
  const inUse = await databaseUrl();
  if (inUse !== null && storeLocationName({ kind: "postgres", url: inUse }) !== storeLocationName(to)) return;
  await rm(localCopyDirectory(home), { recursive: true, force: true });
}

async function copyTable(
  source: TableReader,
  target: TableWriter,
  table: string,
  since: number,
  progress: (rows: number) => void,
): Promise<CopiedTable> {
  const columns = await source.columns(table);
  const read = new TableChecksum(columns);
  const now = await target.now();
  for await (const batch of source.rows(table)) {
    const rows = batch.map((row) => toStorableRow(target, shiftClock(table, row, since, now)));
    read.add(rows);
    await target.insert(table, columns, rows);
    progress(read.rows);
  }
  const highest = await source.lastNumber(table);
  if (highest !== null) await target.setLastNumber(table, highest);
  const written = new TableChecksum(await target.columns(table));
  for await (const batch of target.rows(table)) written.add(batch);
  const { rows, checksum } = read;
  if (written.rows !== rows || written.checksum !== checksum)
    throw new CopyRefused(
      `the table ${table} was read back with ${written.rows} rows, checksum ${written.checksum}, and written with ${rows}, ${checksum}`,
    );
  return { table, rows, checksum };
}

function toStorableRow(target: TableWriter, row: TableRow): TableRow {
  return Object.fromEntries(Object.entries(row).map(([column, value]) => [column, target.toStorable(value)]));
}

/** By table: what is measured on the store's clock, which is another one there. */
const CLOCK_COLUMNS: Readonly<Record<string, readonly string[]>> = {
  runs: ["lease_expires_at"],
  gateways: ["heartbeat_at"],
  commands: ["created_at", "accepted_at", "done_at"],
  task_outbox: ["due_at", "lease_until"],
};

/**
 * Moves a time of the source's clock to the target's clock. No supervisor runs during a copy, so a lease that has not
 * expired ends now. Its owner can renew it, and it does not look abandoned for long.
 */
function shiftClock(table: string, row: TableRow, since: number, now: number): TableRow {
  const there = (at: ColumnValue): ColumnValue => (at === null ? null : Math.min(Number(at) + since, now));
  const columns = CLOCK_COLUMNS[table] ?? [];
  return { ...row, ...Object.fromEntries(columns.map((column) => [column, there(row[column] ?? null)])) };
}

/** Refuses a newer schema: columns and tables that this version does not know would not be copied. */
async function requireKnownSchema(store: TableReader, location: StoreLocation): Promise<void> {
  const [row] = await store.query("select max(id) as version from holdfast_migrations");
  const version = Number(row?.["version"] ?? 0);
  if (version > SCHEMA_VERSION)
    throw new CopyRefused(
      `${storeLocationName(location)} has schema ${version}, but this version knows only schema ${SCHEMA_VERSION} and would not copy everything. Copy with the newer version`,
    );
}

async function requireEmpty(target: TableWriter, to: StoreLocation): Promise<void> {
  for (const table of TABLES) {
    const [found] = await target.query(`select 1 from ${table} limit 1`);
    if (found !== undefined)
      throw new CopyRefused(
        `${storeLocationName(to)} already has records (in ${table}); copy to a store that has none`,
      );
  }
}

async function requireNoWriters({ from, to, home }: CopyOptions): Promise<void> {
  const beside = [from, to].flatMap((location) =>
    location.kind === "sqlite" ? [dirname(location.path)] : [],
  );
  const { alive, dead } = await findInstances([...new Set([home, ...beside])]);
  const writers = [...alive];
  for (const location of [from, to]) {
    await using reader = await openReader(location);
    if (reader === null) continue;
    writers.push(
      ...(await findActiveWriters(reader, dead, location.kind === "sqlite" ? await readBootId(home) : null)),
    );
  }
  if (writers.length > 0)
    throw new CopyRefused(
      `${writers.join("; ")}. Stop every gateway that uses either store first: holdfast gateway stop leaves its runs to their anchors`,
    );
}

async function openReader(location: StoreLocation): Promise<TableReader | null> {
  if (location.kind === "sqlite") return (await import("./sqlite.js")).openSqliteReader(location.path);
  return (await import("./postgres.js")).openPostgresReader(location.url);
}

async function openWriter(location: StoreLocation): Promise<TableWriter> {
  if (location.kind === "sqlite") return (await import("./sqlite.js")).openSqliteWriter(location.path);
  return (await import("./postgres.js")).openPostgresWriter(location.url);
}

/** Empty: it cannot be read, and equals no recorded one. */
function readBootId(home: string): Promise<string> {
  return machineFacts()
    .readBootId(home, false)
    .catch(() => "");
}
