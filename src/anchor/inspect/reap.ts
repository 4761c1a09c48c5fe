import { AnchorUnusable } from "../../errors.js";
import type { ProcessIdentity } from "../../model/process.js";
import {
  asArray,
  asBoolean,
  asNullable,
  asObject,
  asOneOf,
  asString,
  asWholeNumber,
  parseJson,
} from "../../text/parse-json.js";
import { runAnchorMode } from "../one-shot-modes.js";
import { EMPTINESS_VALUES, toKillMode, toResidue, toSurvivors } from "../run-dir/parse-run-files.js";
import { requireDigits, requirePid, requireWholeNumber } from "./processes.js";
import type { KnownAnchor, ReapRequest, ReapResult } from "./evidence-types.js";

/** Verifies an identity and ends its process tree, for a run whose anchor is gone. */
export async function reap(anchorPath: string, request: ReapRequest): Promise<ReapResult> {
  return runReap(anchorPath, reapArgs(request));
}

export async function runReap(anchorPath: string, args: readonly string[]): Promise<ReapResult> {
  const [line = ""] = await runAnchorMode(anchorPath, ["reap", ...args], "");
  const result = parseJson(line, toReapResult);
  if (result !== null) return result;
  throw new AnchorUnusable(
    anchorPath,
    "`anchor reap` gave an invalid answer; what it did is not known, so inspect the processes it was to end",
  );
}

/** Returns null if SIGCONT was sent, otherwise the reason why not. */
export async function continueAnchor(anchorPath: string, anchor: KnownAnchor): Promise<string | null> {
  const args = [...identityArgs("", anchor.identity), "--path", anchor.path, "--run", anchor.runId];
  const [line = ""] = await runAnchorMode(anchorPath, ["continue", ...args], "");
  const answer = parseJson(line, (value) => {
    const object = asObject(value);
    return { why: asBoolean(object["sent"]) ? null : asString(object["why"]) };
  });
  return answer === null ? "`anchor continue` gave an invalid answer" : answer.why;
}

function reapArgs({ root, cgroup, leaseId, graceMs, anchor = null, spared = [] }: ReapRequest): string[] {
  const args = ["--grace", String(requireWholeNumber(Math.ceil(graceMs)))];
  if (root !== null) args.push(...identityArgs("", root));
  if (anchor !== null) {
    args.push(...identityArgs("anchor-", anchor.identity));
    args.push("--anchor-path", anchor.path, "--anchor-run", anchor.runId);
  }
  for (const identity of spared) args.push(...identityArgs("spare-", identity));
  if (cgroup !== null) args.push("--cgroup", cgroup.path, "--cgroup-inode", requireDigits(cgroup.inode));
  if (leaseId !== null) args.push("--lease", leaseId);
  return args;
}

function identityArgs(prefix: string, { pid, startTime, uniqueId }: ProcessIdentity): string[] {
  const args = [
    `--${prefix}pid`,
    String(requirePid(pid)),
    `--${prefix}start`,
    String(requireWholeNumber(startTime)),
  ];
  return uniqueId === null ? args : [...args, `--${prefix}unique`, requireDigits(uniqueId)];
}

function toReapResult(value: unknown): ReapResult {
  const object = asObject(value);
  return {
    verified: asBoolean(object["verified"]),
    why: asString(object["why"]),
    killed: asWholeNumber(object["killed"]),
    killMode: toKillMode(object["killMode"]),
    residue: asArray(object["residue"]).map(toResidue),
    survivors: toSurvivors(object["survivors"]),
    emptiness: asOneOf(EMPTINESS_VALUES, object["emptiness"]),
    anchor: asNullable((fate) => asOneOf(["killed", "kept", "gone"], fate), object["anchor"]),
  };
}
