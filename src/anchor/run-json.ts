import type {
  AnchorExit,
  DirectoryScope,
  LeaderStatus,
  NotedSilence,
  RecordedStop,
  RunIdentities,
  RunScope,
  SpawnFailure,
  Survivor,
  Swept,
} from "./host.js";
import {
  REAPED,
  type KillMode,
  type ProcessIdentity,
  type Residue,
  type RunUsage,
} from "../store/run-record.js";
import { array, boolean, nullable, oneOf, parseShape, record, string, whole } from "./shape.js";

const RESIDUE_KINDS = ["background", "detached", "migrated", "foreign-uid", "hidden", "unkillable"] as const;
const KINDS = ["task", "service"] as const;
const KILL_MODES = ["none", "pid", "cgroup"] as const;
export const EMPTINESS = ["proven", "unproven"] as const;

/** `exit.json`, also as sent with EXITED. Null when it is not one: as if the file were not there. */
export function parseExit(text: string): AnchorExit | null {
  return parseShape(text, (value) => {
    const exit = record(value);
    const reason = string(exit["reason"]);
    return {
      runId: string(exit["runId"]),
      executed: boolean(exit["executed"]),
      reason,
      actor: string(exit["actor"]),
      requestId: string(exit["requestId"]),
      leader: nullable(leaderStatus, exit["leader"]),
      spawnError: nullable(spawnFailure, exit["spawnError"]),
      residue: array(exit["residue"]).map(residue),
      residueCount: whole(exit["residueCount"]),
      cleaned: nullable(whole, exit["cleaned"]),
      killMode: oneOf(KILL_MODES, exit["killMode"]),
      tier: nullable(string, exit["tier"]),
      tierNote: nullable(string, exit["tierNote"]) || null,
      // An anchor stays until its tree is gone, unless it was told to give up.
      emptiness: oneOf(reason === "lost" ? EMPTINESS : ["proven"], exit["emptiness"]),
      stdout: spoolEnd(exit["stdout"]),
      stderr: spoolEnd(exit["stderr"]),
      processes: whole(exit["processes"]),
      usage: usage(exit["usage"]),
      limitHit: nullable((hit) => oneOf(["memory", "pids"], hit), exit["limitHit"]),
      durationMs: whole(exit["durationMs"]),
      endedAt: nullable(whole, exit["endedAt"]),
    };
  });
}

/**
 * `scope` and `kind` of `anchor.json`. Null: an older anchor, or one that was told no scope. The kind in the scope is that
 * of the start: without `kind`, a task may have become a service since.
 */
export function parseScope(text: string): (Omit<RunScope, "kind"> & Pick<DirectoryScope, "kind">) | null {
  const facts = parseShape(text, (value) => {
    const { scope: started, kind } = record(value);
    return { started: string(started), kind: nullable((each) => oneOf(KINDS, each), kind) };
  });
  const said = facts === null || facts.started === "" ? null : parseShape(facts.started, scope);
  if (facts === null || said === null) return null;
  return { ...said, kind: facts.kind ?? (said.kind === "service" ? "service" : null) };
}

function scope(value: unknown): RunScope {
  const said = record(value);
  const text = (name: string): string | null => nullable(string, said[name]);
  const labels = Object.entries(record(said["labels"])).map(([key, label]) => [key, string(label)]);
  return {
    sessionKey: text("sessionKey"),
    sessionId: text("sessionId"),
    backendId: text("backendId"),
    agentId: text("agentId"),
    taskId: text("taskId"),
    labels: Object.fromEntries(labels),
    kind: oneOf(KINDS, said["kind"]),
    command: string(said["command"]),
  };
}

/** `leader.json` */
export function parseLeader(text: string): LeaderStatus | null {
  return parseShape(text, leaderStatus);
}

/** `stop.json` */
export function parseStop(text: string): RecordedStop | null {
  return parseShape(text, (value) => {
    const stop = record(value);
    const withoutAnchor = nullable(boolean, stop["withoutAnchor"]) === true;
    return {
      reason: string(stop["reason"]),
      actor: string(stop["actor"]),
      requestId: string(stop["requestId"]),
      ...(withoutAnchor ? { withoutAnchor } : {}),
    };
  });
}

/** `silent.json` */
export function parseSilence(text: string): NotedSilence | null {
  return parseShape(text, (value) => {
    const noted = record(value);
    return {
      at: whole(noted["at"]),
      silentMs: whole(noted["silentMs"]),
      continued: boolean(noted["continued"]),
    };
  });
}

/** `anchor.json` */
export function parseIdentities(text: string): RunIdentities | null {
  return parseShape(text, (value) => {
    const facts = record(value);
    const cgroup = string(facts["cgroup"]);
    const root = processIdentity(facts["root"]);
    return {
      anchor: processIdentity(facts["anchor"]),
      root: root.pid === 0 ? null : root,
      cgroup: cgroup === "" ? null : { path: cgroup, inode: string(facts["cgroupInode"]) },
    };
  });
}

function processIdentity(value: unknown): ProcessIdentity {
  const facts = record(value);
  const uniqueId = string(facts["uniqueId"]);
  return {
    pid: whole(facts["pid"]),
    startTime: whole(facts["startTime"]),
    uniqueId: uniqueId === "0" ? null : uniqueId,
  };
}

/** `swept.json` */
export function parseSwept(text: string): Swept | null {
  return parseShape(text, (value) => {
    const swept = record(value);
    return {
      anchorSignal: nullable(whole, swept["anchorSignal"]),
      killed: whole(swept["killed"]),
      killMode: killMode(swept["killMode"]),
      emptiness: oneOf(EMPTINESS, swept["emptiness"]),
    };
  });
}

export function parseSurvivors(text: string): readonly Survivor[] | null {
  return parseShape(text, survivors);
}

export function survivors(value: unknown): readonly Survivor[] {
  return array(value).map((item) => {
    const process = record(item);
    return {
      pid: whole(process["pid"]),
      startTime: whole(process["startTime"]),
      kind: string(process["kind"]),
      command: string(process["command"]),
    };
  });
}

/** Older anchors did not say who counted. */
function usage(value: unknown): Omit<RunUsage, "processes"> {
  const used = record(value);
  const said = nullable(record, used["source"]);
  const source =
    said === null ? REAPED.source : { cpu: counted(said["cpu"]), memory: counted(said["memory"]) };
  return {
    cpuMs: whole(used["cpuMs"]),
    peakKb: whole(used["peakKb"]),
    peakTasks: nullable(whole, used["peakTasks"]),
    source,
  };
}

function counted(value: unknown): "cgroup" | "reaped" {
  return oneOf(["cgroup", "reaped"], value);
}

/** Older ones did not say. One by one is what always happens, whatever else. */
export function killMode(value: unknown): KillMode {
  return nullable((mode) => oneOf(KILL_MODES, mode), value) ?? "pid";
}

function leaderStatus(value: unknown): LeaderStatus {
  const status = record(value);
  const signal = nullable(whole, status["signal"]);
  if (signal !== null) return { code: null, signal };
  return { code: whole(status["code"]), signal: null };
}

function spawnFailure(value: unknown): SpawnFailure {
  const failure = record(value);
  return {
    errno: whole(failure["errno"]),
    step: string(failure["step"]),
    message: string(failure["message"]),
  };
}

export function residue(value: unknown): Residue {
  const process = record(value);
  return {
    pid: whole(process["pid"]),
    startTime: whole(process["startTime"]),
    kind: oneOf(RESIDUE_KINDS, process["kind"]),
    command: string(process["command"]),
  };
}

function spoolEnd(value: unknown): AnchorExit["stdout"] {
  const range = record(value);
  const lost = nullable(whole, range["lost"]) ?? 0;
  return {
    start: whole(range["start"]),
    end: whole(range["end"]),
    dropped: whole(range["dropped"]),
    ...(lost === 0 ? {} : { lost }),
  };
}
