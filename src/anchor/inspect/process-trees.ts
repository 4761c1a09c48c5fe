import { asArray, asNullable } from "../../text/parse-json.js";
import { queryAnchor } from "../one-shot-modes.js";
import type { CgroupRef } from "../run-dir/run-file-types.js";
import { cgroupQuery, isValidCgroup, toCgroupState } from "./cgroups-and-limits.js";
import type { CgroupState, InspectOptions, ProcessEvidence } from "./evidence-types.js";
import {
  type LiveProcesses,
  type ProcessQuery,
  processQuery,
  toLiveProcess,
  toQueriedProcess,
} from "./processes.js";

/** Each list is in the order of the request. */
export interface InspectedTrees {
  readonly evidence: readonly ProcessEvidence[];
  /** The processes of each cgroup; null if it is gone or not visible from here. */
  readonly members: readonly (LiveProcesses | null)[];
  /** Read after the members, so that a cgroup that was emptied in between counts as empty. */
  readonly states: readonly CgroupState[];
}

/** One process of the anchor binary answers all of it: starting one takes longer than its answer. */
export async function inspectTrees(
  anchorPath: string,
  processes: readonly ProcessQuery[],
  cgroups: readonly CgroupRef[],
  { ports = false }: Pick<InspectOptions, "ports"> = {},
): Promise<InspectedTrees> {
  const evidence: ProcessEvidence[] = [];
  const members = new Map<CgroupRef, LiveProcesses | null>();
  const states = new Map<CgroupRef, CgroupState>();
  const valid = cgroups.filter(isValidCgroup);
  const queries = [
    ...processes.map((each) => ({
      line: processQuery(each),
      take: (value: unknown) => void evidence.push(toQueriedProcess(each, value)),
    })),
    ...valid.map((each) => ({
      line: cgroupQuery("members", each),
      take: (value: unknown) =>
        void members.set(each, asNullable(asArray, value)?.map(toLiveProcess) ?? null),
    })),
    ...valid.map((each) => ({
      line: cgroupQuery("cgroup", each),
      take: (value: unknown) => void states.set(each, toCgroupState(value)),
    })),
  ];
  if (queries.length > 0) {
    const args = ["inspect", ...(ports ? ["--ports"] : [])];
    const asked = queries.values();
    const input = queries.map(({ line }) => line).join("");
    await queryAnchor(anchorPath, args, input, (value) => asked.next().value?.take(value), queries.length);
  }
  return {
    evidence,
    members: cgroups.map((each) => members.get(each) ?? null),
    states: cgroups.map((each) => states.get(each) ?? "unknown"),
  };
}
