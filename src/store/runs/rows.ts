import type { Expression, InsertObject } from "kysely";
import { NO_LIMITS, REAPED_USAGE, type RunExit, type RunRecord, type RunUsage } from "../../model/run.js";
import type { ProcessIdentity } from "../../model/process.js";
import type { RunTable, Schema } from "../schema.js";
import type { NewRun } from "./store.js";

/** What is known at the start; the rest is null until a step says it. */
export function newRunColumns(run: NewRun, leaseExpiresAt: Expression<number>): InsertObject<Schema, "runs"> {
  return {
    run_id: run.runId,
    lease_id: run.leaseId,
    session_key: run.sessionKey,
    session_id: run.sessionId,
    backend_id: run.backendId,
    agent_id: run.agentId,
    labels: JSON.stringify(run.labels),
    kind: run.kind,
    io: run.io,
    command: run.command,
    command_hash: run.commandHash,
    cwd: run.cwd,
    host_id: run.hostId,
    boot_id: run.bootId,
    pid_namespace: run.pidNamespace,
    time_namespace: run.timeNamespace,
    state_id: run.stateId,
    anchor_path: run.anchorPath,
    state: "starting",
    origin_instance_id: run.originInstanceId,
    owner_instance_id: run.ownerInstanceId,
    lease_epoch: run.leaseEpoch,
    lease_expires_at: leaseExpiresAt,
    deadlines: JSON.stringify(run.deadlines),
    policy: JSON.stringify(run.policy),
    limits: JSON.stringify(run.limits),
    created_at: run.createdAt,
    updated_at: run.createdAt,
    residue: "[]",
    residue_count: 0,
    service: run.service === null ? null : JSON.stringify(run.service),
    imported: run.imported === null ? null : JSON.stringify(run.imported),
  };
}

/** All of it, as it was. */
export function runColumns(run: RunRecord, leaseExpiresAt: Expression<number>): InsertObject<Schema, "runs"> {
  const { anchor, root, exit } = run;
  return {
    ...newRunColumns(run, leaseExpiresAt),
    anchor_pid: anchor?.pid ?? null,
    anchor_start_time: anchor?.startTime ?? null,
    anchor_unique_id: anchor?.uniqueId ?? null,
    root_pid: root?.pid ?? null,
    root_start_time: root?.startTime ?? null,
    root_unique_id: root?.uniqueId ?? null,
    process_group_id: run.processGroupId,
    boundary: run.boundary === null ? null : JSON.stringify(run.boundary),
    tier: run.tier,
    state: run.state,
    started_at: run.startedAt,
    last_output_at: run.lastOutputAt,
    updated_at: run.updatedAt,
    ended_at: run.endedAt,
    exit_reason: exit?.reason ?? null,
    exit_actor: exit?.actor ?? null,
    exit_code: exit?.code ?? null,
    exit_signal: exit?.signal ?? null,
    exit_source: exit?.source ?? null,
    exit_detail: exit?.detail ?? null,
    exit_errno: exit?.errno ?? null,
    exit_limit: exit?.limitHit ?? null,
    residue: JSON.stringify(run.residue),
    residue_count: run.residueCount,
    usage: run.usage === null ? null : JSON.stringify(run.usage),
    emptiness: run.emptiness,
    hidden_at: run.hiddenAt,
  };
}

/** All columns but the labels. */
export const COLUMNS_WITHOUT_LABELS = [
  "run_id",
  "lease_id",
  "session_key",
  "session_id",
  "backend_id",
  "agent_id",
  "kind",
  "io",
  "command",
  "command_hash",
  "cwd",
  "host_id",
  "boot_id",
  "pid_namespace",
  "time_namespace",
  "state_id",
  "anchor_path",
  "anchor_pid",
  "anchor_start_time",
  "anchor_unique_id",
  "root_pid",
  "root_start_time",
  "root_unique_id",
  "process_group_id",
  "boundary",
  "tier",
  "state",
  "origin_instance_id",
  "owner_instance_id",
  "lease_epoch",
  "lease_expires_at",
  "deadlines",
  "policy",
  "limits",
  "created_at",
  "started_at",
  "last_output_at",
  "updated_at",
  "ended_at",
  "residue",
  "residue_count",
  "usage",
  "emptiness",
  "service",
  "imported",
  "hidden_at",
  "exit_reason",
  "exit_actor",
  "exit_source",
  "exit_code",
  "exit_signal",
  "exit_detail",
  "exit_errno",
  "exit_limit",
] as const satisfies readonly (keyof RunTable)[];

export function toRunRecord(row: RunTable): RunRecord {
  return {
    runId: row.run_id,
    leaseId: row.lease_id,
    sessionKey: row.session_key,
    sessionId: row.session_id,
    backendId: row.backend_id,
    agentId: row.agent_id,
    labels: JSON.parse(row.labels) as RunRecord["labels"],
    kind: row.kind,
    io: row.io,
    command: row.command,
    commandHash: row.command_hash,
    cwd: row.cwd,
    hostId: row.host_id,
    bootId: row.boot_id,
    pidNamespace: row.pid_namespace,
    timeNamespace: row.time_namespace,
    stateId: row.state_id,
    anchorPath: row.anchor_path,
    anchor: processIdentity(row.anchor_pid, row.anchor_start_time, row.anchor_unique_id),
    root: processIdentity(row.root_pid, row.root_start_time, row.root_unique_id),
    processGroupId: row.process_group_id,
    boundary: row.boundary === null ? null : (JSON.parse(row.boundary) as RunRecord["boundary"]),
    tier: row.tier,
    state: row.state,
    originInstanceId: row.origin_instance_id,
    ownerInstanceId: row.owner_instance_id,
    leaseEpoch: row.lease_epoch,
    leaseExpiresAt: row.lease_expires_at,
    deadlines: JSON.parse(row.deadlines) as RunRecord["deadlines"],
    policy: policyOf(row.policy),
    limits: row.limits === null ? NO_LIMITS : (JSON.parse(row.limits) as RunRecord["limits"]),
    createdAt: row.created_at,
    startedAt: row.started_at,
    lastOutputAt: row.last_output_at,
    updatedAt: row.updated_at,
    endedAt: row.ended_at,
    exit: exitOf(row),
    residue: JSON.parse(row.residue) as RunRecord["residue"],
    residueCount: row.residue_count,
    usage: row.usage === null ? null : usageOf(row.usage),
    emptiness: row.emptiness,
    service: row.service === null ? null : (JSON.parse(row.service) as RunRecord["service"]),
    imported: row.imported === null ? null : (JSON.parse(row.imported) as RunRecord["imported"]),
    hiddenAt: row.hidden_at,
  };
}

/** Rows from before there was a choice say nothing of it. */
function policyOf(text: string): RunRecord["policy"] {
  const stored = JSON.parse(text) as Omit<RunRecord["policy"], "onOrphan" | "callerBound">;
  return { onOrphan: "terminate", callerBound: false, ...stored };
}

function usageOf(text: string): RunUsage {
  return { ...REAPED_USAGE, ...(JSON.parse(text) as Omit<RunUsage, keyof typeof REAPED_USAGE>) };
}

function processIdentity(
  pid: number | null,
  startTime: number | null,
  uniqueId: string | null,
): ProcessIdentity | null {
  return pid === null || startTime === null ? null : { pid, startTime, uniqueId };
}

function exitOf(row: RunTable): RunExit | null {
  if (row.exit_reason === null || row.exit_actor === null || row.exit_source === null) return null;
  return {
    reason: row.exit_reason,
    actor: row.exit_actor,
    code: row.exit_code,
    signal: row.exit_signal,
    source: row.exit_source,
    detail: row.exit_detail,
    errno: row.exit_errno,
    limitHit: row.exit_limit,
  };
}
