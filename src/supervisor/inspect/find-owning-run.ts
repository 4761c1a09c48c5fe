import type { ProcessEvidence } from "../../anchor/host-interface.js";
import { isSameProcess, type ProcessIdentity } from "../../model/process.js";
import type { RunRecord } from "../../model/run.js";
import { cgroupOf } from "../run/recorded-identity.js";

/** Which run a process belongs to, and what proves it. */
export interface ProcessOwner {
  readonly record: RunRecord;
  readonly role: "anchor" | "leader" | "member" | "claims";
  readonly evidence: readonly string[];
}

/** Identity, ancestry and cgroup prove membership. An environment marker only claims it: any process can set one. */
export async function findOwningRun(
  live: ProcessEvidence,
  records: readonly RunRecord[],
  inspectBoundaries: (wanted: readonly { path: string; inode: string }[]) => Promise<readonly string[]>,
): Promise<ProcessOwner | null> {
  for (const record of records) {
    if (isSameProcess(record.anchor, live.identity))
      return {
        record,
        role: "anchor",
        evidence: [`it is the recorded anchor: ${formatIdentity(live.identity)}`],
      };
    if (isSameProcess(record.root, live.identity))
      return {
        record,
        role: "leader",
        evidence: [
          `it is the recorded leader: ${formatIdentity(live.identity)}`,
          ...markerEvidence(live, record),
        ],
      };
  }
  for (const record of sortByDistance(live, records)) {
    const evidence = await membershipEvidence(live, record, inspectBoundaries);
    if (evidence.length > 0)
      return { record, role: "member", evidence: [...evidence, ...markerEvidence(live, record)] };
  }
  const claimed = records.find(({ runId }) => runId === live.runId);
  if (claimed === undefined) return null;
  const evidence = [
    `HOLDFAST_RUN_ID in its environment names the run; neither ancestry nor cgroup confirms it`,
  ];
  return { record: claimed, role: "claims", evidence };
}

/** Cgroup first, then the nearest leader: a service that was adopted out of a run is below that run's leader. */
function sortByDistance(live: ProcessEvidence, records: readonly RunRecord[]): readonly RunRecord[] {
  const distance = (record: RunRecord): number => {
    const cgroup = cgroupOf(record);
    if (cgroup !== null && live.cgroup !== null && isInsideCgroup(live.cgroup, cgroup.path)) return -1;
    const at = live.ancestors.findIndex((each) => isSameProcess(record.root, each));
    return at < 0 ? Infinity : at;
  };
  const distances = new Map(records.map((record) => [record, distance(record)]));
  return records.toSorted((a, b) => compareNumbers(distances.get(a) ?? 0, distances.get(b) ?? 0));
}

function compareNumbers(one: number, other: number): number {
  return one === other ? 0 : one < other ? -1 : 1;
}

async function membershipEvidence(
  live: ProcessEvidence,
  record: RunRecord,
  inspectBoundaries: Parameters<typeof findOwningRun>[2],
): Promise<string[]> {
  const evidence: string[] = [];
  const cgroup = cgroupOf(record);
  if (cgroup !== null && live.cgroup !== null && isInsideCgroup(live.cgroup, cgroup.path)) {
    const [state] = await inspectBoundaries([cgroup]);
    if (state === "populated" || state === "empty")
      evidence.push(
        `it is in the run's ${cgroup.path.startsWith("/") ? "cgroup" : "job"} ${cgroup.path} (inode ${cgroup.inode})`,
      );
  }
  const parent = live.ancestors.find((each) => isSameProcess(record.root, each));
  const anchor = live.ancestors.find((each) => isSameProcess(record.anchor, each));
  if (parent !== undefined) evidence.push(`it descends from the run's leader ${formatIdentity(parent)}`);
  else if (anchor !== undefined) evidence.push(`it descends from the run's anchor ${formatIdentity(anchor)}`);
  return evidence;
}

function isInsideCgroup(found: string, recorded: string): boolean {
  return found === recorded || found.startsWith(`${recorded}/`);
}

function markerEvidence(live: ProcessEvidence, { leaseId }: RunRecord): string[] {
  return leaseId !== "" && live.leaseId === leaseId ? [`it has the run's environment marker ${leaseId}`] : [];
}

function formatIdentity({ pid, startTime, uniqueId }: ProcessIdentity): string {
  return `pid ${pid}, start ${startTime}${uniqueId === null ? "" : `, id ${uniqueId}`}`;
}
