import type {
  AnchorExit,
  DirectoryScope,
  LeaderStatus,
  SilentFile,
  StopFile,
  RunIdentities,
  RunScope,
  SpawnFailure,
  SweptFile,
} from "./run-file-types.js";
import type { Survivor, ProcessIdentity, Residue } from "../../model/process.js";
import { REAPED_USAGE, type KillMode, type RunUsage, type UsageSource } from "../../model/run.js";
import {
  asArray,
  asBoolean,
  asNullable,
  asOneOf,
  parseJson,
  asObject,
  asString,
  asWholeNumber,
} from "../../text/parse-json.js";

const RESIDUE_KINDS = ["background", "detached", "migrated", "foreign-uid", "hidden", "unkillable"] as const;
const RUN_KINDS = ["task", "service"] as const;
const KILL_MODES = ["none", "pid", "pgid", "cgroup", "job"] as const;
export const EMPTINESS_VALUES = ["proven", "unproven"] as const;

/** Parses `exit.json`, also as sent with EXITED. Null if it is invalid, as if the file were missing. */
export function parseExit(text: string): AnchorExit | null {
  return parseJson(text, (value) => {
    const exit = asObject(value);
    const reason = asString(exit["reason"]);
    return {
      runId: asString(exit["runId"]),
      executed: asBoolean(exit["executed"]),
      reason,
      actor: asString(exit["actor"]),
      requestId: asString(exit["requestId"]),
      leader: asNullable(toLeaderStatus, exit["leader"]),
      spawnError: asNullable(toSpawnFailure, exit["spawnError"]),
      residue: asArray(exit["residue"]).map(toResidue),
      residueCount: asWholeNumber(exit["residueCount"]),
      cleaned: asNullable(asWholeNumber, exit["cleaned"]),
      killMode: asOneOf(KILL_MODES, exit["killMode"]),
      tier: asNullable(asString, exit["tier"]),
      tierNote: asNullable(asString, exit["tierNote"]) || null,
      // With any other boundary the anchor waits for a proof, unless the run was abandoned.
      emptiness: asOneOf(
        reason === "lost" || /^(?:lineage|group)\b/.test(String(exit["tier"]))
          ? EMPTINESS_VALUES
          : ["proven"],
        exit["emptiness"],
      ),
      emptinessNote: asNullable(asString, exit["emptinessNote"]) || null,
      stdout: toSpoolEnd(exit["stdout"]),
      stderr: toSpoolEnd(exit["stderr"]),
      processes: asWholeNumber(exit["processes"]),
      usage: toUsage(exit["usage"]),
      limitHit: asNullable((hit) => asOneOf(["memory", "pids"], hit), exit["limitHit"]),
      durationMs: asWholeNumber(exit["durationMs"]),
      endedAt: asNullable(asWholeNumber, exit["endedAt"]),
    };
  });
}

/**
 * Parses `scope` and `kind` of `anchor.json`. Null if an older anchor wrote the file, or the anchor got no scope. The
 * kind in the scope is that of the start: without `kind`, a task may have become a service since.
 */
export function parseScope(text: string): (Omit<RunScope, "kind"> & Pick<DirectoryScope, "kind">) | null {
  const object = parseJson(text, (value) => {
    const { scope: started, kind } = asObject(value);
    return { started: asString(started), kind: asNullable((each) => asOneOf(RUN_KINDS, each), kind) };
  });
  const parsed = object === null || object.started === "" ? null : parseJson(object.started, toScope);
  if (object === null || parsed === null) return null;
  return { ...parsed, kind: object.kind ?? (parsed.kind === "service" ? "service" : null) };
}

function toScope(value: unknown): RunScope {
  const parsed = asObject(value);
  const text = (name: string): string | null => asNullable(asString, parsed[name]);
  const labels = Object.entries(asObject(parsed["labels"])).map(([key, label]) => [key, asString(label)]);
  return {
    sessionKey: text("sessionKey"),
    sessionId: text("sessionId"),
    backendId: text("backendId"),
    agentId: text("agentId"),
    taskId: text("taskId"),
    labels: Object.fromEntries(labels),
    kind: asOneOf(RUN_KINDS, parsed["kind"]),
    command: asString(parsed["command"]),
  };
}

/** `leader.json` */
export function parseLeaderFile(text: string): LeaderStatus | null {
  return parseJson(text, toLeaderStatus);
}

/** `stop.json` */
export function parseStopFile(text: string): StopFile | null {
  return parseJson(text, (value) => {
    const stop = asObject(value);
    const withoutAnchor = asNullable(asBoolean, stop["withoutAnchor"]) === true;
    return {
      reason: asString(stop["reason"]),
      actor: asString(stop["actor"]),
      requestId: asString(stop["requestId"]),
      ...(withoutAnchor ? { withoutAnchor } : {}),
    };
  });
}

/** `silent.json` */
export function parseSilentFile(text: string): SilentFile | null {
  return parseJson(text, (value) => {
    const noted = asObject(value);
    return {
      at: asWholeNumber(noted["at"]),
      silentMs: asWholeNumber(noted["silentMs"]),
      continued: asBoolean(noted["continued"]),
    };
  });
}

/** `anchor.json` */
export function parseAnchorFile(text: string): RunIdentities | null {
  return parseJson(text, (value) => {
    const object = asObject(value);
    const cgroup = asString(object["cgroup"]);
    const root = toProcessIdentity(object["root"]);
    return {
      anchor: toProcessIdentity(object["anchor"]),
      root: root.pid === 0 ? null : root,
      cgroup: cgroup === "" ? null : { path: cgroup, inode: asString(object["cgroupInode"]) },
    };
  });
}

function toProcessIdentity(value: unknown): ProcessIdentity {
  const object = asObject(value);
  const uniqueId = asString(object["uniqueId"]);
  return {
    pid: asWholeNumber(object["pid"]),
    startTime: asWholeNumber(object["startTime"]),
    uniqueId: uniqueId === "0" ? null : uniqueId,
  };
}

/** `swept.json` */
export function parseSweptFile(text: string): SweptFile | null {
  return parseJson(text, (value) => {
    const swept = asObject(value);
    return {
      anchorSignal: asNullable(asWholeNumber, swept["anchorSignal"]),
      killed: asWholeNumber(swept["killed"]),
      killMode: toKillMode(swept["killMode"]),
      emptiness: asOneOf(EMPTINESS_VALUES, swept["emptiness"]),
    };
  });
}

export function parseSurvivors(text: string): readonly Survivor[] | null {
  return parseJson(text, toSurvivors);
}

export function toSurvivors(value: unknown): readonly Survivor[] {
  return asArray(value).map((item) => {
    const process = asObject(item);
    return {
      pid: asWholeNumber(process["pid"]),
      startTime: asWholeNumber(process["startTime"]),
      kind: asString(process["kind"]),
      command: asString(process["command"]),
    };
  });
}

/** Older anchors did not write the source of the numbers. */
function toUsage(value: unknown): Omit<RunUsage, "processes"> {
  const used = asObject(value);
  const parsed = asNullable(asObject, used["source"]);
  const source =
    parsed === null
      ? REAPED_USAGE.source
      : { cpu: toUsageSource(parsed["cpu"]), memory: toUsageSource(parsed["memory"]) };
  return {
    cpuMs: asWholeNumber(used["cpuMs"]),
    peakKb: asWholeNumber(used["peakKb"]),
    peakTasks: asNullable(asWholeNumber, used["peakTasks"]),
    source,
  };
}

function toUsageSource(value: unknown): UsageSource {
  return asOneOf(["cgroup", "job", "reaped"], value);
}

/** Older anchors did not write the mode. They always killed processes one by one. */
export function toKillMode(value: unknown): KillMode {
  return asNullable((mode) => asOneOf(KILL_MODES, mode), value) ?? "pid";
}

function toLeaderStatus(value: unknown): LeaderStatus {
  const status = asObject(value);
  const signal = asNullable(asWholeNumber, status["signal"]);
  if (signal !== null) return { code: null, signal };
  return { code: asWholeNumber(status["code"]), signal: null };
}

function toSpawnFailure(value: unknown): SpawnFailure {
  const failure = asObject(value);
  return {
    errno: asWholeNumber(failure["errno"]),
    step: asString(failure["step"]),
    message: asString(failure["message"]),
  };
}

export function toResidue(value: unknown): Residue {
  const process = asObject(value);
  return {
    pid: asWholeNumber(process["pid"]),
    startTime: asWholeNumber(process["startTime"]),
    kind: asOneOf(RESIDUE_KINDS, process["kind"]),
    command: asString(process["command"]),
  };
}

function toSpoolEnd(value: unknown): AnchorExit["stdout"] {
  const range = asObject(value);
  const lost = asNullable(asWholeNumber, range["lost"]) ?? 0;
  return {
    start: asWholeNumber(range["start"]),
    end: asWholeNumber(range["end"]),
    dropped: asWholeNumber(range["dropped"]),
    ...(lost === 0 ? {} : { lost }),
  };
}
