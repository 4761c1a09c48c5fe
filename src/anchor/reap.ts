import { AnchorUnusable } from "../errors.js";
import { askAnchor } from "./ask.js";
import type { ReapRequest, ReapResult } from "./host.js";
import { mustBeDigits, mustBePid, mustBeWhole } from "./inspect.js";
import { EMPTINESS, killMode, residue, survivors } from "./run-json.js";
import { array, boolean, oneOf, parseShape, record, string, whole } from "./shape.js";

/** Verify an identity and terminate its tree, for a run whose anchor is gone. */
export async function reap(anchorPath: string, request: ReapRequest): Promise<ReapResult> {
  return askToReap(anchorPath, evidenceArgs(request));
}

export async function askToReap(anchorPath: string, args: readonly string[]): Promise<ReapResult> {
  const [line = ""] = await askAnchor(anchorPath, ["reap", ...args], "");
  const result = parseShape(line, toResult);
  if (result !== null) return result;
  throw new AnchorUnusable(
    anchorPath,
    "`anchor reap` did not answer as agreed; what it did is not known, inspect what it was asked to end",
  );
}

function evidenceArgs({ root, cgroup, leaseId, graceMs }: ReapRequest): string[] {
  const args = ["--grace", String(mustBeWhole(Math.ceil(graceMs)))];
  if (root !== null) {
    args.push("--pid", String(mustBePid(root.pid)), "--start", String(mustBeWhole(root.startTime)));
    if (root.uniqueId !== null) args.push("--unique", mustBeDigits(root.uniqueId));
  }
  if (cgroup !== null) args.push("--cgroup", cgroup.path, "--cgroup-inode", mustBeDigits(cgroup.inode));
  if (leaseId !== null) args.push("--lease", leaseId);
  return args;
}

function toResult(value: unknown): ReapResult {
  const facts = record(value);
  return {
    verified: boolean(facts["verified"]),
    why: string(facts["why"]),
    killed: whole(facts["killed"]),
    killMode: killMode(facts["killMode"]),
    residue: array(facts["residue"]).map(residue),
    survivors: survivors(facts["survivors"]),
    emptiness: oneOf(EMPTINESS, facts["emptiness"]),
  };
}
