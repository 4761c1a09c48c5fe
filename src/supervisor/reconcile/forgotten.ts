import type { LocalInstance } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import type { Ledger } from "../../store/ledger/ledger.js";
import { atMost } from "../at-most.js";
import type { Context } from "../context.js";
import { knowsLess, tellAgain } from "../put-back.js";
import type { RunRecord } from "../../store/run-record.js";

/** Compared in one question. */
const PAGE = 100;

/**
 * A shared store can be put back to a backup under those who use it. Where it may have been, compare all that it was
 * told from this state directory with what it knows, and tell it again what it has forgotten: ends, and open runs of
 * this instance and of dead ones. Living owners see to theirs.
 */
export async function tellForgotten(
  context: Context,
  instances: ReadonlyMap<string, LocalInstance>,
): Promise<void> {
  const { ledger, store } = context;
  if (ledger === null) return;
  const { eras } = store;
  const doubted = context.doubted || eras !== context.comparedEra;
  if (!doubted && !(await hasForgotten(context, ledger, ledger.newest))) return;
  const runIds = await ledger.runIds().catch((cause: unknown) => {
    const message = "what the store was told from here cannot be read, so nothing is put back; trying again";
    context.report({ runId: null, message, cause });
    return null;
  });
  if (runIds === null) return;
  const isOver = overHere(context);
  for (let at = 0; at < runIds.length; at += PAGE) {
    const told = await toldOf(ledger, runIds.slice(at, at + PAGE));
    const known = await knownOf(context, told);
    const forgotten = told.filter((record) => knowsLess(known.get(record.runId) ?? null, record));
    // Ended by somebody who has no ledger here.
    for (const { runId, state } of told) {
      const now = known.get(runId);
      if (now?.state === "exited" && state !== "exited")
        await ledger.keep({ record: now, anchorEpoch: now.leaseEpoch });
    }
    for (const record of forgotten) {
      const mine = record.ownerInstanceId === context.instanceId;
      const ended = record.state === "exited";
      if (!mine && !ended && instances.get(record.ownerInstanceId)?.alive !== false) continue;
      // Whoever forgets an ended run on purpose takes it out of the ledger first.
      if (ended && (await ledger.get(record.runId)) === null) continue;
      if (!known.has(record.runId) && (await isOver(record))) await ledger.drop(record.runId);
      else await tellAgain(context, record, mine ? defaults.leaseMs : 0);
    }
  }
  context.doubted = false;
  context.comparedEra = eras;
}

/**
 * A directory goes after the end is on record, and before that is forgotten on purpose. Of a run that was taken from
 * here, or moved to another store and back, nobody may have told the ledger.
 */
function overHere({ host, live, beginning }: Context): (record: RunRecord) => Promise<boolean> {
  const directories = new Map<string, ReadonlySet<string>>();
  return async ({ runId, state, originInstanceId }) => {
    if (state === "exited" || live.has(runId) || beginning.has(runId)) return false;
    const known = directories.get(originInstanceId) ?? new Set(await host.runIds(originInstanceId));
    directories.set(originInstanceId, known);
    return !known.has(runId);
  };
}

/** One question, for tables that were put back under our hands: it knows the last thing, or forgot more than that. */
async function hasForgotten({ store }: Context, ledger: Ledger, newest: string | null): Promise<boolean> {
  const told = newest === null ? null : await ledger.get(newest);
  return told !== null && knowsLess(await store.getRun(told.record.runId), told.record);
}

async function toldOf(ledger: Ledger, runIds: readonly string[]): Promise<readonly RunRecord[]> {
  const found = await atMost(
    defaults.recoverAtOnce,
    runIds.map((runId) => () => ledger.get(runId)),
  );
  return found.flatMap((told) => told?.record ?? []);
}

async function knownOf({ store }: Context, told: readonly RunRecord[]): Promise<Map<string, RunRecord>> {
  const known = await store.listRuns({ runIds: told.map(({ runId }) => runId) });
  return new Map(known.map((record) => [record.runId, record] as const));
}
