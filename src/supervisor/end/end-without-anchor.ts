import type {
  AnchorHost,
  ReapResult,
  FirstStop,
  KnownAnchor,
  RunIdentities,
  RunAddress,
} from "../../anchor/host.js";
import { type RecordedIdentity, cgroupOf } from "../run/recorded-identity.js";
import type { CleanupHost } from "./dead-anchor.js";
import { isSameMachine } from "../../home/machine-identity.js";

/** The host functions that a stop needs. An observer has all of them. */
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
  recorded: Pick<RecordedIdentity, "anchor" | "anchorPath" | "machine">,
): KnownAnchor | null {
  const { anchor, anchorPath } = recorded;
  return anchor === null || !isSameMachine(machine, recorded.machine)
    ? null
    : { identity: anchor, path: anchorPath };
}

/** What was done, for the record and the operator. */
export function describeEnded({ reaped, others }: EndedWithoutAnchor): string {
  const { killed, killMode, anchor } = reaped;
  const how = killMode === "cgroup" ? "through its cgroup" : "by verified identity";
  const ended = `${killed === 1 ? "1 process was" : `${killed} processes were`} killed ${how}`;
  if (others.length > 0) return `${ended}; the anchor was left alone: it also serves ${others.join(", ")}`;
  return anchor === "killed" ? `${ended}, then the anchor was killed` : ended;
}

interface OtherRun {
  readonly runId: string;
  readonly root: RunIdentities["root"];
}

/** Reads the run directories: the store may be locked, and a stopped anchor does not answer. */
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
