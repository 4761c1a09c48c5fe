import { readFile, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { CopyRefused } from "../../errors.js";
import { databaseAddress } from "../database-address.js";
import { ledgerIn } from "../ledger/file-ledger.js";
import { newest, tables } from "../sql/migrations.js";
import { neighboursIn, writersOf } from "./occupants.js";
import { nameOf, type Place } from "../place.js";
import type { Reader, Row, Value, Writer } from "./side.js";
import { TableSum } from "./table-sum.js";

export interface CopiedTable {
  readonly table: string;
  /** Counted and summed on both sides, and the same. */
  readonly rows: number;
  readonly checksum: string;
}

export interface CopyOptions {
  readonly from: Place;
  readonly to: Place;
  /** A state directory whose supervisors must have stopped, beside those of the stores. */
  readonly home: string;
  readonly onProgress?: (table: string, rows: number) => void;
  /** The records are copied; what was to be done afterwards was not. */
  readonly onLeft?: (what: string) => void;
}

/**
 * Put all records of one store into another that has none. The source is read at one moment and never changed; the
 * target gets everything in one transaction, after it has been read back and compared: whatever interrupts this, it has
 * nothing.
 */
export async function copyStore(options: CopyOptions): Promise<readonly CopiedTable[]> {
  const { from, to, home, onProgress = () => {}, onLeft = () => {} } = options;
  await requireNobody(options);
  await using source = await openReader(from);
  if (source === null) throw new CopyRefused(`${nameOf(from)} has no records`);
  await requireKnownSchema(source, from);
  await using target = await openWriter(to);
  await requireKnownSchema(target, to);
  await requireEmpty(target, to);
  const since = (await target.now()) - (await source.now());
  const copied: CopiedTable[] = [];
  for (const table of tables)
    copied.push(await copyTable(source, target, table, since, (rows) => onProgress(table, rows)));
  await source.wasOneMoment();
  // Somebody may have come meanwhile, and what it wrote would be left behind.
  await requireNobody(options);
  await target.commit();
  await dropLedger(to, home).catch((error: unknown) =>
    onLeft(
      `${ledgerIn(home)} could not be removed (${error instanceof Error ? error.message : String(error)}); remove it before a gateway uses the copy`,
    ),
  );
  return copied;
}

/** What another store was told before is not for this one. A backup leaves it to the database in use. */
async function dropLedger(to: Place, home: string): Promise<void> {
  if (to.kind === "sqlite" && dirname(to.path) !== home) return;
  const inUse = await databaseAddress();
  if (inUse !== null && nameOf({ kind: "postgres", url: inUse }) !== nameOf(to)) return;
  await rm(ledgerIn(home), { recursive: true, force: true });
}

async function copyTable(
  source: Reader,
  target: Writer,
  table: string,
  since: number,
  progress: (rows: number) => void,
): Promise<CopiedTable> {
  const columns = await source.columns(table);
  const read = new TableSum(columns);
  const now = await target.now();
  for await (const portion of source.rows(table)) {
    const rows = portion.map((row) => fit(target, onClock(table, row, since, now)));
    read.add(rows);
    await target.insert(table, columns, rows);
    progress(read.rows);
  }
  const highest = await source.highest(table);
  if (highest !== null) await target.startAfter(table, highest);
  const written = new TableSum(await target.columns(table));
  for await (const portion of target.rows(table)) written.add(portion);
  const { rows, checksum } = read;
  if (written.rows !== rows || written.checksum !== checksum)
    throw new CopyRefused(
      `the table ${table} was read back with ${written.rows} rows, checksum ${written.checksum}, and written with ${rows}, ${checksum}`,
    );
  return { table, rows, checksum };
}

function fit(target: Writer, row: Row): Row {
  return Object.fromEntries(Object.entries(row).map(([column, value]) => [column, target.fit(value)]));
}

/** By table: what is measured on the store's clock, which is another one there. */
const CLOCKED: Readonly<Record<string, readonly string[]>> = {
  runs: ["lease_expires_at"],
  gateways: ["heartbeat_at"],
  commands: ["created_at", "accepted_at", "done_at"],
  task_outbox: ["due_at", "lease_until"],
};

/**
 * As long ago as it was. Nobody is at work, so a lease that would be good for a while is good for nothing: it ends now.
 * Its owner may renew it, and nobody takes it for one that was abandoned long since.
 */
function onClock(table: string, row: Row, since: number, now: number): Row {
  const there = (at: Value): Value => (at === null ? null : Math.min(Number(at) + since, now));
  const columns = CLOCKED[table] ?? [];
  return { ...row, ...Object.fromEntries(columns.map((column) => [column, there(row[column] ?? null)])) };
}

/** Refuses a newer schema: columns and tables that this version does not know would not be copied. */
async function requireKnownSchema(store: Reader, place: Place): Promise<void> {
  const [row] = await store.ask("select max(id) as version from holdfast_migrations");
  const version = Number(row?.["version"] ?? 0);
  if (version > newest)
    throw new CopyRefused(
      `${nameOf(place)} has schema ${version}, but this version knows only schema ${newest} and would not copy everything. Copy with the newer version`,
    );
}

async function requireEmpty(target: Writer, to: Place): Promise<void> {
  for (const table of tables) {
    const [found] = await target.ask(`select 1 from ${table} limit 1`);
    if (found !== undefined)
      throw new CopyRefused(`${nameOf(to)} already has records (in ${table}); copy to a store that has none`);
  }
}

async function requireNobody({ from, to, home }: CopyOptions): Promise<void> {
  const beside = [from, to].flatMap((place) => (place.kind === "sqlite" ? [dirname(place.path)] : []));
  const { alive, dead } = await neighboursIn([...new Set([home, ...beside])]);
  const writers = [...alive];
  for (const place of [from, to]) {
    await using reader = await openReader(place);
    if (reader === null) continue;
    writers.push(...(await writersOf(reader, dead, place.kind === "sqlite" ? await bootId() : null)));
  }
  if (writers.length > 0)
    throw new CopyRefused(
      `${writers.join("; ")}. Stop every gateway that uses either store first: holdfast gateway stop leaves its runs to their anchors`,
    );
}

async function openReader(place: Place): Promise<Reader | null> {
  if (place.kind === "sqlite") return (await import("./sqlite-side.js")).openSqliteReader(place.path);
  return (await import("./postgres-side.js")).openPostgresReader(place.url);
}

async function openWriter(place: Place): Promise<Writer> {
  if (place.kind === "sqlite") return (await import("./sqlite-side.js")).openSqliteWriter(place.path);
  return (await import("./postgres-side.js")).openPostgresWriter(place.url);
}

async function bootId(): Promise<string> {
  return (await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => "")).trim();
}
