import { existsSync } from "node:fs";
import { cp, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { homedir, tmpdir, uptime } from "node:os";
import { join, resolve } from "node:path";
import { findAnchorBinary } from "../../../anchor/binary.js";
import { inspectProcesses } from "../../../anchor/inspect/processes.js";
import { NotFound } from "../../../errors.js";
import { errnoCode, errorMessage } from "../../../home/errno.js";
import { isInitialPidNamespace } from "../../../home/machine-identity.js";
import { displayCommand } from "../../../text/redact.js";
import { sanitizeLine } from "../../../text/sanitize.js";
import { assertOperator } from "../../client/connect.js";
import { notice } from "../../print/errors-and-notices.js";
import { print, toJson } from "../../print/write-output.js";
import {
  type ForeignRecord,
  type ForeignTool,
  leasesOfFile,
  parseAcpxLock,
  parseAcpxSession,
  parseOpenclawLease,
  type Unreadable,
} from "./foreign-records.js";
import { recordEntries } from "./import-runs.js";
import { type ForeignVerdict, verifyRecord } from "./verify-record.js";

export interface ImportFromFlags {
  readonly dryRun?: true;
  readonly ownerGone?: true;
  readonly json?: true;
}

/** Imports processes from the records of another tool, which are only read. What is not proven is left alone. */
export async function importFrom(
  tool: ForeignTool,
  directory: string | undefined,
  { dryRun, ownerGone, json }: ImportFromFlags,
): Promise<number> {
  assertOperator("import processes");
  const from = resolve(directory ?? defaultDirectory(tool));
  const found = tool === "acpx" ? await readAcpx(from) : await readOpenclaw(from);
  const verdicts = await verifyAll(found.records, ownerGone === true);
  const ids =
    dryRun === true ? new Map<number, string>() : await recordVerified(tool, found.records, verdicts);
  const results = found.records.map(({ pid, sessionKey }, at) => {
    const verdict = verdicts[at];
    const runId = ids.get(at) ?? null;
    if (verdict?.verified === true) return { runId, pid, sessionKey, ...verifiedText(verdict) };
    return { runId, pid, sessionKey, command: null, verified: false, why: leftAlone(verdict) };
  });
  if (json === true) print(toJson(results, 2));
  else
    for (const { runId, pid, sessionKey, verified, why } of results)
      print(
        `${runId ?? "-"}  ${pid}  ${verified ? "verified" : "not verified"}: ${sanitizeLine(why)}  ${sanitizeLine(sessionKey)}\n`,
      );
  for (const each of found.unreadable) notice(`not used: ${each}`, "yellow");
  if (results.length === 0 && json !== true) notice(`${from} records no process of ${tool}`, "dim");
  return 0;
}

function verifiedText({ argv }: Extract<ForeignVerdict, { verified: true }>) {
  const why =
    "process, start time and command match, and its owner is gone; a gateway or `runs cleanup` will end it";
  return { command: displayCommand(argv), verified: true, why };
}

function leftAlone(verdict: ForeignVerdict | undefined): string {
  return `${verdict?.verified === false ? verdict.why : "it cannot be inspected"}; it is left alone`;
}

function defaultDirectory(tool: ForeignTool): string {
  if (tool === "acpx") return join(homedir(), ".acpx");
  const given = process.env["OPENCLAW_STATE_DIR"]?.trim() ?? "";
  if (given !== "") return given.replace(/^~(?=\/|$)/, homedir());
  const [current, former] = [join(homedir(), ".openclaw"), join(homedir(), ".clawdbot")];
  // As openclaw does: the directory of its former name is used until the current one exists.
  return existsSync(former) && !existsSync(current) ? former : current;
}

interface FoundRecords {
  readonly records: readonly ForeignRecord[];
  /** Files that could not be used, and why. */
  readonly unreadable: readonly string[];
}

class RecordReader {
  readonly records: ForeignRecord[] = [];
  readonly unreadable: string[] = [];

  add(file: string, record: ForeignRecord | Unreadable | null): void {
    if (record === null) return;
    if ("unreadable" in record) this.unreadable.push(`${file}: ${record.unreadable}`);
    else if (!this.records.some(({ pid, startedAt }) => pid === record.pid && startedAt === record.startedAt))
      this.records.push(record);
  }

  /** Undefined: the file does not exist, or is reported as unreadable. */
  async json(file: string): Promise<unknown> {
    const text = await readFile(file, "utf8").catch((error: unknown) => {
      if (errnoCode(error) !== "ENOENT") this.unreadable.push(`${file}: ${errorMessage(error)}`);
      return null;
    });
    if (text === null) return undefined;
    try {
      return JSON.parse(text) as unknown;
    } catch (error) {
      this.unreadable.push(`${file}: ${(error as Error).message}`);
      return undefined;
    }
  }

  async sessions(directory: string, owners: ReadonlyMap<string, number>): Promise<void> {
    for (const file of await filesOf(directory, ".json")) {
      // The index lists the other files.
      const raw = file.endsWith("/index.json") ? undefined : await this.json(file);
      if (raw !== undefined) this.add(file, parseAcpxSession(raw, owners));
    }
  }
}

async function readAcpx(directory: string): Promise<FoundRecords> {
  await requireDirectory(directory);
  const reader = new RecordReader();
  const owners = new Map<string, number>();
  for (const file of await filesOf(join(directory, "queues"), ".lock")) {
    const lock = parseAcpxLock(await reader.json(file));
    if (lock !== null) owners.set(lock.sessionId, lock.pid);
  }
  await reader.sessions(join(directory, "sessions"), owners);
  return reader;
}

/** Leases of the database, of the file of earlier versions, and sessions, whose agents may have no lease. */
async function readOpenclaw(directory: string): Promise<FoundRecords> {
  await requireDirectory(directory);
  const reader = new RecordReader();
  for (const name of ["state/openclaw.sqlite", "plugin-state/state.sqlite"]) {
    const file = join(directory, name);
    for (const lease of await leasesOfDatabase(file, reader.unreadable))
      reader.add(file, parseOpenclawLease(lease));
  }
  for (const base of [directory, join(directory, "acpx")]) {
    const file = join(base, "process-leases.json");
    const raw = await reader.json(file);
    const leases = raw === undefined ? [] : leasesOfFile(raw);
    if ("unreadable" in leases) reader.add(file, leases);
    else for (const lease of leases) reader.add(file, parseOpenclawLease(lease));
  }
  await reader.sessions(join(directory, "workspace", "state", "sessions"), new Map());
  return reader;
}

/** Reads a copy: to open a database in WAL mode, even for reading, changes files beside it. */
async function leasesOfDatabase(file: string, unreadable: string[]): Promise<readonly unknown[]> {
  const copy = await mkdtemp(join(tmpdir(), "hf-import-"));
  try {
    const path = join(copy, "state.sqlite");
    const missing = await cp(file, path).then(
      () => false,
      (error: unknown) => {
        if (errnoCode(error) !== "ENOENT") unreadable.push(`${file}: ${errorMessage(error)}`);
        return true;
      },
    );
    if (missing) return [];
    await cp(`${file}-wal`, `${path}-wal`).catch(() => undefined);
    const { DatabaseSync } = await import("@photostructure/sqlite");
    const db = new DatabaseSync(path);
    try {
      const rows = db
        .prepare(
          "select value_json from plugin_state_entries where plugin_id = 'acpx' and namespace = 'process-leases'",
        )
        .all() as { readonly value_json: string }[];
      return rows.map(({ value_json }) => JSON.parse(value_json) as unknown);
    } finally {
      db.close();
    }
  } catch (error) {
    unreadable.push(`${file}: ${(error as Error).message}`);
    return [];
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

async function requireDirectory(directory: string): Promise<void> {
  await readdir(directory).catch((error: unknown) => {
    throw new NotFound(`directory ${directory} that can be read (${errnoCode(error)}); nothing was imported`);
  });
}

async function filesOf(directory: string, ending: string): Promise<readonly string[]> {
  const names = await readdir(directory).catch(() => []);
  return names
    .filter((name) => name.endsWith(ending))
    .toSorted()
    .map((name) => join(directory, name));
}

/** Linux shows start times in ticks of a hundredth of a second. */
const TICKS_PER_SECOND = 100;

async function verifyAll(
  records: readonly ForeignRecord[],
  ownerGone: boolean,
): Promise<readonly ForeignVerdict[]> {
  const wholeMachine = await isInitialPidNamespace();
  const anchor = findAnchorBinary();
  const inspect = async (pids: readonly number[]) =>
    pids.length === 0 ? [] : inspectProcesses(anchor, pids);
  const live = await inspect(records.map(({ pid }) => pid));
  const owners = await inspect(records.map(({ ownerPid, pid }) => ownerPid ?? pid));
  const bootedAt = Date.now() - uptime() * 1_000;
  return records.map((record, at) =>
    verifyRecord(record, {
      live: live[at] ?? null,
      owner: record.ownerPid === null ? null : (owners[at] ?? null),
      bootedAt,
      ticksPerSecond: TICKS_PER_SECOND,
      uid: process.getuid?.() ?? -1,
      wholeMachine,
      ownerGone,
    }),
  );
}

/** For `splitShellWords`, which has the same word afterwards. */
function quoteWord(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

/** Run ids by the index of the record. */
async function recordVerified(
  tool: ForeignTool,
  records: readonly ForeignRecord[],
  verdicts: readonly ForeignVerdict[],
): Promise<ReadonlyMap<number, string>> {
  const proven = verdicts.flatMap((verdict, at) => (verdict.verified ? [{ ...verdict, at }] : []));
  if (proven.length === 0) return new Map();
  const entries = proven.map(({ facts, argv, at }) => ({
    pid: facts.pid,
    command: argv.map(quoteWord).join(" "),
    wrapperRoot: facts.wrapperRoot,
    startTime: facts.startTime,
    sessionKey: records[at]?.sessionKey ?? null,
    labels: { from: tool },
  }));
  const ids = await recordEntries(entries);
  return new Map(proven.map(({ at }, index) => [at, ids[index] ?? ""]));
}
