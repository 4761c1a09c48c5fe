import { AnchorUnusable } from "../errors.js";
import { askAnchor } from "./ask.js";
import type { Boundary, BoundaryEvidence, InspectOptions } from "./host.js";
import { member } from "./inspect.js";
import type { LiveProcesses } from "./members.js";
import { array, nullable, oneOf, parseShape } from "./shape.js";

const EVIDENCE = ["populated", "empty", "gone", "unknown"] as const;

/** Longer than any the anchor makes; it cannot open a longer one. */
const PATH_MAX = 1000;

/** What lives in cgroups, one answer for each asked for, in the same order. */
export async function inspectBoundaries(
  anchorPath: string,
  wanted: readonly Boundary[],
): Promise<readonly BoundaryEvidence[]> {
  const answers: BoundaryEvidence[] = wanted.map(() => "unknown");
  // What cannot be a cgroup of ours is not asked about, and stays unknown.
  const asked = wanted.flatMap((boundary, index) => (canBeAsked(boundary) ? [{ boundary, index }] : []));
  if (asked.length === 0) return answers;
  const question = asked.map(({ boundary: { inode, path } }) => `cgroup ${inode} ${path}\n`).join("");
  const lines = await askAnchor(anchorPath, ["inspect"], question);
  for (const [at, { index }] of asked.entries()) {
    const answer = parseShape(lines[at] ?? "", (value) => oneOf(EVIDENCE, value));
    if (answer === null || lines.length !== asked.length)
      throw new AnchorUnusable(
        anchorPath,
        "`anchor inspect` did not answer as agreed about cgroups; nothing was concluded from it",
      );
    answers[index] = answer;
  }
  return answers;
}

/** The processes of cgroups, one answer for each asked for, in the same order; null: it is gone, or cannot be seen from here. */
export async function inspectBoundaryMembers(
  anchorPath: string,
  wanted: readonly Boundary[],
  { ports = false }: Pick<InspectOptions, "ports"> = {},
): Promise<readonly (LiveProcesses | null)[]> {
  const asked = wanted.filter(canBeAsked);
  if (asked.length === 0) return wanted.map(() => null);
  const question = asked.map(({ inode, path }) => `members ${inode} ${path}\n`).join("");
  const lines = await askAnchor(anchorPath, ["inspect", ...(ports ? ["--ports"] : [])], question);
  const answers = lines.map((line) => parseShape(line, (value) => ({ found: nullable(array, value) })));
  if (lines.length !== asked.length || answers.includes(null))
    throw new AnchorUnusable(
      anchorPath,
      "`anchor inspect` did not answer as agreed about the members of cgroups; nothing was concluded from it",
    );
  return wanted.map((boundary) => answers[asked.indexOf(boundary)]?.found?.map(member) ?? null);
}

function canBeAsked({ path, inode }: Boundary): boolean {
  return /^\d{1,20}$/.test(inode) && /^\/[^\0\n]*$/.test(path) && Buffer.byteLength(path) <= PATH_MAX;
}
