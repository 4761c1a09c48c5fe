import { defaults } from "../defaults.js";
import { RunNotFound } from "../errors.js";
import type { RunRecord } from "../store/run-record.js";
import type { CancelOptions, Stopped } from "./api.js";
import { cancel } from "./cancel.js";
import type { Context } from "./context.js";
import { newRequestId } from "./ids.js";
import type { LiveRun } from "./live-run.js";
import { addressOf } from "./reconcile/look.js";
import { stopRun } from "./stop-run.js";

/**
 * Stop a run and see it through, whoever owns it: what is held here through its owner's connection, anything else by
 * the key in its directory. Answers what became of it, never that it was asked for.
 */
export async function stop(context: Context, runId: string, options: CancelOptions = {}): Promise<Stopped> {
  const live = context.live.get(runId);
  if (live !== undefined) {
    await cancel(live, options);
    return outcomeOf(live);
  }
  const { store, host } = context;
  const record = await store.getRun(runId);
  if (record === null) throw new RunNotFound(runId);
  if (record.state === "exited") return { outcome: "ended-before", survivors: [] };
  const link = await host.attach(addressOf(record), 0);
  if (link === null) return unanswered(context, record);
  const {
    reason = "manual-cancel",
    actor = context.actor,
    requestId = newRequestId(),
    graceMs = null,
  } = options;
  const answer = await stopRun(link, { reason, actor, requestId, graceMs });
  if (answer.kind === "silent") return unanswered(context, record);
  if (answer.kind === "survivors") return { outcome: "survivors", survivors: answer.survivors };
  const { emptiness, residue } = answer.exit;
  // Given up on meanwhile: who is left was not stopped.
  return emptiness === "proven"
    ? { outcome: "gone", survivors: [] }
    : { outcome: "survivors", survivors: residue };
}

/** Nobody answers: it had ended, or its anchor is dead. */
async function unanswered({ host }: Context, record: RunRecord): Promise<Stopped> {
  const { exit } = await host.remains(addressOf(record));
  return { outcome: exit === null ? "unknown" : "ended-before", survivors: [] };
}

async function outcomeOf(live: LiveRun): Promise<Stopped> {
  const ended = live.ended.promise.then(
    () => "gone" as const,
    // Somebody else owns it now, or this supervisor closes: nobody here can say.
    () => "unknown" as const,
  );
  for (;;) {
    const survivors = live.state.name === "exiting" ? live.state.survivors : [];
    if (survivors.length > 0) return { outcome: "survivors", survivors };
    if (live.state.name === "exited") return { outcome: await onRecord(live, ended), survivors: [] };
    const over = await Promise.race([ended, live.context.clock.pause(LOOK_MS, ended).then(() => null)]);
    if (over !== null) return { outcome: over, survivors: [] };
  }
}

/** It is gone. That a store which is away has not recorded it yet keeps nobody waiting. */
function onRecord<Over>({ context }: LiveRun, ended: Promise<Over>): Promise<Over | "gone"> {
  return Promise.race([
    ended,
    context.clock.pause(defaults.storeAnswerMs, ended).then(() => "gone" as const),
  ]);
}

/** Survivors are said at most once in `killReportMs`. */
const LOOK_MS = 50;
