import { BadInput } from "../../errors.js";
import { isSameClock } from "../../home/machine-identity.js";
import {
  isSameProcess,
  type MachineIdentity,
  type ProcessIdentity,
  type Survivor,
} from "../../model/process.js";
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
import { queryAnchor } from "../binary.js";
import type { InspectOptions, PortEvidence, ProcessEvidence } from "./types.js";

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

type ProcessQuery = ProcessIdentity | number;

/** Returns live evidence about each process, in the order of `wanted`. */
export async function inspectProcesses(
  anchorPath: string,
  wanted: readonly ProcessQuery[],
  { brief = false, ports = false }: InspectOptions = {},
): Promise<readonly ProcessEvidence[]> {
  if (wanted.length === 0) return [];
  const args = ["inspect", ...(brief ? ["--brief"] : ports ? ["--ports"] : [])];
  const parse = (value: unknown): ProcessEvidence | null => asNullable(toProcessEvidence, value);
  const answers = await queryAnchor(anchorPath, args, wanted.map(queryLine).join(""), parse, wanted.length);
  return wanted.map((one, at) => answers[at] ?? goneEvidence(one));
}

function queryLine(wanted: ProcessQuery): string {
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

export function requirePort(value: number): number {
  if (Number.isSafeInteger(value) && value > 0 && value < 65_536) return value;
  throw new BadInput("port", `${value} cannot be a TCP port; they go from 1 to 65535`);
}

/** Finds the processes that listen on a TCP port of this network namespace. */
export async function inspectPort(anchorPath: string, port: number): Promise<PortEvidence> {
  const query = `port ${requirePort(port)}\n`;
  const [answer] = await queryAnchor(anchorPath, ["inspect"], query, toPortEvidence, 1);
  return answer as PortEvidence;
}

function toPortEvidence(value: unknown): PortEvidence {
  const object = asObject(value);
  const holders = asArray(object["holders"]).map((item) => {
    const holder = asObject(item);
    return { identity: toIdentity(holder), command: asString(holder["command"]) };
  });
  return { open: asBoolean(object["open"]), holders };
}

/** `unknown`: neither the presence nor the absence of the process is proven. */
export type Liveness = "alive" | "gone" | "unknown";

type Clock = Pick<MachineIdentity, "timeNamespace">;

/** True if a process identified on machine `there` can be distinguished from others `here`. */
export function isComparable({ uniqueId }: ProcessIdentity, there: Clock, here: Clock): boolean {
  return uniqueId !== null || isSameClock(there, here);
}

/** Judges with evidence from `here` whether a process identified `there` is alive. */
export function judgeLiveness(
  wanted: ProcessIdentity,
  there: Clock,
  found: ProcessEvidence | undefined,
  here: Clock,
): Liveness {
  if (found === undefined) return "unknown";
  // `state` does not help: a process whose first thread has ended is shown as a zombie while other threads run.
  if (!found.alive) return "gone";
  if (wanted.uniqueId !== null && found.identity.uniqueId !== null) return found.matches ? "alive" : "gone";
  // The start time is hidden, or was read with another clock.
  if (found.state === HIDDEN_STATE || !isSameClock(there, here)) return "unknown";
  return found.matches ? "alive" : "gone";
}

/** State of a process that exists but is hidden in /proc. */
export const HIDDEN_STATE = "?";

/** Describes a surviving process for users. */
export function describeSurvivor({ pid, kind, command }: Omit<Survivor, "startTime">): string {
  if (pid === 0) return "a process that cannot be inspected";
  return kind === "hidden" ? `${pid} (hidden: cannot be inspected)` : `${pid} ${command} (${kind})`;
}
