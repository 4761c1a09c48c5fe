import type { ProcessEvidence } from "../../../src/anchor/host.js";
import type { ProcessIdentity } from "../../../src/model/process.js";
import type { SimulatedPidNamespace, SimulatedProcess } from "./machine.js";

/** Who has the number now, and whether it is who was asked for: start time, and unique id where there is one. */
export function evidenceOf(place: SimulatedPidNamespace, wanted: ProcessIdentity | number): ProcessEvidence {
  const pid = typeof wanted === "number" ? wanted : wanted.pid;
  const found = place.processes.get(pid) ?? null;
  const asked = typeof wanted === "number" ? { pid, startTime: 0, uniqueId: null } : wanted;
  return {
    identity: found?.identity ?? asked,
    alive: found !== null,
    matches: found !== null && (typeof wanted === "number" || matchesIdentity(found, wanted)),
    state: found === null ? "" : "S",
    parentPid: found?.parent?.identity.pid ?? 1,
    processGroupId: pid,
    sessionId: found?.session.identity.pid ?? 0,
    uid: 1000,
    cgroup: found?.cgroup?.path ?? null,
    command: found?.what ?? "",
    argv: found === null ? [] : [found.what],
    stdio: [],
    executable: null,
    leaseId: found?.leaseId ?? null,
    runId: found?.runId ?? null,
    instanceId: null,
    sessionKey: null,
    ancestors: [],
    descendants: [],
  };
}

export function matchesIdentity({ identity }: SimulatedProcess, wanted: ProcessIdentity): boolean {
  return (
    identity.startTime === wanted.startTime &&
    (wanted.uniqueId === null || identity.uniqueId === null || identity.uniqueId === wanted.uniqueId)
  );
}
