import { AnchorUnusable, BadInput } from "../../errors.js";
import type { ProcessIdentity } from "../../model/process.js";
import { runAnchorMode } from "../binary/run-mode.js";
import type { ReapResult } from "../host.js";
import { toIdentity, requireDigits, requirePid, requireWholeNumber } from "./processes.js";
import { runReap } from "./reap.js";
import { asArray, asNullable, parseJson, asObject, asString, asWholeNumber } from "../../text/parse-json.js";

/** A process, of whatever tool, with a certain variable in its environment. */
export interface MarkedProcess {
  readonly identity: ProcessIdentity;
  /** Of the variable asked for, cut at 4095 bytes. */
  readonly value: string;
  readonly parentPid: number;
  /** Null: it cannot be proven who it is. */
  readonly parent: ProcessIdentity | null;
  readonly uid: number;
  readonly command: string;
  /** Bounded; empty when it cannot be read. */
  readonly argv: readonly string[];
  /** Not null: it is in one of our runs. */
  readonly runId: string | null;
  /** Of the further variables asked for, each cut at 1023 bytes; null: not set. */
  readonly others: Readonly<Record<string, string | null>>;
}

/** The variable that holds a run's lease id. */
export const LEASE_MARKER = "HOLDFAST_LEASE_ID";

/** What a shell can set. */
const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,126}$/;
const MAX_OTHER_VARIABLES = 16;

/** Every process that one may look into and whose environment has the variable. Says nothing about whose they are. */
export async function listMarkedProcesses(
  anchorPath: string,
  variable: string,
  otherVariables: readonly string[] = [],
): Promise<readonly MarkedProcess[]> {
  if (otherVariables.length > MAX_OTHER_VARIABLES)
    throw new BadInput("others", `at most ${MAX_OTHER_VARIABLES} further variables can be asked for`);
  const lines = await runAnchorMode(
    anchorPath,
    ["marked", ...[variable, ...otherVariables].map(requireVariableName)],
    "",
  );
  return lines.map((line) => {
    const marked = parseJson(line, toMarkedProcess);
    if (marked !== null) return marked;
    throw new AnchorUnusable(
      anchorPath,
      "`anchor marked` did not answer as agreed; nothing was concluded from it",
    );
  });
}

export interface MarkedReapRequest {
  readonly identity: ProcessIdentity;
  readonly variable: string;
  readonly value: string;
  readonly graceMs: number;
}

/**
 * End one process of another tool, not its descendants: only when number, start time and unique id match and its
 * environment still carries exactly that marker. Nothing is known of what it leaves, so `emptiness` is never proven.
 */
export async function reapMarkedProcess(anchorPath: string, request: MarkedReapRequest): Promise<ReapResult> {
  const { pid, startTime, uniqueId } = request.identity;
  const variable = requireVariableName(request.variable);
  if (request.value === "" || request.value.includes("\0"))
    throw new BadInput("value", "a marker needs a value, without NUL; nothing was touched");
  const args = ["--only", "--pid", String(requirePid(pid)), "--start", String(requireWholeNumber(startTime))];
  if (uniqueId !== null) args.push("--unique", requireDigits(uniqueId));
  args.push("--marker", `${variable}=${request.value}`, "--grace");
  args.push(String(requireWholeNumber(Math.ceil(request.graceMs))));
  return runReap(anchorPath, args);
}

function requireVariableName(name: string): string {
  if (VARIABLE_NAME.test(name)) return name;
  throw new BadInput("variable", `${JSON.stringify(name)} is no name of a variable; nothing was touched`);
}

function toMarkedProcess(value: unknown): MarkedProcess {
  const object = asObject(value);
  const otherVariables = Object.entries(asObject(object["others"]));
  return {
    identity: toIdentity(object),
    value: asString(object["value"]),
    parentPid: asWholeNumber(object["ppid"]),
    parent: asNullable((parent) => toIdentity(asObject(parent)), object["parent"]),
    uid: asWholeNumber(object["uid"]),
    command: asString(object["command"]),
    argv: asArray(object["argv"]).map(asString),
    runId: asNullable(asString, object["runId"]),
    others: Object.fromEntries(otherVariables.map(([name, found]) => [name, asNullable(asString, found)])),
  };
}
