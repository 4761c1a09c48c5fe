import { AnchorUnusable, BadInput } from "../errors.js";
import type { ProcessIdentity } from "../store/run-record.js";
import { askAnchor } from "./ask.js";
import type { InspectOptions, ProcessEvidence } from "./host.js";
import type { LiveProcesses } from "./members.js";
import { array, boolean, type Facts, nullable, parseShape, record, string, whole } from "./shape.js";

type Wanted = ProcessIdentity | number;

/** The whole answer for a process that is gone. Most are: nothing is parsed for them. */
const GONE = "null";

/** Live evidence about processes, one for each asked for, in the same order. */
export async function inspect(
  anchorPath: string,
  wanted: readonly Wanted[],
  { brief = false, ports = false }: InspectOptions = {},
): Promise<readonly ProcessEvidence[]> {
  if (wanted.length === 0) return [];
  const args = ["inspect", ...(brief ? ["--brief"] : ports ? ["--ports"] : [])];
  const lines = await askAnchor(anchorPath, args, wanted.map(question).join(""));
  const answers = wanted.map((one, at) => {
    const line = lines[at];
    if (line === GONE) return gone(one);
    return line === undefined ? null : parseShape(line, evidence);
  });
  if (lines.length !== wanted.length || answers.includes(null)) {
    throw new AnchorUnusable(
      anchorPath,
      `\`anchor inspect\` answered ${lines.length} of ${wanted.length} questions, or not as agreed; nothing was concluded from it`,
    );
  }
  return answers as readonly ProcessEvidence[];
}

function question(wanted: Wanted): string {
  if (typeof wanted === "number") return `${mustBePid(wanted)}\n`;
  const { pid, startTime, uniqueId } = wanted;
  const unique = uniqueId === null ? "" : ` ${mustBeDigits(uniqueId)}`;
  return `${mustBePid(pid)} ${mustBeWhole(startTime)}${unique}\n`;
}

export function mustBePid(value: number): number {
  if (Number.isSafeInteger(value) && value > 0 && value < 2 ** 31) return value;
  throw new BadInput("pid", `${value} cannot be a process; nothing was touched`);
}

export function mustBeWhole(value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new BadInput("number", `${value} is not a whole number from 0 up; nothing was touched`);
}

export function mustBeDigits(value: string): string {
  if (/^\d{1,20}$/.test(value)) return value;
  throw new BadInput("uniqueId", `${JSON.stringify(value)} cannot be an inode; nothing was touched`);
}

function gone(wanted: Wanted): ProcessEvidence {
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
function evidence(value: unknown): ProcessEvidence {
  const facts = record(value);
  return {
    identity: identity(facts),
    alive: boolean(facts["alive"]),
    matches: boolean(facts["matches"]),
    state: string(facts["state"]),
    parentPid: whole(facts["ppid"]),
    processGroupId: whole(facts["pgid"]),
    sessionId: whole(facts["sid"]),
    uid: whole(facts["uid"]),
    cgroup: nullable(string, facts["cgroup"]),
    command: string(facts["command"]),
    argv: array(facts["argv"] ?? []).map(string),
    stdio: array(facts["stdio"] ?? []).map((item) => nullable(string, item)),
    executable: nullable(string, facts["executable"]),
    leaseId: nullable(string, facts["leaseId"]),
    runId: nullable(string, facts["runId"]),
    instanceId: nullable(string, facts["instanceId"]),
    sessionKey: nullable(string, facts["sessionKey"]),
    ancestors: array(facts["ancestors"] ?? []).map((item) => identity(record(item))),
    cpuMs: nullable(whole, facts["cpuMs"]) ?? 0,
    rssKb: nullable(whole, facts["rssKb"]) ?? 0,
    descendants: array(facts["descendants"] ?? []).map(member),
  };
}

/** One of the processes that a line lists. */
export function member(value: unknown): LiveProcesses[number] {
  const process = record(value);
  return {
    identity: identity(process),
    parentPid: whole(process["ppid"]),
    sessionId: whole(process["sid"]),
    command: string(process["command"]),
    state: string(process["state"]),
    cpuMs: whole(process["cpuMs"]),
    rssKb: whole(process["rssKb"]),
    ports: array(process["ports"] ?? []).map(whole),
  };
}

export function identity(facts: Facts): ProcessIdentity {
  return {
    pid: whole(facts["pid"]),
    startTime: whole(facts["startTime"]),
    uniqueId: nullable(string, facts["uniqueId"]),
  };
}
