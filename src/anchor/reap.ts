import { AnchorUnusable } from "../errors.js";
import { askAnchor } from "./ask.js";
import type { ProcessIdentity } from "../store/run-record.js";
import type { KnownAnchor, ReapRequest, ReapResult } from "./host.js";
import { mustBeDigits, mustBePid, mustBeWhole } from "./inspect.js";
import { EMPTINESS, killMode, residue, survivors } from "./run-json.js";
import { array, boolean, nullable, oneOf, parseShape, record, string, whole } from "./shape.js";

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

/** Null: SIGCONT was sent. Otherwise why not. */
export async function continueAnchor(anchorPath: string, anchor: KnownAnchor): Promise<string | null> {
  const args = [...identityArgs("", anchor.identity), "--path", anchor.path];
  const [line = ""] = await askAnchor(anchorPath, ["continue", ...args], "");
  const answer = parseShape(line, (value) => {
    const facts = record(value);
    return { why: boolean(facts["sent"]) ? null : string(facts["why"]) };
  });
  return answer === null ? "`anchor continue` did not answer as agreed" : answer.why;
}

function evidenceArgs({ root, cgroup, leaseId, graceMs, anchor = null, spared = [] }: ReapRequest): string[] {
  const args = ["--grace", String(mustBeWhole(Math.ceil(graceMs)))];
  if (root !== null) args.push(...identityArgs("", root));
  if (anchor !== null) args.push(...identityArgs("anchor-", anchor.identity), "--anchor-path", anchor.path);
  for (const identity of spared) args.push(...identityArgs("spare-", identity));
  if (cgroup !== null) args.push("--cgroup", cgroup.path, "--cgroup-inode", mustBeDigits(cgroup.inode));
  if (leaseId !== null) args.push("--lease", leaseId);
  return args;
}

function identityArgs(prefix: string, { pid, startTime, uniqueId }: ProcessIdentity): string[] {
  const args = [`--${prefix}pid`, String(mustBePid(pid)), `--${prefix}start`, String(mustBeWhole(startTime))];
  return uniqueId === null ? args : [...args, `--${prefix}unique`, mustBeDigits(uniqueId)];
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
    anchor: nullable((fate) => oneOf(["killed", "kept", "gone"], fate), facts["anchor"]),
  };
}
