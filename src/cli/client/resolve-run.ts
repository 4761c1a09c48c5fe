import { setTimeout } from "node:timers/promises";
import type { RunAddress } from "../../anchor/host.js";
import type { GatewayClient } from "../../api/client.js";
import { databaseUrl } from "../../config/database-url.js";
import { defaults } from "../../defaults.js";
import { BadInput, RunNotFound, StoreAway, StoreUnreadable } from "../../errors.js";
import { readStateId } from "../../home/persistent-id.js";
import type { RunRecord } from "../../model/run.js";
import { openStoreForReading } from "../../store/open.js";
import type { LocalState } from "./local-state.js";
import type { RunView } from "./session-run-view.js";

/** Whether other hosts keep their runs where this one does. */
export async function isStoreShared(): Promise<boolean> {
  return (await databaseUrl()) !== null;
}

/** On record, and of another state directory, here or on another host: only the gateway there can do anything about it. */
export async function isOwnedElsewhere(
  { directory, host }: LocalState,
  { address, record }: Pick<FoundRun, "address" | "record">,
): Promise<boolean> {
  if (address !== null || record === null || !(await isStoreShared())) return false;
  return isOfOtherState(record, await readStateId(directory.home), await localInstanceIds(host));
}

export async function localInstanceIds(host: LocalState["host"]): Promise<ReadonlySet<string>> {
  return new Set((await host.listInstances()).map(({ instanceId }) => instanceId));
}

export function isOfOtherState(
  { stateId, originInstanceId }: RunRecord,
  here: string | null,
  instances: ReadonlySet<string>,
): boolean {
  return stateId === null ? !instances.has(originInstanceId) : stateId !== here;
}

/** What the ids of the runs that a person may mean begin with: the `run_` in front may be left out. */
export function toRunIdPrefix(wanted: string): string {
  return wanted.startsWith("run_") ? wanted : `run_${wanted}`;
}

/** As many as are named when a beginning is not enough. */
const NAMED_RUNS = 5;

/** Enough to know whether there are more. */
export const RUN_CANDIDATES = NAMED_RUNS + 1;

/** Of those that begin so, the one that was meant: the whole id, or the only one. Null: there is none. */
export function pickRunId(wanted: string, ids: readonly string[]): string | null {
  if (ids.includes(toRunIdPrefix(wanted))) return toRunIdPrefix(wanted);
  if (ids.length < 2) return ids[0] ?? null;
  const named = ids.toSorted().slice(0, NAMED_RUNS).join(", ");
  const more = ids.length > NAMED_RUNS ? ", …" : "";
  throw new BadInput("run", `${JSON.stringify(wanted)} is the beginning of several runs: ${named}${more}`);
}

/** A run by its directory, its record, or both: either may be missing. */
export interface FoundRun {
  readonly runId: string;
  readonly address: RunAddress | null;
  readonly record: RunRecord | null;
  /** Why the record could not be read, when it could not. */
  readonly unread: Error | null;
}

/**
 * By id, or by a beginning that only one run has; the `run_` in front may be left out. Null: there is no such run.
 * Rejects with StoreUnreadable if the run is not found here and the store cannot be read.
 */
export async function resolveRun(localState: LocalState, wanted: string): Promise<FoundRun | null> {
  const prefix = toRunIdPrefix(wanted);
  const directories = wanted === "" ? [] : await findDirectories(localState, prefix);
  const here = directories.find(({ runId }) => runId === prefix) !== undefined;
  const { records, unread } =
    wanted === "" ? { records: [], unread: null } : await findRecords(localState, prefix, here);
  const ids = new Set([...directories, ...records].map((each) => each.runId));
  const runId = pickRunId(wanted, [...ids]);
  if (runId === null && unread !== null) throw new StoreUnreadable(prefix, unread);
  if (runId === null) return null;
  const record = records.find((each) => each.runId === runId) ?? null;
  const address = directories.find((each) => each.runId === runId) ?? null;
  return { runId, address, record, unread };
}

async function findDirectories({ host }: LocalState, prefix: string): Promise<RunAddress[]> {
  const found: RunAddress[] = [];
  for (const { instanceId } of await host.listInstances())
    // What cannot be read (another user's) is no reason not to stop the others.
    for (const runId of await host.listRunIds(instanceId).catch(() => []))
      if (runId.startsWith(prefix)) found.push({ instanceId, runId });
  return found;
}

/** A store that cannot be read is no reason not to stop a run. */
async function findRecords(
  { directory }: LocalState,
  prefix: string,
  here: boolean,
): Promise<{ readonly records: readonly RunRecord[]; readonly unread: Error | null }> {
  const reading = (async () => {
    await using store = await openStoreForReading(directory.storePath);
    return { records: (await store?.findRuns(prefix, RUN_CANDIDATES)) ?? [], unread: null };
  })().catch((error: unknown) => ({
    records: [],
    unread: error instanceof Error ? error : new Error(String(error)),
  }));
  if (!here || !(await isStoreShared())) return reading;
  // The run's directory is enough to stop it, so this does not wait for a server that does not answer.
  const late = setTimeout(defaults.localListMs, null, { ref: false });
  const read = await Promise.race([reading, late]);
  return read ?? { records: [], unread: new StoreAway(directory.home, "the store does not answer") };
}

/** The same, for a command that cannot do without it. */
export async function requireRun(localState: LocalState | null, wanted: string): Promise<FoundRun> {
  const found = localState === null ? null : await resolveRun(localState, wanted);
  if (found === null) throw new RunNotFound(wanted);
  return found;
}

/** By id, or by a beginning that only one run has. */
export async function resolveRunRecord(store: RunView, wanted: string): Promise<RunRecord> {
  const found = wanted === "" ? [] : await store.findRuns(toRunIdPrefix(wanted), RUN_CANDIDATES);
  const runId = pickRunId(
    wanted,
    found.map((record) => record.runId),
  );
  const record = found.find((each) => each.runId === runId);
  if (record === undefined) throw new RunNotFound(wanted);
  return record;
}

const FULL_RUN_ID = /^run_[0-9a-z]{12}$/;

/** A run by the beginning of its id, among those that may be seen. */
export async function resolveRunId(
  { client }: { readonly client: Pick<GatewayClient, "listRuns"> },
  wanted: string,
  signal?: AbortSignal,
): Promise<string> {
  const prefix = toRunIdPrefix(wanted);
  // What is whole is not looked for: the list holds only the newest.
  if (FULL_RUN_ID.test(prefix)) return prefix;
  if (prefix === "run_") throw new BadInput("run", "say which run: its id, or the beginning of it");
  const listed = await client.listRuns({ query: { all: "1", hidden: "1", limit: 1_000 } }, signal);
  const { runs, storeAway } = listed;
  const found = runs.map(({ runId }) => runId).filter((runId) => runId.startsWith(prefix));
  const picked = pickRunId(wanted, found);
  if (picked !== null) return picked;
  if (typeof storeAway === "string") throw new StoreUnreadable(wanted, new Error(storeAway));
  throw new RunNotFound(wanted);
}
