import { AnchorUnusable, BadInput } from "../../errors.js";
import type { ProcessIdentity } from "../../model/run.js";
import { runAnchorMode } from "../binary/run-mode.js";
import type { InspectOptions, ProcessEvidence } from "../host.js";
import type { LiveProcesses } from "../members.js";
import {
  asArray,
  asBoolean,
  type JsonObject,
  asNullable,
  parseJson,
  asObject,
  asString,
  asWholeNumber,
} from "../../text/parse-json.js";

type ProcessQuery = ProcessIdentity | number;

/** The whole answer for a process that is gone. Most are: nothing is parsed for them. */
const GONE_ANSWER = "null";

/** Live evidence about processes, one for each asked for, in the same order. */
export async function inspectProcesses(
  anchorPath: string,
  wanted: readonly ProcessQuery[],
  { brief = false, ports = false }: InspectOptions = {},
): Promise<readonly ProcessEvidence[]> {
  if (wanted.length === 0) return [];
  const args = ["inspect", ...(brief ? ["--brief"] : ports ? ["--ports"] : [])];
  const lines = await runAnchorMode(anchorPath, args, wanted.map(queryLine).join(""));
  const answers = wanted.map((one, at) => {
    const line = lines[at];
    if (line === GONE_ANSWER) return goneEvidence(one);
    return line === undefined ? null : parseJson(line, toProcessEvidence);
  });
  if (lines.length !== wanted.length || answers.includes(null)) {
    throw new AnchorUnusable(
      anchorPath,
      `\`anchor inspect\` answered ${lines.length} of ${wanted.length} questions, or not as agreed; nothing was concluded from it`,
    );
  }
  return answers as readonly ProcessEvidence[];
}

function queryLine(wanted: ProcessQuery): string {
  if (typeof wanted === "number") return `${requirePid(wanted)}\n`;
  const { pid, startTime, uniqueId } = wanted;
  const unique = uniqueId === null ? "" : ` ${requireDigits(uniqueId)}`;
  return `${requirePid(pid)} ${requireWholeNumber(startTime)}${unique}\n`;
}

export function requirePid(value: number): number {
  if (Number.isSafeInteger(value) && value > 0 && value < 2 ** 31) return value;
  throw new BadInput("pid", `${value} cannot be a process; nothing was touched`);
}

export function requireWholeNumber(value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new BadInput("number", `${value} is not a whole number from 0 up; nothing was touched`);
}

export function requireDigits(value: string): string {
  if (/^\d{1,20}$/.test(value)) return value;
  throw new BadInput("uniqueId", `${JSON.stringify(value)} cannot be an inode; nothing was touched`);
}

function goneEvidence(wanted: ProcessQuery): ProcessEvidence {
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

/** What was not looked at (a brief look, another process than the one asked for) is not in the answer. */
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

/** One of the processes that a line lists. */
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
