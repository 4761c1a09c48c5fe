import type { AnchorExit, RunAddress, StopRequest } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import type { RunRecord } from "../../model/run.js";
import { type DeadAnchorResult, resolveDeadAnchor } from "../end/dead-anchor.js";
import { cgroupOf, type RecordedIdentity } from "../run/recorded-identity.js";
import type { Clock } from "../../async/clock.js";
import {
  describeEnded,
  type EndedWithoutAnchor,
  endWithoutAnchor,
  type StopHost,
} from "../end/end-without-anchor.js";
import { continueAndStop, type StopDependencies, stopThroughAnchor } from "./stop-through-anchor.js";
import type { Survivor } from "../../model/process.js";

/** `record` is null when the store cannot be read: the identities then come from the run's directory. */
export interface StopTarget {
  readonly run: RunAddress;
  readonly record: RunRecord | null;
}

export type DirectStopOutcome =
  /** Proven empty; the detail says how. */
  | { readonly outcome: "gone"; readonly detail: string }
  | { readonly outcome: "ended-before"; readonly detail: string }
  | { readonly outcome: "survivors"; readonly survivors: readonly Survivor[]; readonly detail: string }
  /** Whether a process is left is not known; the detail says what was done. */
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

function outcomeOfAnchorExit({ reason, actor, emptiness, residue }: AnchorExit): DirectStopOutcome {
  const detail = `${reason}${actor === "" ? "" : ` by ${actor}`}`;
  if (emptiness === "proven") return { outcome: "gone", detail: `${detail}, proven empty` };
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
    boundary: cgroup === null ? null : { cgroup: cgroup.path, cgroupInode: cgroup.inode, note: null },
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
