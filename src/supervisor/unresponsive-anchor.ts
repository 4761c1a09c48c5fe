import type { AnchorHost, RunAddress } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import type { NewRunEvent } from "../store/run-event.js";
import { noteStop, noteSurvivors } from "./cancel.js";
import { concludeExit } from "./conclude.js";
import { lostFinale } from "./finale.js";
import { finalize } from "./finalize.js";
import { eventFacts, isOver, type EventFacts, type LiveRun } from "./live-run.js";
import { step } from "./run-state.js";
import { endWithoutAnchor, silentAnchor, whatWasEnded } from "./stop-directly.js";

/**
 * Handles an anchor that does not answer. The silence is recorded as an event, and the anchor is sent SIGCONT.
 * When a stop was requested and the anchor still does not answer, the run is ended without it.
 */
export async function handleUnresponsive(live: LiveRun): Promise<void> {
  const { liveness, context } = live;
  if (liveness.busy || isOver(live)) return;
  liveness.busy = true;
  try {
    const now = context.clock.now();
    const { continuedAt, stopAt } = liveness;
    const again = continuedAt !== null && stopAt !== null && stopAt > continuedAt;
    if (continuedAt === null || again) {
      if (stopAt !== null) liveness.silences++;
      await continueAndRecord(live, continuedAt ?? now);
      // An anchor that is stopped again and again would never end its run.
      if (liveness.silences <= MAX_SILENCES_AFTER_STOP) return;
    } else if (stopAt === null) {
      if (now - continuedAt >= CONTINUE_AGAIN_MS) await continueAnchor(live);
      return;
    } else if (now - continuedAt < defaults.anchorContinueMs) return;
    await end(live);
  } finally {
    liveness.busy = false;
    // Ask again. After SIGCONT during a stop, the anchor has anchorContinueMs to answer.
    if (liveness.continuedAt !== null && live.asked !== null)
      liveness.askedAt = context.clock.now() - defaults.anchorAnswerMs + defaults.anchorContinueMs;
    else if (liveness.continuedAt !== null) liveness.askedAt = context.clock.now();
    live.link?.status();
    context.anchors.soon();
  }
}

async function continueAndRecord(live: LiveRun, since: number): Promise<void> {
  const { liveness, context, facts } = live;
  const { clock } = context;
  const unsent = await continueAnchor(live);
  liveness.continuedAt = clock.now();
  const silentMs = Math.round(clock.now() - Math.min(since, liveness.lastMessageAt));
  if (clock.now() - liveness.notedAt < NOTE_AGAIN_MS) return;
  liveness.notedAt = clock.now();
  const data = { silentMs, continued: unsent === null, by: context.instanceId };
  live.journal.note(null, [{ ...eventFacts(live, clock.wall()), type: "anchor-silent", data }]);
  const did = unsent === null ? "it was sent SIGCONT" : `it could not be continued: ${unsent}`;
  const message = `run ${facts.runId}: its anchor does not answer (stopped, held by a debugger, or starved); ${did}`;
  context.report({ runId: facts.runId, message, cause: null });
}

/** What its launcher noted while no supervisor was there. */
export async function launcherSilence(
  host: Pick<AnchorHost, "takeSilence">,
  run: RunAddress,
  facts: Pick<EventFacts, "rootPid" | "descendants">,
): Promise<NewRunEvent[]> {
  const noted = await host.takeSilence(run).catch(() => null);
  if (noted === null) return [];
  const { at, silentMs, continued } = noted;
  const data = { silentMs, continued, by: "launcher" };
  return [{ runId: run.runId, ...facts, at, type: "anchor-silent", data }];
}

async function continueAnchor(live: LiveRun): Promise<string | null> {
  const { context, traces, liveness } = live;
  const anchor = silentAnchor(context.host, traces);
  const unsent =
    anchor === null
      ? "it is not on record, or lives elsewhere"
      : await context.host.continueAnchor(anchor).catch(String);
  if (liveness.continuedAt !== null) liveness.continuedAt = context.clock.now();
  return unsent;
}

/** A stop is due, and its anchor does not answer. */
async function end(live: LiveRun): Promise<void> {
  const { context, traces, facts, asked } = live;
  if (asked === null || isOver(live)) return;
  // Processes that survived a KILL get no second grace period.
  const graceMs = live.survivorsNoted ? 0 : Math.min(asked.graceMs ?? facts.policy.graceMs, GRACE_MOST_MS);
  const ended = await endWithoutAnchor(context.host, traces, asked, graceMs);
  if (isOver(live)) return;
  const remains = await context.host.remains(facts.address);
  // The anchor ran again and ended the run itself.
  if (remains.exit !== null) return concludeExit(live, remains.exit, "exit-file");
  if (ended === null || !ended.reaped.verified) return reportNothingDone(live, ended?.reaped.why ?? null);
  const { reaped, stop, others } = ended;
  live.firstStop ??= stop;
  live.state = step(live.state, { type: "stop", stop });
  noteStop(live, stop);
  if (reaped.survivors.length > 0) {
    live.state = step(live.state, { type: "survivors", survivors: reaped.survivors });
    return noteSurvivors(live, reaped.survivors, "its anchor does not answer; the supervisor retries");
  }
  // Neither anchor nor cgroup proves that the run is empty: it is handled like any run with a dead anchor.
  if (reaped.emptiness === "unproven" && others.length === 0) return;
  const { killed, killMode, residue, emptiness } = reaped;
  const after = {
    kind: "lost",
    remains: { ...remains, swept: null, firstStop: { ...stop, withoutAnchor: true } },
    by: "reap",
    note: whatWasEnded(ended),
    shared: others.length > 0,
    alive: [],
    killed,
    killMode,
    residue,
    emptiness,
  } as const;
  finalize(live, lostFinale(after, facts.policy.onEscape));
}

function reportNothingDone({ facts: { runId }, context, liveness }: LiveRun, why: string | null): void {
  const now = context.clock.now();
  if (now - liveness.notedAt < NOTE_AGAIN_MS && liveness.silences > 1) return;
  liveness.notedAt = now;
  const reason = why ?? "no process of the run is on record here";
  const message = `run ${runId}: its anchor does not answer, and the run could not be ended without the anchor: ${reason}. Nothing was signalled; trying again`;
  context.report({ runId, message, cause: null });
}

/** Interval of SIGCONT to a silent anchor without a stop: a debugger may have detached. */
const CONTINUE_AGAIN_MS = 30_000;
/** Events and messages about one anchor: a command that stops its anchor again and again must not fill the store. */
const NOTE_AGAIN_MS = 60_000;
/** After a stop, an anchor is continued this many times; then the run is ended without it. */
const MAX_SILENCES_AFTER_STOP = 2;
/** Of a longer grace, what leaves room within the bound of a stop. */
const GRACE_MOST_MS = defaults.stopBoundMs / 2;
