import { BadInput } from "../../errors.js";
import type { ProcessIdentity } from "../../model/process.js";
import { asArray, asNullable, asObject, asString, asWholeNumber } from "../../text/parse-json.js";
import { queryAnchor } from "../one-shot-modes.js";
import { requireDigits, requirePid, requireWholeNumber, toIdentity } from "./processes.js";
import { runReap } from "./reap.js";
import type { ReapResult } from "./evidence-types.js";

/** A process of any tool with a certain variable in its environment. */
export interface MarkedProcess {
  readonly identity: ProcessIdentity;
  /** Value of the requested variable, cut at 4095 bytes. */
  readonly value: string;
  readonly parentPid: number;
  /** Null if its identity cannot be proven. */
  readonly parent: ProcessIdentity | null;
  readonly uid: number;
  readonly command: string;
  /** Limited in length; empty if it cannot be read. */
  readonly argv: readonly string[];
  /** Set if the process belongs to a run. */
  readonly runId: string | null;
  /** Values of the other requested variables, each cut at 1023 bytes; null if not set. */
  readonly others: Readonly<Record<string, string | null>>;
}

/** The variable that holds a run's lease id. */
export const LEASE_MARKER = "HOLDFAST_LEASE_ID";

/** Names that a shell can set. */
const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,126}$/;
const MAX_OTHER_VARIABLES = 16;

/**
 * Lists all readable processes whose environment has the variable. The variable does not prove which tool owns a
 * process.
 */
export async function listMarkedProcesses(
  anchorPath: string,
  variable: string,
  otherVariables: readonly string[] = [],
): Promise<readonly MarkedProcess[]> {
  if (otherVariables.length > MAX_OTHER_VARIABLES)
    throw new BadInput("others", `at most ${MAX_OTHER_VARIABLES} other variables can be requested`);
  const variables = [variable, ...otherVariables].map(requireVariableName);
  return queryAnchor(anchorPath, ["marked", ...variables], "", toMarkedProcess);
}

interface MarkedReapRequest {
  readonly identity: ProcessIdentity;
  readonly variable: string;
  readonly value: string;
  readonly graceMs: number;
}

/**
 * Ends one process of another tool, but not its descendants: only if pid, start time and unique id match and its
 * environment still has exactly that marker. `emptiness` is never proven, because nothing is known about its
 * descendants.
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
  throw new BadInput("variable", `${JSON.stringify(name)} is not a variable name; nothing was touched`);
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
