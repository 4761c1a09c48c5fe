import type { AnchorHost, RunAddress } from "../../anchor/host-interface.js";
import { defaults } from "../../defaults.js";
import type { NewRunEvent } from "../../model/run-event.js";
import { finalize, finalizeExit } from "../end/finalize.js";
import { lostRunRecord } from "../end/terminal-record.js";
import { describeEnded, endWithoutAnchor, verifiableAnchor } from "../end/without-anchor.js";
import { recordFirstStop } from "../run/request-stop.js";
import { isInactive, type LiveRun, runEventBase, type RunEventBase } from "../run/live-run.js";
import { step } from "../run/state-machine.js";
import { recordSurvivors } from "./record-survivors.js";

/**
 * Handles an anchor that does not answer. The silence is recorded as an event, and the anchor is sent SIGCONT.
 * When a stop was requested and the anchor still does not answer, the run is ended without it.
 */
export async function handleUnresponsiveAnchor(live: LiveRun): Promise<void> {
  const { anchorLiveness: liveness, context } = live;
  if (liveness.handling || isInactive(live)) return;
  liveness.handling = true;
  try {
    const now = context.clock.now();
    const { continuedAt, stopSentAt: stopAt } = liveness;
    const again = continuedAt !== null && stopAt !== null && stopAt > continuedAt;
    if (continuedAt === null || again) {
      if (stopAt !== null) liveness.silencesAfterStop++;
      await continueAndRecord(live, continuedAt ?? now);
      // An anchor that is stopped again and again would never end its run.
      if (liveness.silencesAfterStop <= MAX_SILENCES_AFTER_STOP) return;
    } else if (stopAt === null) {
      if (now - continuedAt >= CONTINUE_INTERVAL_MS) await continueAnchor(live);
      return;
    } else if (now - continuedAt < defaults.anchorContinueMs) return;
    await endRunWithoutAnchor(live);
  } finally {
    liveness.handling = false;
    // Ask again. After SIGCONT during a stop, the anchor has anchorContinueMs to answer.
    if (liveness.continuedAt !== null && live.requestedStop !== null)
      liveness.statusSentAt = context.clock.now() - defaults.anchorAnswerMs + defaults.anchorContinueMs;
    else if (liveness.continuedAt !== null) liveness.statusSentAt = context.clock.now();
    live.link?.requestStatus();
    context.anchorMonitor.checkSoon();
  }
}

async function continueAndRecord(live: LiveRun, since: number): Promise<void> {
  const { anchorLiveness: liveness, context, facts } = live;
  const { clock } = context;
  const unsent = await continueAnchor(live);
  liveness.continuedAt = clock.now();
  const silentMs = Math.round(clock.now() - Math.min(since, liveness.lastMessageAt));
  if (clock.now() - liveness.reportedAt < REPORT_INTERVAL_MS) return;
  liveness.reportedAt = clock.now();
  const data = { silentMs, continued: unsent === null, by: context.instanceId };
  live.writeQueue.enqueue(null, [{ ...runEventBase(live, clock.wall()), type: "anchor-silent", data }]);
  const did = unsent === null ? "it was sent SIGCONT" : `it could not be continued: ${unsent}`;
  const message = `run ${facts.runId}: its anchor does not answer (stopped, held by a debugger, or starved); ${did}`;
  context.report({ runId: facts.runId, message, cause: null });
}

/** The silence that the launcher recorded while there was no supervisor. */
export async function readLauncherSilence(
  host: Pick<AnchorHost, "takeSilentFile">,
  run: RunAddress,
  facts: Pick<RunEventBase, "rootPid" | "descendants">,
): Promise<NewRunEvent[]> {
  const file = await host.takeSilentFile(run).catch(() => null);
  if (file === null) return [];
  const { at, silentMs, continued } = file;
  const data = { silentMs, continued, by: "launcher" };
  return [{ runId: run.runId, ...facts, at, type: "anchor-silent", data }];
}

async function continueAnchor(live: LiveRun): Promise<string | null> {
  const { context, recordedIdentity: recorded, anchorLiveness: liveness } = live;
  const anchor = verifiableAnchor(context.host, recorded);
  const unsent =
    anchor === null
      ? "it is not recorded, or is on another machine or in another namespace"
      : await context.host.continueAnchor(anchor).catch(String);
  if (liveness.continuedAt !== null) liveness.continuedAt = context.clock.now();
  return unsent;
}

async function endRunWithoutAnchor(live: LiveRun): Promise<void> {
  const { context, recordedIdentity: recorded, facts, requestedStop } = live;
  if (requestedStop === null || isInactive(live)) return;
  // Processes that survived a KILL get no second grace period.
  const graceMs = live.survivorsRecorded
    ? 0
    : Math.min(requestedStop.graceMs ?? facts.policy.graceMs, MAX_GRACE_MS);
  const ended = await endWithoutAnchor(context.host, recorded, requestedStop, graceMs);
  if (isInactive(live)) return;
  const runFiles = await context.host.readRunFiles(facts.address);
  // The anchor ran again and ended the run itself.
  if (runFiles.exit !== null) return finalizeExit(live, runFiles.exit, "exit-file");
  if (ended === null || !ended.reaped.verified) return reportNothingDone(live, ended?.reaped.why ?? null);
  const { reaped, stop, others } = ended;
  live.firstStop ??= stop;
  live.state = step(live.state, { type: "stop", stop });
  recordFirstStop(live, stop);
  if (reaped.survivors.length > 0) {
    live.state = step(live.state, { type: "survivors", survivors: reaped.survivors });
    return recordSurvivors(live, reaped.survivors, "its anchor does not answer; the supervisor retries");
  }
  // Neither anchor nor cgroup proves that the run is empty, so it is handled like a run with a dead anchor.
  if (reaped.emptiness === "unproven" && others.length === 0) return;
  const { killed, killMode, residue, emptiness } = reaped;
  const deadAnchor = {
    kind: "lost",
    runFiles: { ...runFiles, swept: null, firstStop: { ...stop, withoutAnchor: true } },
    by: "reap",
    note: describeEnded(ended),
    sharedAnchor: others.length > 0,
    alive: [],
    killed,
    killMode,
    residue,
    emptiness,
  } as const;
  finalize(live, lostRunRecord(deadAnchor, facts.policy.onEscape));
}

function reportNothingDone(
  { facts: { runId }, context, anchorLiveness: liveness }: LiveRun,
  why: string | null,
): void {
  const now = context.clock.now();
  if (now - liveness.reportedAt < REPORT_INTERVAL_MS && liveness.silencesAfterStop > 1) return;
  liveness.reportedAt = now;
  const reason = why ?? "no process of the run is recorded here";
  const message = `run ${runId}: its anchor does not answer, and the run could not be ended without the anchor: ${reason}. Nothing was signalled; trying again`;
  context.report({ runId, message, cause: null });
}

/** Interval of SIGCONT to a silent anchor without a stop: a debugger may have detached. */
const CONTINUE_INTERVAL_MS = 30_000;

/** Events and messages about one anchor: a command that stops its anchor again and again must not fill the store. */
const REPORT_INTERVAL_MS = 60_000;

/** After a stop, an anchor is continued this many times; then the run is ended without it. */
const MAX_SILENCES_AFTER_STOP = 2;

/** A longer grace period would exceed the bound of a stop. */
const MAX_GRACE_MS = defaults.stopBoundMs / 2;
