import { BadInput } from "../../errors.js";
import { isSameProcess, type ProcessIdentity } from "../../model/process.js";
import type { RunRecord } from "../../model/run.js";
import {
  asArray,
  asBoolean,
  asNullable,
  asObject,
  asString,
  asWholeNumber,
  type JsonObject,
} from "../../text/parse-json.js";
import { queryAnchor } from "../one-shot-modes.js";
import type { InspectOptions, ProcessEvidence } from "./evidence-types.js";

export type LiveProcesses = ProcessEvidence["descendants"];

/** The fields that distinguish the runs of one anchor. */
export type AnchoredRun = Pick<
  RunRecord,
  "runId" | "anchor" | "root" | "bootId" | "pidNamespace" | "createdAt"
>;

/**
 * Returns the processes below an anchor that belong to this run. Several runs can share an anchor, because an adopted
 * service stays with the anchor of its parent run. Processes are assigned by their current parents; one that lost its
 * parent counts to the run that the anchor was started for.
 */
export function membersOfRun(
  record: AnchoredRun,
  records: readonly AnchoredRun[],
  below: LiveProcesses,
): LiveProcesses {
  const served = records
    .filter((each) => haveSameAnchor(each, record))
    .toSorted((a, b) => a.createdAt - b.createdAt);
  const [first] = served;
  if (first === undefined || served.length < 2) return below;
  const roots = new Map(served.map(({ root, runId }) => [root?.pid, runId] as const));
  const owner = new Map<number, string | undefined>();
  // Parents are listed before their children.
  for (const { identity, parentPid } of below)
    owner.set(identity.pid, roots.get(identity.pid) ?? owner.get(parentPid) ?? first.runId);
  return below.filter(({ identity }) => owner.get(identity.pid) === record.runId);
}

/** The state directory may hold records of other boots and pid namespaces, where the same pid is another process. */
function haveSameAnchor(one: AnchoredRun, other: AnchoredRun): boolean {
  return (
    one.bootId === other.bootId &&
    one.pidNamespace === other.pidNamespace &&
    isSameProcess(one.anchor, other.anchor)
  );
}

export type ProcessQuery = ProcessIdentity | number;

/** Returns live evidence about each process, in the order of `wanted`. */
export async function inspectProcesses(
  anchorPath: string,
  wanted: readonly ProcessQuery[],
  { brief = false, ports = false }: InspectOptions = {},
): Promise<readonly ProcessEvidence[]> {
  if (wanted.length === 0) return [];
  const args = ["inspect", ...(brief ? ["--brief"] : ports ? ["--ports"] : [])];
  const asked = wanted.values();
  const parse = (value: unknown): ProcessEvidence => toQueriedProcess(asked.next().value ?? 0, value);
  return queryAnchor(anchorPath, args, wanted.map(processQuery).join(""), parse, wanted.length);
}

/** Parses the answer to a query. */
export function toQueriedProcess(wanted: ProcessQuery, answer: unknown): ProcessEvidence {
  if (answer === true) return { ...goneEvidence(wanted), alive: true, matches: true };
  return answer === null ? goneEvidence(wanted) : toProcessEvidence(answer);
}

/** A line of input of `anchor inspect`. */
export function processQuery(wanted: ProcessQuery): string {
  if (typeof wanted === "number") return `${requirePid(wanted)}\n`;
  const { pid, startTime, uniqueId } = wanted;
  const unique = uniqueId === null ? "" : ` ${requireDigits(uniqueId)}`;
  return `${requirePid(pid)} ${requireWholeNumber(startTime)}${unique}\n`;
}

export function requirePid(value: number): number {
  if (Number.isSafeInteger(value) && value > 0 && value < 2 ** 31) return value;
  throw new BadInput("pid", `${value} cannot be a process id; nothing was touched`);
}

export function requireWholeNumber(value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new BadInput("number", `${value} is not a whole number of 0 or more; nothing was touched`);
}

export function requireDigits(value: string): string {
  if (/^\d{1,20}$/.test(value)) return value;
  throw new BadInput("uniqueId", `${JSON.stringify(value)} cannot be an inode; nothing was touched`);
}

/** The evidence about a process that is gone. */
export function goneEvidence(wanted: ProcessQuery): ProcessEvidence {
  return {
    identity: typeof wanted === "number" ? { pid: wanted, startTime: 0, uniqueId: null } : wanted,
    alive: false,
    matches: false,
    state: "",
    parentPid: 0,
    processGroupId: 0,
    sessionId: 0,
    uid: 0,
    cgroup: null,
    command: "",
    argv: [],
    stdio: [],
    executable: null,
    leaseId: null,
    runId: null,
    instanceId: null,
    sessionKey: null,
    ancestors: [],
    descendants: [],
  };
}

/** Fields that were not read (a brief inspection, or another process with the same pid) are absent from the answer. */
function toProcessEvidence(value: unknown): ProcessEvidence {
  const object = asObject(value);
  return {
    identity: toIdentity(object),
    alive: asBoolean(object["alive"]),
    matches: asBoolean(object["matches"]),
    state: asString(object["state"]),
    parentPid: asWholeNumber(object["ppid"]),
    processGroupId: asWholeNumber(object["pgid"]),
    sessionId: asWholeNumber(object["sid"]),
    uid: asWholeNumber(object["uid"]),
    cgroup: asNullable(asString, object["cgroup"]),
    command: asString(object["command"]),
    argv: asArray(object["argv"] ?? []).map(asString),
    stdio: asArray(object["stdio"] ?? []).map((item) => asNullable(asString, item)),
    executable: asNullable(asString, object["executable"]),
    leaseId: asNullable(asString, object["leaseId"]),
    runId: asNullable(asString, object["runId"]),
    instanceId: asNullable(asString, object["instanceId"]),
    sessionKey: asNullable(asString, object["sessionKey"]),
    ancestors: asArray(object["ancestors"] ?? []).map((item) => toIdentity(asObject(item))),
    cpuMs: asNullable(asWholeNumber, object["cpuMs"]) ?? 0,
    rssKb: asNullable(asWholeNumber, object["rssKb"]) ?? 0,
    descendants: asArray(object["descendants"] ?? []).map(toLiveProcess),
  };
}

/** Converts one process of a listed answer. */
export function toLiveProcess(value: unknown): LiveProcesses[number] {
  const process = asObject(value);
  return {
    identity: toIdentity(process),
    parentPid: asWholeNumber(process["ppid"]),
    sessionId: asWholeNumber(process["sid"]),
    command: asString(process["command"]),
    state: asString(process["state"]),
    cpuMs: asWholeNumber(process["cpuMs"]),
    rssKb: asWholeNumber(process["rssKb"]),
    ports: asArray(process["ports"] ?? []).map(asWholeNumber),
  };
}

export function toIdentity(object: JsonObject): ProcessIdentity {
  return {
    pid: asWholeNumber(object["pid"]),
    startTime: asWholeNumber(object["startTime"]),
    uniqueId: asNullable(asString, object["uniqueId"]),
  };
}
