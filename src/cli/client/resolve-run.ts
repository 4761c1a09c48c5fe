import { setTimeout } from "node:timers/promises";
import type { RunAddress } from "../../anchor/host-interface.js";
import type { GatewayClient } from "../../api/client.js";
import { defaults } from "../../defaults.js";
import { BadInput, RunNotFound, StoreAway, StoreUnreadable } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import { openStoreForReading } from "../../store/open.js";
import { NAME_LABEL } from "../../model/enums.js";
import type { RunView } from "./read-runs.js";
import { type LocalState, isStoreShared } from "../../queries/local-state-directory.js";

/** `run_` may be left out of a run id. */
export function toRunIdPrefix(wanted: string): string {
  return wanted.startsWith("run_") ? wanted : `run_${wanted}`;
}

const FULL_RUN_ID = /^run_[0-9a-z]{12}$/;
/** Runs named in the error about an ambiguous prefix or name. */
const NAMED_RUNS = 5;
/** Candidates to read: one more shows that there are more. */
const CANDIDATES = NAMED_RUNS + 1;
/** Runs of one name to read, newest first: an open run is among the newest. */
const NAMESAKES = 100;

/** A place where runs are looked up. */
interface RunSource<Found> {
  /** Runs whose id begins with `prefix`, which includes `run_`. */
  readonly byPrefix: (prefix: string) => Promise<readonly Found[]>;
  /** Runs of that name, newest first. */
  readonly byName: (name: string) => Promise<readonly Found[]>;
  readonly isOpen: (run: Found) => boolean;
}

/**
 * Finds a run by its id, by its name, or by the beginning of its id, in this order. Of runs with one name the open one
 * is meant, or else the newest. Rejects an ambiguous name or prefix. Null: there is no such run.
 */
async function findRun<Found extends { readonly runId: string }>(
  wanted: string,
  { byPrefix, byName, isOpen }: RunSource<Found>,
): Promise<Found | null> {
  const prefix = toRunIdPrefix(wanted);
  const found = await byPrefix(prefix);
  const exact = found.find(({ runId }) => runId === prefix);
  if (exact !== undefined || FULL_RUN_ID.test(prefix)) return exact ?? null;
  const named = await byName(wanted);
  const open = named.filter(isOpen);
  if (open.length > 1) throw ambiguous(wanted, "the name of several open runs", open);
  if (named.length > 0) return open[0] ?? named[0] ?? null;
  if (found.length > 1) throw ambiguous(wanted, "the beginning of several run ids", found);
  return found[0] ?? null;
}

function ambiguous(wanted: string, what: string, runs: readonly { readonly runId: string }[]): BadInput {
  const ids = runs.map(({ runId }) => runId).toSorted();
  const more = ids.length > NAMED_RUNS ? ", …" : "";
  return new BadInput(
    "run",
    `${JSON.stringify(wanted)} is ${what}: ${ids.slice(0, NAMED_RUNS).join(", ")}${more}`,
  );
}

function isOpenRecord({ state }: Pick<RunRecord, "state">): boolean {
  return state !== "exited";
}

/** From a gateway: the runs that the requester may see. A whole id is not looked up. */
export async function resolveRunId(
  { client }: { readonly client: Pick<GatewayClient, "listRuns"> },
  wanted: string,
  signal?: AbortSignal,
): Promise<string> {
  if (FULL_RUN_ID.test(toRunIdPrefix(wanted))) return toRunIdPrefix(wanted);
  if (toRunIdPrefix(wanted) === "run_")
    throw new BadInput("run", "the run is missing: give its id, the beginning of its id, or its name");
  let storeAway: string | null = null;
  const list = async (label: { readonly label?: string }, limit: number): Promise<readonly RunRecord[]> => {
    const listed = await client.listRuns({ query: { all: "1", hidden: "1", ...label, limit } }, signal);
    // A gateway of an earlier version does not send storeAway.
    if (typeof listed.storeAway === "string") ({ storeAway } = listed);
    return listed.runs;
  };
  const found = await findRun<RunRecord>(wanted, {
    byPrefix: async (prefix) => (await list({}, 1_000)).filter(({ runId }) => runId.startsWith(prefix)),
    byName: (name) => list({ label: `${NAME_LABEL}=${name}` }, NAMESAKES),
    isOpen: isOpenRecord,
  });
  if (found !== null) return found.runId;
  if (storeAway !== null) throw new StoreUnreadable(wanted, new Error(storeAway));
  throw new RunNotFound(wanted);
}

/** From a store, or from the view of it that a session has. */
export async function resolveRunRecord(
  store: Pick<RunView, "findRuns" | "listRuns">,
  wanted: string,
): Promise<RunRecord> {
  if (wanted === "") throw new RunNotFound(wanted);
  const found = await findRun<RunRecord>(wanted, {
    byPrefix: (prefix) => store.findRuns(prefix, CANDIDATES),
    byName: (name) => store.listRuns({ labels: { [NAME_LABEL]: name }, limit: NAMESAKES }),
    isOpen: isOpenRecord,
  });
  if (found === null) throw new RunNotFound(wanted);
  return found;
}

/** A run by its directory, its record, or both: either may be missing. */
export interface FoundRun {
  readonly runId: string;
  readonly address: RunAddress | null;
  readonly record: RunRecord | null;
  /** Why the record could not be read; null: it was read, or there is none. */
  readonly unread: Error | null;
}

/**
 * From the run directories and the store of this state directory. Null: there is no such run. Rejects with
 * StoreUnreadable if the run has no directory here and the store cannot be read.
 */
export async function resolveRun(localState: LocalState, wanted: string): Promise<FoundRun | null> {
  if (wanted === "") return null;
  let unread: Error | null = null;
  /** Directories and records of the same runs, joined by id. */
  const find = async (
    isWanted: (address: RunAddress) => Promise<boolean>,
    read: (store: RunView) => Promise<readonly RunRecord[]>,
  ): Promise<readonly FoundRun[]> => {
    const addresses = await findDirectories(localState, isWanted);
    const here = addresses.some(({ runId }) => runId === toRunIdPrefix(wanted));
    const stored = unread === null ? await readRecords(localState, read, here) : { records: [], unread };
    unread = stored.unread;
    const ids = new Set([...stored.records, ...addresses].map(({ runId }) => runId));
    return [...ids].map((runId) => ({
      runId,
      address: addresses.find((each) => each.runId === runId) ?? null,
      record: stored.records.find((each) => each.runId === runId) ?? null,
      unread,
    }));
  };
  const found = await findRun<FoundRun>(wanted, {
    byPrefix: (prefix) =>
      find(
        async ({ runId }) => runId.startsWith(prefix),
        (store) => store.findRuns(prefix, CANDIDATES),
      ),
    byName: (name) =>
      find(
        // Names come from the records, unless these cannot be read.
        async (address) => unread !== null && (await nameOf(localState, address)) === name,
        (store) => store.listRuns({ labels: { [NAME_LABEL]: name }, limit: NAMESAKES }),
      ),
    isOpen: ({ record }) => record === null || isOpenRecord(record),
  });
  if (found === null && unread !== null) throw new StoreUnreadable(toRunIdPrefix(wanted), unread);
  if (found === null || found.address !== null) return found;
  // Found by the name in its record: its directory may be here all the same.
  const [address = null] = await findDirectories(localState, async ({ runId }) => runId === found.runId);
  return { ...found, address };
}

async function nameOf({ host }: LocalState, address: RunAddress): Promise<string | null> {
  const scope = await host.readScope(address).catch(() => null);
  return scope?.labels[NAME_LABEL] ?? null;
}

async function findDirectories(
  { host }: LocalState,
  isWanted: (address: RunAddress) => Promise<boolean>,
): Promise<RunAddress[]> {
  const found: RunAddress[] = [];
  for (const { instanceId } of await host.listInstances())
    // A directory of another user cannot be read; the other directories are used.
    for (const runId of await host.listRunIds(instanceId).catch(() => [])) {
      const address = { instanceId, runId };
      if (await isWanted(address)) found.push(address);
    }
  return found;
}

/** Reads records; a store that cannot be read is reported, not thrown: a run can be stopped without its record. */
async function readRecords(
  { directory }: LocalState,
  read: (store: RunView) => Promise<readonly RunRecord[]>,
  here: boolean,
): Promise<{ readonly records: readonly RunRecord[]; readonly unread: Error | null }> {
  const reading = (async () => {
    await using store = await openStoreForReading(directory.storePath);
    return { records: store === null ? [] : await read(store), unread: null };
  })().catch((error: unknown) => ({
    records: [],
    unread: error instanceof Error ? error : new Error(String(error)),
  }));
  if (!here || !(await isStoreShared())) return reading;
  // The run's directory is enough to stop it, so this does not wait for a server that does not answer.
  const late = setTimeout(defaults.localListMs, null, { ref: false });
  const done = await Promise.race([reading, late]);
  return done ?? { records: [], unread: new StoreAway(directory.home, "the store does not answer") };
}

/** Like `resolveRun`; rejects with RunNotFound. */
export async function requireRun(localState: LocalState | null, wanted: string): Promise<FoundRun> {
  const found = localState === null ? null : await resolveRun(localState, wanted);
  if (found === null) throw new RunNotFound(wanted);
  return found;
}
