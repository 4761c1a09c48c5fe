import type {
  AnchorExit,
  AnchorHost,
  CgroupRef,
  FirstStop,
  KnownAnchor,
  ReapResult,
  RunFiles,
  SweptFile,
} from "../../anchor/host-interface.js";
import { judgeLiveness, type Liveness } from "../../anchor/inspect/liveness.js";
import type { Clock } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import { AnchorUnusable } from "../../errors.js";
import {
  isSameMachine,
  type MachineIdentity,
  type ProcessIdentity,
  type Residue,
  type Survivor,
} from "../../model/process.js";
import type { Emptiness, KillMode } from "../../model/run.js";
import { cgroupOf, type RecordedIdentity } from "../run/recorded-identity.js";
import { otherRunsOfAnchor } from "./runs-of-anchor.js";

/** The host functions that find out how a run ended, and kill its remaining processes. */
type CleanupHost = Pick<
  AnchorHost,
  | "machine"
  | "anchorPath"
  | "readRunFiles"
  | "inspectProcesses"
  | "inspectCgroups"
  | "findMarkedLeases"
  | "reap"
>;

export type DeadAnchorResult =
  /** The anchor had finished and left an exit file. */
  | { readonly kind: "exit"; readonly exit: AnchorExit }
  /** The anchor does not answer and is, or may be, alive. Nothing may be concluded yet. */
  | { readonly kind: "anchor-alive" }
  /** The caller gave up; nothing was touched. */
  | { readonly kind: "given-up" }
  /** The command never passed the gate. */
  | { readonly kind: "never-executed" }
  /** `runFiles` null: the run was imported and never had an anchor. */
  | ({ readonly kind: "lost"; readonly runFiles: RunFiles | null } & CleanupResult);

/** How far the tree was emptied, and how. */
interface CleanupResult {
  readonly emptiness: Emptiness;
  /** Null: no process was killed. */
  readonly by: "launcher" | "reap" | null;
  readonly killed: number;
  readonly killMode: KillMode;
  readonly residue: readonly Residue[];
  readonly alive: readonly Survivor[];
  /** The actions taken here, as one clause. */
  readonly note: string | null;
  /** The anchor serves other runs and was not killed: only a cgroup can prove this run empty. */
  readonly sharedAnchor?: boolean;
}

/**
 * Finds out how a run without an anchor ended, and kills its verified remaining processes. The launcher cleans up after
 * a dead anchor, so its report is awaited; without it, only processes that match the recorded identity are signalled.
 */
export async function resolveDeadAnchor(
  { host, clock }: { readonly host: CleanupHost; readonly clock: Clock },
  recorded: RecordedIdentity,
  givenUp: () => boolean,
): Promise<DeadAnchorResult> {
  const { run, root, leaseId } = recorded;
  const until = clock.now() + defaults.sweptWaitMs;
  for (let round = 0; ; round++) {
    if (givenUp()) return { kind: "given-up" };
    // Taken before the files are read, so that a supervisor that was delayed reads them once more.
    const late = clock.now() >= until;
    const runFiles = await host.readRunFiles(run);
    const { exit, swept } = runFiles;
    if (exit !== null) return { kind: "exit", exit };
    if (runFiles.neverStarted === true && (swept !== null || (await isNeverStarted(host, recorded))))
      return { kind: "never-executed" };
    if (swept !== null) {
      return { ...cleanedByLauncher(swept), kind: "lost", runFiles };
    }
    // No command passes the gate before its identity is recorded. An empty lease id marks a run found without a record.
    if (root === null && leaseId !== "") return { kind: "never-executed" };
    if (root === null) return { kind: "lost", runFiles, ...unprovenResult("it was found without a record") };
    const gone = resultFromElsewhere(host.machine, recorded.machine);
    if (gone !== null) return { kind: "lost", runFiles, ...gone };
    // In the second round only: the launcher mostly reports before it, and the probe starts a process.
    if (round === 1 && (await probeProcess(host, recorded, recorded.anchor)) !== "gone")
      return { kind: "anchor-alive" };
    if (late) return { kind: "lost", runFiles, ...(await killVerifiedTree(host, recorded)) };
    await clock.sleep(defaults.sweptPollMs);
  }
}

/** The files are read once more after the anchor is gone: it may have read START, and GO, meanwhile. */
async function isNeverStarted(host: CleanupHost, recorded: RecordedIdentity): Promise<boolean> {
  if ((await probeProcess(host, recorded, recorded.anchor)) !== "gone") return false;
  return (await host.readRunFiles(recorded.run)).neverStarted === true;
}

export const NO_CLEANUP: CleanupResult = {
  emptiness: "unproven",
  by: null,
  killed: 0,
  killMode: "none",
  residue: [],
  alive: [],
  note: null,
};

export function cleanedByLauncher({ killed, killMode, emptiness }: SweptFile): CleanupResult {
  return { ...NO_CLEANUP, emptiness, by: "launcher", killed, killMode };
}

const CGROUP_EMPTY: CleanupResult = { ...NO_CLEANUP, emptiness: "proven", note: "its cgroup is empty" };

/** Kills the verified leader with its descendants, and the processes in the run's cgroup. */
export async function killVerifiedTree(
  host: CleanupHost,
  recorded: RecordedIdentity,
): Promise<CleanupResult> {
  const { root, leaseId, graceMs } = recorded;
  const cgroup = cgroupOf(recorded);
  const liveness = await probeProcess(host, recorded, root);
  if (liveness === "unknown")
    throw new AnchorUnusable(
      host.anchorPath,
      `process ${root?.pid} is hidden, or was started in another time namespace: it cannot be compared with the recorded one, and nothing was signalled`,
    );
  const rootAlive = liveness === "alive";
  if (!rootAlive && cgroup === null)
    return unprovenResult(
      "its leader is gone; whether others are alive is not known, and nothing was signalled",
    );
  const empty = rootAlive ? null : await cgroupEmptiness(host, cgroup, leaseId);
  // Only removes the empty cgroup: the anchor that should have removed it is dead.
  if (empty === "empty") await host.reap({ root: null, cgroup, leaseId: null, graceMs: 0 });
  if (empty !== null) return CGROUP_EMPTY;
  const reaped = await host.reap({
    root: rootAlive ? root : null,
    cgroup,
    leaseId: leaseId === "" ? null : leaseId,
    graceMs,
  });
  if (!reaped.verified && reaped.emptiness === "unproven")
    // The root's pid may belong to another process now, while the run's cgroup is gone.
    return (await cgroupEmptiness(host, cgroup, leaseId)) !== null
      ? CGROUP_EMPTY
      : unprovenResult(`nothing was signalled: ${reaped.why}`);
  const { killed, killMode, residue, survivors, emptiness } = reaped;
  const note = `${killed === 1 ? "1 process" : `${killed} processes`} of it were killed here`;
  return { emptiness, by: "reap", killed, killMode, residue, alive: survivors, note };
}

/** The result for a run of another machine, boot or container, which is not touched. Null: it ran here. */
function resultFromElsewhere(here: MachineIdentity, there: MachineIdentity): CleanupResult | null {
  if (here.hostId !== there.hostId)
    return unprovenResult("it ran on another machine, so nothing was signalled");
  if (here.bootId !== there.bootId) {
    const note = "the machine was restarted, which ended all of its processes";
    return { ...NO_CLEANUP, emptiness: "proven", note };
  }
  if (here.pidNamespace === there.pidNamespace) return null;
  return unprovenResult("it ran in another container, so nothing was signalled");
}

function unprovenResult(note: string): CleanupResult {
  return { ...NO_CLEANUP, note };
}

/** Only an empty cgroup can be removed, so a missing one was emptied. Null: not proven empty. */
async function cgroupEmptiness(
  host: CleanupHost,
  cgroup: CgroupRef | null,
  leaseId: string,
): Promise<"empty" | "gone" | null> {
  if (cgroup === null) return null;
  const [seen] = await host.inspectCgroups([cgroup]);
  if (seen !== "empty" && seen !== "gone") return null;
  // A process that left the cgroup still has our environment marker unless it cleared its environment.
  return leaseId === "" || (await host.findMarkedLeases([leaseId])).size === 0 ? seen : null;
}

async function probeProcess(
  host: CleanupHost,
  { machine }: RecordedIdentity,
  identity: ProcessIdentity | null,
): Promise<Liveness> {
  if (identity === null) return "gone";
  const [evidence] = await host.inspectProcesses([identity], { brief: true });
  return judgeLiveness(identity, machine, evidence, host.machine);
}

/** The host functions that a stop needs. An observer has all of them. */
export type StopHost = CleanupHost &
  Pick<
    AnchorHost,
    | "anchorPath"
    | "attach"
    | "listRunIds"
    | "readIdentities"
    | "listOpenRunDirectories"
    | "continueAnchor"
    | "writeStopFile"
    | "writeSweptFile"
  >;
/** How a run was ended without its anchor. */
export interface EndedWithoutAnchor {
  readonly reaped: ReapResult;
  /** The reason of the end: an earlier stop that the anchor had accepted counts. */
  readonly stop: FirstStop;
  /** Other runs of the same anchor. With any, the anchor was not killed. */
  readonly others: readonly string[];
}

/**
 * Ends a run whose anchor does not answer a stop. Null: no process of it is recorded here, and nothing was signalled.
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

/** The anchor with its verifiable identity. Null: it is not recorded, or its pid is of another machine or namespace. */
export function verifiableAnchor(
  { machine }: Pick<AnchorHost, "machine">,
  recorded: Pick<RecordedIdentity, "anchor" | "anchorPath" | "machine" | "run">,
): KnownAnchor | null {
  const { anchor, anchorPath, run } = recorded;
  return anchor === null || !isSameMachine(machine, recorded.machine)
    ? null
    : { identity: anchor, path: anchorPath, runId: run.runId };
}

/** Describes the actions taken, for the record and the operator. */
export function describeEnded({ reaped, others }: EndedWithoutAnchor): string {
  const { killed, killMode, anchor } = reaped;
  const how = killMode === "cgroup" ? "through its cgroup" : "by verified identity";
  const ended = `${killed === 1 ? "1 process was" : `${killed} processes were`} killed ${how}`;
  if (others.length > 0) return `${ended}; the anchor was left alone: it also serves ${others.join(", ")}`;
  return anchor === "killed" ? `${ended}, then the anchor was killed` : ended;
}
