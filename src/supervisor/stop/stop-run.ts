import { defaults } from "../../defaults.js";
import { RunNotFound } from "../../errors.js";
import { newRequestId } from "../../model/ids.js";
import type { RunRecord } from "../../model/run.js";
import type { RunStopResult } from "../api.js";
import type { CancelOptions } from "../run-options.js";
import { runAddressOf } from "../run/recorded-identity.js";
import type { LiveRun, SupervisorContext } from "../run/live-run.js";
import { listMembers } from "../run/members.js";
import { requestStop } from "../run/request-stop.js";
import { stopDirectly } from "./stop-directly.js";

/**
 * Stops any run of this state directory and waits, within a bound, for the result. A run of this supervisor is stopped
 * through its connection, another run with the key in its directory.
 */
export async function stopRun(
  context: SupervisorContext,
  runId: string,
  getRun: (runId: string) => Promise<RunRecord | null>,
  options: CancelOptions = {},
): Promise<RunStopResult> {
  const until = context.clock.now() + defaults.stopBoundMs;
  const live = context.runs.get(runId);
  if (live !== undefined) {
    await requestStop(live, options);
    return awaitOutcome(live, until);
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
  const target = { run: runAddressOf(record), record };
  const stopped = await stopDirectly({ host, clock }, target, { reason, actor, requestId, graceMs });
  const survivors = stopped.outcome === "survivors" ? stopped.survivors : [];
  return { outcome: stopped.outcome, survivors };
}

async function awaitOutcome(live: LiveRun, until: number): Promise<RunStopResult> {
  const { clock } = live.context;
  const ended = live.ended.promise.then(
    // Without a proof, processes may be left.
    ({ emptiness }) => (emptiness === "proven" ? ("gone" as const) : ("unknown" as const)),
    // Another supervisor owns it now, or this one closes.
    () => "unknown" as const,
  );
  for (;;) {
    const survivors = live.state.name === "exiting" ? live.state.survivors : [];
    if (survivors.length > 0) return { outcome: "survivors", survivors };
    if (live.state.name === "exited") return { outcome: await awaitRecord(live, ended), survivors: [] };
    if (clock.now() >= until) return timedOutResult(live);
    const over = await Promise.race([ended, clock.sleep(POLL_MS, ended).then(() => null)]);
    if (over !== null) return { outcome: over, survivors: [] };
  }
}

/** The time is up: lists the live processes, also those within their grace period. */
async function timedOutResult(live: LiveRun): Promise<RunStopResult> {
  const members = await listMembers(live).catch(() => []);
  const survivors = members.map(({ identity: { pid, startTime }, command }) => ({
    pid,
    startTime,
    kind: "stopping",
    command,
  }));
  return { outcome: survivors.length > 0 ? "survivors" : "unknown", survivors };
}

/** The run is gone: waits for the record, but not long, because the store may be unreachable. */
function awaitRecord<Over>({ context }: LiveRun, ended: Promise<Over>): Promise<Over | "gone"> {
  return Promise.race([
    ended,
    context.clock.sleep(defaults.localAnswerMs, ended).then(() => "gone" as const),
  ]);
}

const POLL_MS = 50;
