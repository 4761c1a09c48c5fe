import type { ProcessEvidence } from "./host.js";
import type { RunRecord } from "../store/run-record.js";

type Processes = ProcessEvidence["descendants"];

/**
 * Of everybody below an anchor, who belongs to this run: a service that was adopted out of another shares its anchor. As
 * parents stand now: who has lost his is shown with the run the anchor was started for.
 */
export function membersOf(record: RunRecord, records: readonly RunRecord[], below: Processes): Processes {
  const roots = new Map(
    records
      .filter(({ anchor }) => anchor !== null && anchor.pid === record.anchor?.pid)
      .map(({ root, runId }) => [root?.pid, runId] as const),
  );
  if (roots.size < 2) return below;
  const first = records
    .filter(({ anchor }) => anchor?.pid === record.anchor?.pid)
    .toSorted((a, b) => a.createdAt - b.createdAt)[0];
  const owner = new Map<number, string | undefined>();
  // Parents come first.
  for (const { identity, parentPid } of below)
    owner.set(identity.pid, roots.get(identity.pid) ?? owner.get(parentPid) ?? first?.runId);
  return below.filter(({ identity }) => owner.get(identity.pid) === record.runId);
}
