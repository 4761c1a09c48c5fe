import type { LocalInstance } from "../../anchor/host-interface.js";
import { runConcurrently } from "../../async/concurrency.js";
import { defaults } from "../../defaults.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import type { RunCopy } from "../../store/local-copy/run-copy.js";
import { runStateRank } from "../../store/runs/apply-change.js";
import type { SupervisorContext } from "../run/live-run.js";

const ROLLED_BACK = "the store was restored from an older backup; this run's record was rewritten";

/**
 * True if the stored record is older than the local copy, because the store was rolled back. A later epoch means that
 * the run was taken over, and an end is final: neither is behind.
 */
function isBehind(stored: RunRecord | null, copied: RunRecord): boolean {
  if (stored === null) return true;
  if (stored.state === "exited" || stored.leaseEpoch > copied.leaseEpoch) return false;
  if (stored.leaseEpoch < copied.leaseEpoch || runStateRank(stored) < runStateRank(copied)) return true;
  return countFacts(stored) < countFacts(copied);
}

/** Counts the facts that are recorded once and never removed. */
function countFacts({ root, startedAt, service, hiddenAt }: RunRecord): number {
  return [root, startedAt, service, service?.readyAt ?? null, hiddenAt].filter((fact) => fact !== null)
    .length;
}

/** Restores the record of an own run if the store lost it or is behind. False: it is not behind. */
export async function restoreIfRolledBack(context: SupervisorContext, runId: string): Promise<boolean> {
  const { store, localCopy, instanceId } = context;
  // Read the local copy first: a write in between must not look like a roll-back.
  const record = (await localCopy?.get(runId))?.record ?? null;
  if (record === null || record.ownerInstanceId !== instanceId) return false;
  if (!isBehind(await store.getRun(runId), record)) return false;
  return rewriteRecord(context, record, defaults.leaseMs);
}

/** False: another supervisor restored it first. */
async function rewriteRecord(
  context: SupervisorContext,
  record: RunRecord,
  leaseMs: number,
): Promise<boolean> {
  if (!(await context.store.restoreRun(record, leaseMs, restoreEvents(context, record)))) return false;
  const { runId } = record;
  context.report({ runId, message: `run ${runId}: ${ROLLED_BACK}`, cause: null });
  // Other records may be behind, too.
  context.storeMayHaveRolledBack = true;
  return true;
}

/** The restored record and, for an ended run, its exit event, which the store lost. */
function restoreEvents({ clock, instanceId }: SupervisorContext, record: RunRecord): readonly NewRunEvent[] {
  const { runId, root, exit, emptiness, ownerInstanceId, leaseEpoch } = record;
  const facts = { runId, rootPid: root?.pid ?? null, descendants: 0 };
  const restored: NewRunEvent = {
    ...facts,
    at: clock.wall(),
    type: "reconcile",
    data: {
      row: "forgotten",
      action: "restore",
      why: ROLLED_BACK,
      by: instanceId,
      from: ownerInstanceId,
      epoch: leaseEpoch,
    },
  };
  if (exit === null || emptiness === null) return [restored];
  const { reason, actor, code, signal } = exit;
  const at = record.endedAt ?? clock.wall();
  return [restored, { ...facts, at, type: "exit", data: { reason, actor, code, signal, emptiness } }];
}

/** Records per query. */
const PAGE = 100;

/**
 * Compares the store with the local copy when the store may have been rolled back, and restores the records that are
 * behind: ends, and open runs of this instance and of dead ones. Live owners restore their own.
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
    const message = "the local copy cannot be read, so no record is restored; trying again";
    context.report({ runId: null, message, cause });
    return null;
  });
  if (runIds === null) return;
  const isOver = endedHereCheck(context);
  for (let at = 0; at < runIds.length; at += PAGE) {
    const copied = await readLocalCopies(localCopy, runIds.slice(at, at + PAGE));
    const stored = await readStoredRecords(context, copied);
    const behind = copied.filter((record) => isBehind(stored.get(record.runId) ?? null, record));
    // Ended by a supervisor that does not write this local copy.
    for (const { runId, state } of copied) {
      const now = stored.get(runId);
      if (now?.state === "exited" && state !== "exited")
        await localCopy.keep({ record: now, anchorEpoch: now.leaseEpoch });
    }
    for (const record of behind) {
      const mine = record.ownerInstanceId === context.instanceId;
      const ended = record.state === "exited";
      if (!mine && !ended && instances.get(record.ownerInstanceId)?.alive !== false) continue;
      // Retention deletes the local copy of an ended run before its record.
      if (ended && (await localCopy.get(record.runId)) === null) continue;
      if (!stored.has(record.runId) && (await isOver(record))) await localCopy.delete(record.runId);
      else await rewriteRecord(context, record, mine ? defaults.leaseMs : 0);
    }
  }
  context.storeMayHaveRolledBack = false;
  context.comparedGeneration = generation;
}

/**
 * A run's directory is removed after its end is recorded, so a missing directory proves the end. The local copy may not
 * have that end if the run was taken over, or moved to another store and back.
 */
function endedHereCheck({
  host,
  runs,
  inserting,
}: SupervisorContext): (record: RunRecord) => Promise<boolean> {
  const directories = new Map<string, ReadonlySet<string>>();
  // First those of anchors that have not read START, which may do so meanwhile.
  const listDirectories = async (instanceId: string): Promise<readonly string[]> => [
    ...(await host.listWarmRunIds(instanceId)),
    ...(await host.listRunIds(instanceId)),
  ];
  return async ({ runId, state, originInstanceId }) => {
    if (state === "exited" || runs.has(runId) || inserting.has(runId)) return false;
    const known = directories.get(originInstanceId) ?? new Set(await listDirectories(originInstanceId));
    directories.set(originInstanceId, known);
    return !known.has(runId);
  };
}

/** One query that detects a roll-back without a new generation: the newest copied record is missing or behind. */
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
