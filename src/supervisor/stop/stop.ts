import type { AnchorExit, RunAddress, StopRequest } from "../../anchor/host-interface.js";
import type { Clock } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import { RunNotFound } from "../../errors.js";
import type { Survivor } from "../../model/process.js";
import type { RunRecord } from "../../model/run.js";
import type { RunStopResult } from "../api.js";
import {
  type DeadAnchorResult,
  describeEnded,
  type EndedWithoutAnchor,
  endWithoutAnchor,
  resolveDeadAnchor,
  type StopHost,
} from "../end/without-anchor.js";
import { listMembers } from "../inspect/list-members.js";
import type { CancelOptions } from "../check-options.js";
import { requestStop, toStopRequest } from "../run/request-stop.js";
import type { LiveRun, SupervisorContext } from "../run/live-run.js";
import { boundaryOf, cgroupOf, type RecordedIdentity, runAddressOf } from "../run/recorded-identity.js";
import type { RunOutcome } from "../run/state-machine.js";
import {
  continueAndStop,
  type StopDependencies,
  stopThroughAnchor,
  toSurvivor,
} from "./stop-through-anchor.js";

/** `record` is null when the store cannot be read: the identities then come from the run's directory. */
interface StopTarget {
  readonly run: RunAddress;
  readonly record: RunRecord | null;
}

export type DirectStopOutcome =
  /** Proven empty; the detail says how. */
  | { readonly outcome: "gone"; readonly detail: string }
  | { readonly outcome: "ended-before"; readonly detail: string }
  | { readonly outcome: "survivors"; readonly survivors: readonly Survivor[]; readonly detail: string }
  /** It is unknown if a process is left; the detail says what was done. */
  | { readonly outcome: "unknown"; readonly detail: string };

export interface StopOptions {
  /** Time limit of the whole call, with the run's grace period. */
  readonly boundMs?: number;
  /** Called once, when the first stop was sent or the first signal is due. */
  readonly onStopSent?: () => void;
}

/**
 * Stops a run without its supervisor and waits for the result. First through its anchor; if the anchor does not answer,
 * after a SIGCONT; then by the run's cgroup and verified processes. The anchor is killed last, and only if it serves no
 * other run. Needs neither store nor lease.
 */
export async function stopDirectly(
  dependencies: StopDependencies,
  target: StopTarget,
  stop: StopRequest,
  { boundMs = defaults.stopBoundMs, onStopSent = () => {} }: StopOptions = {},
): Promise<DirectStopOutcome> {
  const { host, clock } = dependencies;
  const until = clock.now() + boundMs;
  let notified = false;
  const notifyStopSent = (): void => {
    if (!notified) onStopSent();
    notified = true;
  };
  const timing = { until, answerMs: defaults.anchorAnswerMs, onStopSent: notifyStopSent };
  let answer = await stopThroughAnchor(dependencies, target.run, stop, timing);
  const recorded = await recordedIdentityOf(
    host,
    target,
    graceWithin(target, stop, remainingMs(clock, until)),
  );
  if (answer.kind === "no-anchor") {
    const deadAnchor = await resolveDeadAnchor(
      dependencies,
      recorded,
      () => target.record?.state === "exited",
    );
    if (deadAnchor.kind !== "anchor-alive") return deadAnchorOutcome(deadAnchor, target);
  }
  if (answer.kind === "no-anchor" || answer.kind === "silent")
    answer = await continueAndStop(dependencies, recorded, stop, {
      ...timing,
      answerMs: defaults.anchorContinueMs,
    });
  switch (answer.kind) {
    case "ended":
      return outcomeOfAnchorExit(answer.exit);
    case "survivors":
      return {
        outcome: "survivors",
        survivors: answer.survivors,
        detail: "its anchor keeps trying to kill them; `holdfast runs abandon` ends the run's record",
      };
    case "late":
      return timeoutOutcome(answer.alive, boundMs);
    case "no-anchor":
    case "silent": {
      const { exit } = await host.readRunFiles(target.run);
      if (exit !== null) return outcomeOfAnchorExit(exit);
      notifyStopSent();
      const graceMs = graceWithin(target, stop, remainingMs(clock, until));
      return outcomeWithoutAnchor(await endWithoutAnchor(host, recorded, stop, graceMs));
    }
  }
}

function outcomeOfAnchorExit(exit: AnchorExit): DirectStopOutcome {
  const { reason, actor, emptiness, emptinessNote = null, residue } = exit;
  const detail = `${reason}${actor === "" ? "" : ` by ${actor}`}`;
  if (emptiness === "proven") return { outcome: "gone", detail: `${detail}, proven empty` };
  if (reason !== "lost")
    return {
      outcome: "unknown",
      detail: `${detail}; it is not proven that no process is left${emptinessNote === null ? "" : `: ${emptinessNote}`}`,
    };
  return { outcome: "survivors", survivors: residue, detail: `${detail}: it was abandoned in the meantime` };
}

function timeoutOutcome(alive: readonly Survivor[] | null, boundMs: number): DirectStopOutcome {
  const waited = `its anchor is stopping it; after ${boundMs / 1000} s`;
  if (alive === null || alive.length === 0)
    return { outcome: "unknown", detail: `${waited} it has not reported the end` };
  return {
    outcome: "survivors",
    survivors: alive,
    detail: `${waited} these processes are alive; the anchor kills them when their grace period is over`,
  };
}

function outcomeWithoutAnchor(ended: EndedWithoutAnchor | null): DirectStopOutcome {
  const silent = "its anchor did not answer";
  if (ended === null)
    return {
      outcome: "unknown",
      detail: `${silent}, no process of it is recorded here, and nothing was signalled`,
    };
  const { survivors, emptiness, verified, why } = ended.reaped;
  if (!verified) return { outcome: "unknown", detail: `${silent}, and nothing was signalled: ${why}` };
  const detail = `${silent}; ${describeEnded(ended)}`;
  if (survivors.length > 0) return { outcome: "survivors", survivors, detail };
  if (emptiness === "proven") return { outcome: "gone", detail: `${detail}; proven empty` };
  return { outcome: "unknown", detail: `${detail}; whether others are alive is not known` };
}

/** From the record, or without one from the run's directory. */
async function recordedIdentityOf(
  host: StopHost,
  { run, record }: StopTarget,
  graceMs: number,
): Promise<RecordedIdentity> {
  const onRecord = record !== null && record.anchor !== null;
  const known = onRecord
    ? { anchor: record.anchor, root: record.root, cgroup: cgroupOf(record) }
    : await host.readIdentities(run).catch(() => null);
  const cgroup = known?.cgroup ?? null;
  const { hostId, bootId, pidNamespace, timeNamespace } = record ?? host.machine;
  return {
    run,
    leaseId: record?.leaseId ?? "",
    machine: { hostId, bootId, pidNamespace, timeNamespace },
    anchor: known?.anchor ?? null,
    root: known?.root ?? null,
    boundary: boundaryOf(cgroup),
    graceMs,
    anchorPath: record?.anchorPath ?? host.anchorPath,
  };
}

function deadAnchorOutcome(
  deadAnchor: Exclude<DeadAnchorResult, { kind: "anchor-alive" }>,
  { record }: StopTarget,
): DirectStopOutcome {
  switch (deadAnchor.kind) {
    case "exit":
      if (deadAnchor.exit.emptiness !== "proven") return outcomeOfAnchorExit(deadAnchor.exit);
      return { outcome: "ended-before", detail: `it has ended: ${deadAnchor.exit.reason}` };
    case "never-executed":
      return { outcome: "unknown", detail: "no process of it is recorded, and nothing was signalled" };
    case "given-up":
      return { outcome: "ended-before", detail: `it ended before: ${record?.exit?.reason ?? "lost"}` };
    case "lost": {
      const { emptiness, by, alive, note } = deadAnchor;
      const dead = "its anchor is dead";
      const detail = note === null ? dead : `${dead}; ${note}`;
      if (alive.length > 0) return { outcome: "survivors", survivors: alive, detail };
      if (emptiness === "unproven") return { outcome: "unknown", detail };
      const did = by === "launcher" ? `${dead}; its launcher killed the processes it left` : detail;
      return { outcome: "gone", detail: `${did}; proven empty` };
    }
  }
}

function remainingMs(clock: Clock, until: number): number {
  return Math.max(0, until - clock.now());
}

/** The grace period, shortened so that KILL and the check after it stay within the bound. */
function graceWithin({ record }: StopTarget, { graceMs }: StopRequest, leftMs: number): number {
  const requested = graceMs ?? record?.policy.graceMs ?? defaults.graceMs;
  return Math.max(0, Math.min(requested, leftMs - defaults.killReportMs));
}

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
  const target = { run: runAddressOf(record), record };
  const stop = toStopRequest(options, context.actor);
  const stopped = await stopDirectly({ host, clock }, target, stop);
  const survivors = stopped.outcome === "survivors" ? stopped.survivors : [];
  return { outcome: stopped.outcome, survivors };
}

async function awaitOutcome(live: LiveRun, until: number): Promise<RunStopResult> {
  const { clock } = live.context;
  const ended = live.ended.promise.then(
    ({ emptiness }) => outcomeOfEnd(emptiness),
    // Another supervisor owns it now, or this one closes.
    () => "unknown" as const,
  );
  for (;;) {
    const survivors = live.state.name === "exiting" ? live.state.survivors : [];
    if (survivors.length > 0) return { outcome: "survivors", survivors };
    if (live.state.name === "exited")
      return { outcome: await awaitRecord(live, ended, live.state.outcome), survivors: [] };
    if (clock.now() >= until) return timedOutResult(live);
    const over = await Promise.race([ended, clock.sleep(POLL_MS, ended).then(() => null)]);
    if (over !== null) return { outcome: over, survivors: [] };
  }
}

/** The time is up: lists the live processes, also those within their grace period. */
async function timedOutResult(live: LiveRun): Promise<RunStopResult> {
  const members = await listMembers(live).catch(() => []);
  const survivors = members.map(toSurvivor);
  return { outcome: survivors.length > 0 ? "survivors" : "unknown", survivors };
}

/** The run has ended: waits for the record, but not long, because the store may be unreachable. */
function awaitRecord<Over>(
  { context }: LiveRun,
  ended: Promise<Over>,
  { emptiness }: RunOutcome,
): Promise<Over | "gone" | "unknown"> {
  return Promise.race([
    ended,
    context.clock.sleep(defaults.localAnswerMs, ended).then(() => outcomeOfEnd(emptiness)),
  ]);
}

/** Without a proof, processes may be left. */
function outcomeOfEnd(emptiness: RunRecord["emptiness"]): "gone" | "unknown" {
  return emptiness === "proven" ? "gone" : "unknown";
}

const POLL_MS = 50;
