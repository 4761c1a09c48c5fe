import { AnchorUnusable, BadInput } from "../errors.js";
import type { ProcessIdentity } from "../store/run-record.js";
import { askAnchor } from "./ask.js";
import type { ReapResult } from "./host.js";
import { identity, mustBeDigits, mustBePid, mustBeWhole } from "./inspect.js";
import { askToReap } from "./reap.js";
import { array, nullable, parseShape, record, string, whole } from "./shape.js";

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
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,126}$/;
const OTHERS_MAX = 16;

/** Every process that one may look into and whose environment has the variable. Says nothing about whose they are. */
export async function listMarked(
  anchorPath: string,
  variable: string,
  others: readonly string[] = [],
): Promise<readonly MarkedProcess[]> {
  if (others.length > OTHERS_MAX)
    throw new BadInput("others", `at most ${OTHERS_MAX} further variables can be asked for`);
  const lines = await askAnchor(anchorPath, ["marked", ...[variable, ...others].map(mustBeVariable)], "");
  return lines.map((line) => {
    const marked = parseShape(line, toMarked);
    if (marked !== null) return marked;
    throw new AnchorUnusable(
      anchorPath,
      "`anchor marked` did not answer as agreed; nothing was concluded from it",
    );
  });
}

export interface MarkedReap {
  readonly identity: ProcessIdentity;
  readonly variable: string;
  readonly value: string;
  readonly graceMs: number;
}

/**
 * End one process of another tool, not its descendants: only when number, start time and unique id match and its
 * environment still carries exactly that marker. Nothing is known of what it leaves, so `emptiness` is never proven.
 */
export async function reapMarked(anchorPath: string, request: MarkedReap): Promise<ReapResult> {
  const { pid, startTime, uniqueId } = request.identity;
  const variable = mustBeVariable(request.variable);
  if (request.value === "" || request.value.includes("\0"))
    throw new BadInput("value", "a marker needs a value, without NUL; nothing was touched");
  const args = ["--only", "--pid", String(mustBePid(pid)), "--start", String(mustBeWhole(startTime))];
  if (uniqueId !== null) args.push("--unique", mustBeDigits(uniqueId));
  args.push("--marker", `${variable}=${request.value}`, "--grace");
  args.push(String(mustBeWhole(Math.ceil(request.graceMs))));
  return askToReap(anchorPath, args);
}

function mustBeVariable(name: string): string {
  if (VARIABLE.test(name)) return name;
  throw new BadInput("variable", `${JSON.stringify(name)} is no name of a variable; nothing was touched`);
}

function toMarked(value: unknown): MarkedProcess {
  const facts = record(value);
  const others = Object.entries(record(facts["others"]));
  return {
    identity: identity(facts),
    value: string(facts["value"]),
    parentPid: whole(facts["ppid"]),
    parent: nullable((parent) => identity(record(parent)), facts["parent"]),
    uid: whole(facts["uid"]),
    command: string(facts["command"]),
    argv: array(facts["argv"]).map(string),
    runId: nullable(string, facts["runId"]),
    others: Object.fromEntries(others.map(([name, found]) => [name, nullable(string, found)])),
  };
}
