import { defaults } from "../defaults.js";
import { RunNotFound } from "../errors.js";
import type { RunRecord } from "../store/run-record.js";
import type { CancelOptions, Stopped } from "./api.js";
import { cancel } from "./cancel.js";
import type { Context } from "./context.js";
import { newRequestId } from "./ids.js";
import type { LiveRun } from "./live-run.js";
import { liveMembers } from "./members.js";
import { addressOf } from "./reconcile/look.js";
import { stopDirectly } from "./stop-directly.js";

/**
 * Stop a run and see it through, whoever owns it: what is held here through its owner's connection, anything else by
 * the key in its directory. Answers what became of it within a bound, never that it was asked for.
 */
export async function stop(
  context: Context,
  runId: string,
  getRun: (runId: string) => Promise<RunRecord | null>,
  options: CancelOptions = {},
): Promise<Stopped> {
  const until = context.clock.now() + defaults.stopBoundMs;
  const live = context.live.get(runId);
  if (live !== undefined) {
    await cancel(live, options);
    return outcomeOf(live, until);
  }
  const { host, clock } = context;
  const record = await getRun(runId);
  if (record === null) throw new RunNotFound(runId);
  if (record.state === "exited") return { outcome: "ended-before", survivors: [] };
  const {
    reason = "manual-cancel",
    actor = context.actor,
    requestId = newRequestId(),
    graceMs = null,
  } = options;
  const target = { run: addressOf(record), record };
  const stopped = await stopDirectly({ host, clock }, target, { reason, actor, requestId, graceMs });
  const survivors = stopped.outcome === "survivors" ? stopped.survivors : [];
  return { outcome: stopped.outcome, survivors };
}

async function outcomeOf(live: LiveRun, until: number): Promise<Stopped> {
  const { clock } = live.context;
  const ended = live.ended.promise.then(
    // Ended on record with nobody able to say whether something is left.
    ({ emptiness }) => (emptiness === "proven" ? ("gone" as const) : ("unknown" as const)),
    // Somebody else owns it now, or this supervisor closes: nobody here can say.
    () => "unknown" as const,
  );
  for (;;) {
    const survivors = live.state.name === "exiting" ? live.state.survivors : [];
    if (survivors.length > 0) return { outcome: "survivors", survivors };
    if (live.state.name === "exited") return { outcome: await onRecord(live, ended), survivors: [] };
    if (clock.now() >= until) return stillThere(live);
    const over = await Promise.race([ended, clock.pause(LOOK_MS, ended).then(() => null)]);
    if (over !== null) return { outcome: over, survivors: [] };
  }
}

/** The time is up: lists the live processes, also those within their grace period. */
async function stillThere(live: LiveRun): Promise<Stopped> {
  const members = await liveMembers(live).catch(() => []);
  const survivors = members.map(({ identity: { pid, startTime }, command }) => ({
    pid,
    startTime,
    kind: "stopping",
    command,
  }));
  return { outcome: survivors.length > 0 ? "survivors" : "unknown", survivors };
}

/** It is gone. That a store which is away has not recorded it yet keeps nobody waiting. */
function onRecord<Over>({ context }: LiveRun, ended: Promise<Over>): Promise<Over | "gone"> {
  return Promise.race([
    ended,
    context.clock.pause(defaults.localAnswerMs, ended).then(() => "gone" as const),
  ]);
}

/** Survivors are said at most once in `killReportMs`. */
const LOOK_MS = 50;
