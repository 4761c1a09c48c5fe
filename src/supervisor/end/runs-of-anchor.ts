import type { AnchorHost, KnownAnchor, RunAddress, RunIdentities } from "../../anchor/host-interface.js";
import { isSameProcess, type ProcessIdentity } from "../../model/process.js";

interface OtherRun {
  readonly runId: string;
  readonly root: RunIdentities["root"];
}

/**
 * Returns the other runs that the anchor of this run may serve. Reads the run directories: the store may be locked, and a
 * stopped anchor does not answer.
 */
export async function otherRunsOfAnchor(
  host: Pick<AnchorHost, "listRunIds" | "readRunFiles" | "readIdentities" | "listOpenRunDirectories">,
  run: RunAddress,
  { identity }: KnownAnchor,
): Promise<readonly OtherRun[]> {
  const others: OtherRun[] = [];
  for (const runId of await host.listRunIds(run.instanceId)) {
    const other = { instanceId: run.instanceId, runId };
    if (runId === run.runId) continue;
    const { exit, swept } = await host.readRunFiles(other);
    if (exit !== null || swept !== null) continue;
    // Rejects for a file that cannot be read: the run may be an adopted service of this anchor.
    const known = await host.readIdentities(other);
    if (known !== null && mayBeSameProcess(known.anchor, identity)) others.push({ runId, root: known.root });
  }
  if (others.length === 0 || identity.uniqueId !== null) return others;
  // Without unique ids, a dead anchor of another run may have had the same pid within the same clock tick.
  const open = await host.listOpenRunDirectories(identity.pid);
  return open.includes(run.runId) ? others.filter(({ runId }) => open.includes(runId)) : others;
}

function mayBeSameProcess(one: ProcessIdentity, other: ProcessIdentity): boolean {
  if (one.uniqueId !== null && other.uniqueId !== null) return isSameProcess(one, other);
  return one.pid === other.pid && one.startTime === other.startTime;
}
