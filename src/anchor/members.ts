import type { ProcessEvidence } from "./host.js";
import { isSameProcess, type RunRecord } from "../model/run.js";

export type LiveProcesses = ProcessEvidence["descendants"];

/** What tells the runs of one anchor apart. */
export type AnchoredRun = Pick<
  RunRecord,
  "runId" | "anchor" | "root" | "bootId" | "pidNamespace" | "createdAt"
>;

/**
 * Of everybody below an anchor, who belongs to this run: a service that was adopted out of another shares its anchor. As
 * parents stand now: who has lost his is shown with the run the anchor was started for.
 */
export function membersOfRun(
  record: AnchoredRun,
  records: readonly AnchoredRun[],
  below: LiveProcesses,
): LiveProcesses {
  const served = records
    .filter((each) => haveSameAnchor(each, record))
    .toSorted((a, b) => a.createdAt - b.createdAt);
  const [first] = served;
  if (first === undefined || served.length < 2) return below;
  const roots = new Map(served.map(({ root, runId }) => [root?.pid, runId] as const));
  const owner = new Map<number, string | undefined>();
  // Parents come first.
  for (const { identity, parentPid } of below)
    owner.set(identity.pid, roots.get(identity.pid) ?? owner.get(parentPid) ?? first.runId);
  return below.filter(({ identity }) => owner.get(identity.pid) === record.runId);
}

/** A state directory may hold records of other boots and pid namespaces, where the same pid is another's. */
function haveSameAnchor(one: AnchoredRun, other: AnchoredRun): boolean {
  return (
    one.bootId === other.bootId &&
    one.pidNamespace === other.pidNamespace &&
    isSameProcess(one.anchor, other.anchor)
  );
}
