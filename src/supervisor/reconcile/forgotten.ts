import type { LocalInstance } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import type { RunCopy } from "../../store/ledger/ledger.js";
import { runConcurrently } from "../at-most.js";
import type { SupervisorContext } from "../context.js";
import { isBehind, rewriteRecord } from "../lease/restore-record.js";
import type { RunRecord } from "../../model/run.js";

/** Compared in one question. */
const PAGE = 100;

/**
 * A shared store can be put back to a backup under those who use it. Where it may have been, compare all that it was
 * told from this state directory with what it knows, and tell it again what it has forgotten: ends, and open runs of
 * this instance and of dead ones. Living owners see to theirs.
 */
export async function restoreRolledBackRecords(
  context: SupervisorContext,
  instances: ReadonlyMap<string, LocalInstance>,
): Promise<void> {
  const { localCopy, store } = context;
  if (localCopy === null) return;
  const { generation } = store;
  const mayHaveRolledBack = context.storeMayHaveRolledBack || generation !== context.comparedGeneration;
  if (!mayHaveRolledBack && !(await isNewestBehind(context, localCopy, localCopy.newest))) return;
  const runIds = await localCopy.runIds().catch((cause: unknown) => {
    const message = "what the store was told from here cannot be read, so nothing is put back; trying again";
    context.report({ runId: null, message, cause });
    return null;
  });
  if (runIds === null) return;
  const isOver = endedHereCheck(context);
  for (let at = 0; at < runIds.length; at += PAGE) {
    const copied = await readLocalCopies(localCopy, runIds.slice(at, at + PAGE));
    const stored = await readStoredRecords(context, copied);
    const forgotten = copied.filter((record) => isBehind(stored.get(record.runId) ?? null, record));
    // Ended by somebody who has no ledger here.
    for (const { runId, state } of copied) {
      const now = stored.get(runId);
      if (now?.state === "exited" && state !== "exited")
        await localCopy.keep({ record: now, anchorEpoch: now.leaseEpoch });
    }
    for (const record of forgotten) {
      const mine = record.ownerInstanceId === context.instanceId;
      const ended = record.state === "exited";
      if (!mine && !ended && instances.get(record.ownerInstanceId)?.alive !== false) continue;
      // Whoever forgets an ended run on purpose takes it out of the ledger first.
      if (ended && (await localCopy.get(record.runId)) === null) continue;
      if (!stored.has(record.runId) && (await isOver(record))) await localCopy.delete(record.runId);
      else await rewriteRecord(context, record, mine ? defaults.leaseMs : 0);
    }
  }
  context.storeMayHaveRolledBack = false;
  context.comparedGeneration = generation;
}

/**
 * A directory goes after the end is on record, and before that is forgotten on purpose. Of a run that was taken from
 * here, or moved to another store and back, nobody may have told the ledger.
 */
function endedHereCheck({
  host,
  runs,
  inserting,
}: SupervisorContext): (record: RunRecord) => Promise<boolean> {
  const directories = new Map<string, ReadonlySet<string>>();
  return async ({ runId, state, originInstanceId }) => {
    if (state === "exited" || runs.has(runId) || inserting.has(runId)) return false;
    const known = directories.get(originInstanceId) ?? new Set(await host.listRunIds(originInstanceId));
    directories.set(originInstanceId, known);
    return !known.has(runId);
  };
}

/** One question, for tables that were put back under our hands: it knows the last thing, or forgot more than that. */
async function isNewestBehind(
  { store }: SupervisorContext,
  localCopy: RunCopy,
  newest: string | null,
): Promise<boolean> {
  const copied = newest === null ? null : await localCopy.get(newest);
  return copied !== null && isBehind(await store.getRun(copied.record.runId), copied.record);
}

async function readLocalCopies(localCopy: RunCopy, runIds: readonly string[]): Promise<readonly RunRecord[]> {
  const found = await runConcurrently(
    defaults.recoverAtOnce,
    runIds.map((runId) => () => localCopy.get(runId)),
  );
  return found.flatMap((copied) => copied?.record ?? []);
}

async function readStoredRecords(
  { store }: SupervisorContext,
  copied: readonly RunRecord[],
): Promise<Map<string, RunRecord>> {
  const stored = await store.listRuns({ runIds: copied.map(({ runId }) => runId) });
  return new Map(stored.map((record) => [record.runId, record] as const));
}
