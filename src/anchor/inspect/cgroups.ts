import { AnchorUnusable } from "../../errors.js";
import { asArray, asNullable, asOneOf, parseJson } from "../../text/parse-json.js";
import { runAnchorMode } from "../binary/run-mode.js";
import type { CgroupState, InspectOptions } from "./types.js";
import type { CgroupRef } from "../run-dir/types.js";
import { type LiveProcesses, toLiveProcess } from "./processes.js";

const CGROUP_STATES = ["populated", "empty", "gone", "unknown"] as const;

/** Longer than any path that the anchor creates or can open. */
const MAX_CGROUP_PATH_BYTES = 1000;

/** Returns the state of each cgroup, in the order of `wanted`. */
export async function inspectCgroups(
  anchorPath: string,
  wanted: readonly CgroupRef[],
): Promise<readonly CgroupState[]> {
  const answers: CgroupState[] = wanted.map(() => "unknown");
  // An invalid cgroup is not queried and stays unknown.
  const asked = wanted.flatMap((boundary, index) => (isValidCgroup(boundary) ? [{ boundary, index }] : []));
  if (asked.length === 0) return answers;
  const question = asked.map(({ boundary: { inode, path } }) => `cgroup ${inode} ${path}\n`).join("");
  const lines = await runAnchorMode(anchorPath, ["inspect"], question);
  for (const [at, { index }] of asked.entries()) {
    const answer = parseJson(lines[at] ?? "", (value) => asOneOf(CGROUP_STATES, value));
    if (answer === null || lines.length !== asked.length)
      throw new AnchorUnusable(
        anchorPath,
        "`anchor inspect` gave an invalid answer about cgroups; it was ignored",
      );
    answers[index] = answer;
  }
  return answers;
}

/**
 * Returns the processes of each cgroup, in the order of `wanted`; null if the cgroup is gone or not visible from here.
 */
export async function listCgroupMembers(
  anchorPath: string,
  wanted: readonly CgroupRef[],
  { ports = false }: Pick<InspectOptions, "ports"> = {},
): Promise<readonly (LiveProcesses | null)[]> {
  const asked = wanted.filter(isValidCgroup);
  if (asked.length === 0) return wanted.map(() => null);
  const question = asked.map(({ inode, path }) => `members ${inode} ${path}\n`).join("");
  const lines = await runAnchorMode(anchorPath, ["inspect", ...(ports ? ["--ports"] : [])], question);
  const answers = lines.map((line) => parseJson(line, (value) => ({ found: asNullable(asArray, value) })));
  if (lines.length !== asked.length || answers.includes(null))
    throw new AnchorUnusable(
      anchorPath,
      "`anchor inspect` gave an invalid answer about the members of cgroups; it was ignored",
    );
  return wanted.map((boundary) => answers[asked.indexOf(boundary)]?.found?.map(toLiveProcess) ?? null);
}

function isValidCgroup({ path, inode }: CgroupRef): boolean {
  return (
    /^\d{1,20}$/.test(inode) && /^\/[^\0\n]*$/.test(path) && Buffer.byteLength(path) <= MAX_CGROUP_PATH_BYTES
  );
}
