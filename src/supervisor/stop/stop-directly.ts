import type {
  AnchorExit,
  AnchorHost,
  AnchorLink,
  FirstStop,
  KnownAnchor,
  ReapResult,
  RunAddress,
  RunIdentities,
  StopRequest,
} from "../../anchor/host.js";
import type { Survivor } from "../../model/process.js";
import { PROTOCOL } from "../../anchor/protocol/messages.js";
import { defaults } from "../../defaults.js";
import { isSameMachine } from "../../home/machine-identity.js";
import type { RunRecord } from "../../model/run.js";
import {
  resolveDeadAnchor,
  cgroupOf,
  type DeadAnchorResult,
  type CleanupHost,
  type RecordedIdentity,
} from "../end/dead-anchor.js";
import type { Clock } from "../../async/clock.js";
import { newRequestId } from "../../model/ids.js";

/** What a stop needs of a host. An observer has all of it. */
export type StopHost = CleanupHost &
  Pick<
    AnchorHost,
    | "anchorPath"
    | "attach"
    | "listRunIds"
    | "readIdentities"
    | "continueAnchor"
    | "writeStopFile"
    | "writeSweptFile"
  >;

export interface StopDependencies {
  readonly host: StopHost;
  readonly clock: Clock;
}

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
  /** Whether anything is left is not known; the detail says what was done and what was not. */
  | { readonly outcome: "unknown"; readonly detail: string };

export interface StopOptions {
  /** From the call to the answer, the run's grace included. */
  readonly boundMs?: number;
  /** Called once, as soon as something was told to stop: what follows may take a while. */
  readonly onStopSent?: () => void;
}

/**
 * Stop a run without its supervisor and see it through. The order: its anchor; SIGCONT when the anchor does not answer;
 * the run's cgroup and verified processes when it still does not. The anchor itself is killed last, and only when it
 * serves no other run. Needs neither store nor lease.
 */
export async function stopDirectly(
  dependencies: StopDependencies,
  target: StopTarget,
  stop: StopRequest,
  { boundMs = defaults.stopBoundMs, onStopSent: told = () => {} }: StopOptions = {},
): Promise<DirectStopOutcome> {
  const { host, clock } = dependencies;
  const until = clock.now() + boundMs;
  let heard = false;
  const notifyStopSent = (): void => {
    if (!heard) told();
    heard = true;
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
        detail: "its anchor stays and goes on trying; `holdfast runs abandon` gives up on them",
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

/* ---- through the anchor ---- */

type AnchorStopResult =
  | { readonly kind: "ended"; readonly exit: AnchorExit }
  | { readonly kind: "survivors"; readonly survivors: readonly Survivor[] }
  /** The time is up, and the anchor still stops the run. Null: it did not list the live processes. */
  | { readonly kind: "late"; readonly alive: readonly Survivor[] | null }
  /** The anchor accepted the connection and did not answer in time. */
  | { readonly kind: "silent" }
  | { readonly kind: "no-anchor" };

interface StopTiming {
  readonly until: number;
  readonly answerMs: number;
  readonly onStopSent: () => void;
}

async function stopThroughAnchor(
  { host, clock }: StopDependencies,
  run: RunAddress,
  stop: StopRequest,
  { until, answerMs, onStopSent: notifyStopSent }: StopTiming,
): Promise<AnchorStopResult> {
  let link: AnchorLink | null;
  try {
    link = await host.attach(run, 0, answerMs);
  } catch {
    // It refuses this key or protocol, or says nothing: either way it cannot be told to stop.
    return { kind: "silent" };
  }
  if (link === null) return { kind: "no-anchor" };
  try {
    const told = awaitExit(link, clock, until, answerMs);
    link.stop(stop);
    // A STOP to a run whose command has ended is not answered; this is.
    link.requestStatus();
    notifyStopSent();
    return await told;
  } finally {
    link.close();
  }
}

/** Its anchor lives and says nothing, or its socket is gone: SIGCONT, and time to make the socket anew. */
async function continueAndStop(
  dependencies: StopDependencies,
  recorded: RecordedIdentity,
  stop: StopRequest,
  timing: StopTiming,
): Promise<AnchorStopResult> {
  const { host, clock } = dependencies;
  const anchor = verifiableAnchor(host, recorded);
  if (anchor === null || (await host.continueAnchor(anchor)) !== null) return { kind: "silent" };
  for (let tries = 0; ; tries++) {
    const answer = await stopThroughAnchor(dependencies, recorded.run, stop, timing);
    if (answer.kind !== "no-anchor" || tries >= defaults.reattachTries) return answer;
    if ((await host.readRunFiles(recorded.run)).exit !== null) return answer;
    await clock.sleep(defaults.reattachPauseMs * 2 ** tries);
  }
}

function awaitExit(
  link: AnchorLink,
  clock: Clock,
  until: number,
  answerMs: number,
): Promise<AnchorStopResult> {
  return new Promise((resolve) => {
    const requestId = newRequestId();
    let heardAt = clock.now();
    let asked = true;
    let over = false;
    const settle = (answer: AnchorStopResult): void => {
      over = true;
      resolve(answer);
    };
    link.listen((event) => {
      heardAt = clock.now();
      asked = false;
      if (event.type === "exited") settle({ kind: "ended", exit: event.exit });
      if (event.type === "survivors" && event.survivors.length > 0)
        settle({ kind: "survivors", survivors: event.survivors });
      if (event.type === "members" && event.requestId === requestId)
        settle({
          kind: "late",
          alive: event.processes.map(({ identity, command }) => toSurvivor(identity, command)),
        });
      if (event.type === "closed") settle({ kind: "no-anchor" });
    });
    let last = false;
    const look = (): void => {
      if (over) return;
      const now = clock.now();
      if (now - heardAt >= answerMs) return settle({ kind: "silent" });
      if (now >= until && (last || link.welcome.protocol < PROTOCOL))
        return settle({ kind: "late", alive: null });
      if (now >= until) {
        last = true;
        link.requestMembers(requestId);
      } else if (!asked && now - heardAt >= answerMs / 2) {
        asked = true;
        link.requestStatus();
      }
      clock.setTimer(last ? defaults.anchorContinueMs : Math.min(answerMs / 4, until - now), look, {
        keepAlive: true,
      });
    };
    look();
  });
}

function toSurvivor({ pid, startTime }: { pid: number; startTime: number }, command: string): Survivor {
  return { pid, startTime, kind: "stopping", command };
}

function outcomeOfAnchorExit({ reason, actor, emptiness, residue }: AnchorExit): DirectStopOutcome {
  const detail = `${reason}${actor === "" ? "" : ` by ${actor}`}`;
  if (emptiness === "proven") return { outcome: "gone", detail: `${detail}, proven empty` };
  return { outcome: "survivors", survivors: residue, detail: `${detail}: it was abandoned meanwhile` };
}

function timeoutOutcome(alive: readonly Survivor[] | null, boundMs: number): DirectStopOutcome {
  const told = `its anchor was told to stop it and is stopping it; after ${boundMs / 1000} s`;
  if (alive === null || alive.length === 0)
    return { outcome: "unknown", detail: `${told} it has not said that the run is gone` };
  return {
    outcome: "survivors",
    survivors: alive,
    detail: `${told} these processes still run; the anchor kills them when their grace period is over`,
  };
}

/* ---- without the anchor ---- */

/** How a run was ended without its anchor. */
export interface EndedWithoutAnchor {
  readonly reaped: ReapResult;
  /** Why it ended: an earlier stop that its anchor had accepted counts. */
  readonly stop: FirstStop;
  /** Other runs of the same anchor. It was not touched if there are any. */
  readonly others: readonly string[];
}

/**
 * End a run whose anchor does not answer although an end of the run is due. Null: no process of it is on record here, and
 * nothing was signalled.
 */
export async function endWithoutAnchor(
  host: StopHost,
  recorded: RecordedIdentity,
  stop: FirstStop,
  graceMs: number,
): Promise<EndedWithoutAnchor | null> {
  const { run, root, leaseId } = recorded;
  const anchor = verifiableAnchor(host, recorded);
  if (anchor === null) return null;
  const others = await otherRunsOfAnchor(host, run, anchor);
  // First, so that the reason is on disk if this process dies. A full disk must not prevent the end.
  const counts = await host.writeStopFile(run, stop).catch(() => stop);
  const reaped = await host.reap({
    root,
    cgroup: cgroupOf(recorded),
    leaseId: leaseId === "" ? null : leaseId,
    graceMs,
    ...(others.length === 0
      ? { anchor }
      : { spared: others.flatMap((other) => (other.root === null ? [] : [other.root])) }),
  });
  // Without a live anchor or a cgroup nothing is proven: the supervisor that records the end decides.
  const isDone = reaped.emptiness === "proven" || (reaped.verified && others.length > 0);
  if (isDone && reaped.survivors.length === 0)
    await host.writeSweptFile(run, { anchorSignal: null, ...reaped }).catch(() => undefined);
  return { reaped, stop: counts, others: others.map(({ runId }) => runId) };
}

/** The anchor with what verifies it before it is signalled. Null: it is not on record, or its number means nothing here. */
export function verifiableAnchor(
  { machine }: Pick<AnchorHost, "machine">,
  recorded: Pick<RecordedIdentity, "anchor" | "anchorPath" | "machine">,
): KnownAnchor | null {
  const { anchor, anchorPath } = recorded;
  return anchor === null || !isSameMachine(machine, recorded.machine)
    ? null
    : { identity: anchor, path: anchorPath };
}

/** What was done, for a record and for a person. */
export function describeEnded({ reaped, others }: EndedWithoutAnchor): string {
  const { killed, killMode, anchor } = reaped;
  const how = killMode === "cgroup" ? "through its cgroup" : "by verified identity";
  const ended = `${killed === 1 ? "1 process was" : `${killed} processes were`} ended ${how}`;
  if (others.length > 0) return `${ended}; the anchor was left alone: it also serves ${others.join(", ")}`;
  return anchor === "killed" ? `${ended}, then the anchor was killed` : ended;
}

function outcomeWithoutAnchor(ended: EndedWithoutAnchor | null): DirectStopOutcome {
  const silent = "its anchor did not answer";
  if (ended === null)
    return {
      outcome: "unknown",
      detail: `${silent}, no process of it is on record here, and nothing was signalled`,
    };
  const { survivors, emptiness, verified, why } = ended.reaped;
  if (!verified) return { outcome: "unknown", detail: `${silent}, and nothing was signalled: ${why}` };
  const detail = `${silent}; ${describeEnded(ended)}`;
  if (survivors.length > 0) return { outcome: "survivors", survivors, detail };
  if (emptiness === "proven") return { outcome: "gone", detail: `${detail}; proven empty` };
  return { outcome: "unknown", detail: `${detail}; whether others of it live is not known` };
}

interface OtherRun {
  readonly runId: string;
  readonly root: RunIdentities["root"];
}

/** From the run directories: a store may be locked, and an anchor that is stopped cannot be asked. */
async function otherRunsOfAnchor(
  host: StopHost,
  run: RunAddress,
  { identity: { pid, startTime } }: KnownAnchor,
): Promise<readonly OtherRun[]> {
  const others: OtherRun[] = [];
  for (const runId of await host.listRunIds(run.instanceId)) {
    const other = { instanceId: run.instanceId, runId };
    if (runId === run.runId) continue;
    const { exit, swept } = await host.readRunFiles(other);
    if (exit !== null || swept !== null) continue;
    // Rejects for a file that cannot be read: the run may be an adopted service of this anchor.
    const known = await host.readIdentities(other);
    if (known?.anchor.pid === pid && known.anchor.startTime === startTime)
      others.push({ runId, root: known.root });
  }
  return others;
}

/** By the record, or by the run's directory where there is none. */
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

/* ---- an anchor that is dead ---- */

function deadAnchorOutcome(
  deadAnchor: Exclude<DeadAnchorResult, { kind: "anchor-alive" }>,
  { record }: StopTarget,
): DirectStopOutcome {
  switch (deadAnchor.kind) {
    case "exit":
      if (deadAnchor.exit.emptiness !== "proven") return outcomeOfAnchorExit(deadAnchor.exit);
      return { outcome: "ended-before", detail: `it has ended: ${deadAnchor.exit.reason}` };
    case "never-executed":
      return { outcome: "unknown", detail: "no process of it is on record, and nothing was signalled" };
    case "given-up":
      return { outcome: "ended-before", detail: `it had ended before: ${record?.exit?.reason ?? "lost"}` };
    case "lost": {
      const { emptiness, by, alive, note } = deadAnchor;
      const dead = "its anchor is dead";
      const detail = note === null ? dead : `${dead}; ${note}`;
      if (alive.length > 0) return { outcome: "survivors", survivors: alive, detail };
      if (emptiness === "unproven") return { outcome: "unknown", detail };
      const did = by === "launcher" ? `${dead}; its launcher ended what it left` : detail;
      return { outcome: "gone", detail: `${did}; proven empty` };
    }
  }
}

/* ---- time ---- */

function remainingMs(clock: Clock, until: number): number {
  return Math.max(0, until - clock.now());
}

/** As much of the run's grace as the bound leaves, with time to kill and look afterwards. */
function graceWithin({ record }: StopTarget, { graceMs }: StopRequest, leftMs: number): number {
  const wanted = graceMs ?? record?.policy.graceMs ?? defaults.graceMs;
  return Math.max(0, Math.min(wanted, leftMs - defaults.killReportMs));
}
