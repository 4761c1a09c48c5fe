import type { LocalInstance } from "../../anchor/host.js";
import { runConcurrently } from "../../async/semaphore.js";
import { defaults } from "../../defaults.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import type { RunCopy } from "../../store/local-copy/run-copy.js";
import { runStateRank } from "../../store/runs/apply-change.js";
import type { SupervisorContext } from "../run/live-run.js";

const ROLLED_BACK = "the store has gone back in time, and was told again";

/**
 * The store knows less of a run than it was told: it was put back to a backup. A record of a later epoch is no such
 * thing, whoever owns it: somebody has taken the run over. Nor is an end: that is never taken back.
 */
export function isBehind(stored: RunRecord | null, copied: RunRecord): boolean {
  if (stored === null) return true;
  if (stored.state === "exited" || stored.leaseEpoch > copied.leaseEpoch) return false;
  if (stored.leaseEpoch < copied.leaseEpoch || runStateRank(stored) < runStateRank(copied)) return true;
  return countFacts(stored) < countFacts(copied);
}

/** Of those that come once and stay. */
function countFacts({ root, startedAt, service, hiddenAt }: RunRecord): number {
  return [root, startedAt, service, service?.readyAt ?? null, hiddenAt].filter((fact) => fact !== null)
    .length;
}

/** Tell the store again of a run of ours that it has forgotten, all or in part. False: it has not. */
export async function restoreIfRolledBack(context: SupervisorContext, runId: string): Promise<boolean> {
  const { store, localCopy, instanceId } = context;
  // The ledger first: what the store learns meanwhile is no sign that it has forgotten.
  const record = (await localCopy?.get(runId))?.record ?? null;
  if (record === null || record.ownerInstanceId !== instanceId) return false;
  if (!isBehind(await store.getRun(runId), record)) return false;
  return rewriteRecord(context, record, defaults.leaseMs);
}

/** False: somebody was faster. */
export async function rewriteRecord(
  context: SupervisorContext,
  record: RunRecord,
  leaseMs: number,
): Promise<boolean> {
  if (!(await context.store.restoreRun(record, leaseMs, restoreEvents(context, record)))) return false;
  const { runId } = record;
  context.report({ runId, message: `run ${runId}: ${ROLLED_BACK}`, cause: null });
  // One is never alone.
  context.storeMayHaveRolledBack = true;
  return true;
}

/** Its end was told once, in events that are gone. */
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
