import type { AnchorHost, CgroupState, LocalInstance, RunAddress, RunFiles } from "../../anchor/host.js";
import { judgeLiveness, type Liveness } from "../../anchor/inspect/liveness.js";
import type { Clock } from "../../async/clock.js";
import { runConcurrently } from "../../async/semaphore.js";
import { defaults } from "../../defaults.js";
import { isSameMachine } from "../../home/machine-identity.js";
import type { RunRecord } from "../../model/run.js";
import { cgroupOf, runAddressOf } from "../run/recorded-identity.js";
import type { Evidence, ImportedEvidence } from "./decide.js";
import { gatherImportedEvidence } from "./imported-evidence.js";
import type { ProcessIdentity } from "../../model/process.js";

/** The part of a host that looks and touches nothing. */
export type EvidenceSource = Pick<
  AnchorHost,
  | "machine"
  | "attach"
  | "readRunFiles"
  | "listInstances"
  | "listRunIds"
  | "inspectProcesses"
  | "inspectCgroups"
  | "findMarkedLeases"
>;

/**
 * What can be seen of these runs now. Processes and boundaries are asked for in two questions, however many there are;
 * a directory is read only where there is one. Of a run whose directory cannot be read there is no sight.
 */
export async function gatherEvidence(
  host: EvidenceSource,
  clock: Clock,
  instances: ReadonlyMap<string, LocalInstance>,
  records: readonly RunRecord[],
): Promise<ReadonlyMap<string, Evidence>> {
  const directories = await listDirectories(host, instances, records);
  const numbered = records.filter(
    (record) => isSameMachine(host.machine, record) && record.imported === null,
  );
  const processes = await probeProcesses(host, numbered);
  const boundaries = await probeBoundaries(host, numbered, processes);
  const marked = await findMarkers(host, numbered, boundaries);
  const evidenceByRun = new Map<string, Evidence>();
  const gather = async (record: RunRecord): Promise<Evidence> => {
    const { runId } = record;
    const seen = processes.get(runId) ?? { anchor: "gone", root: "gone" };
    const boundary = boundaries.get(runId) ?? (cgroupOf(record) === null ? null : "unknown");
    let evidence: Evidence = {
      ...NO_EVIDENCE,
      ...seen,
      boundary,
      marked: marked === null || marked.has(record.leaseId),
    };
    if (directories.get(record.originInstanceId)?.has(runId) === true)
      evidence = await readRunDirectory(host, clock, instances, record, evidence);
    const imported = record.imported === null ? null : await gatherImportedEvidence(host, record);
    return { ...evidence, imported };
  };
  await runConcurrently(
    defaults.recoverAtOnce,
    records.map((record) => async () => {
      if (directories.get(record.originInstanceId) === null) return;
      const evidence = await gather(record).catch(() => null);
      if (evidence !== null) evidenceByRun.set(record.runId, evidence);
    }),
  );
  return evidenceByRun;
}

const NO_EVIDENCE = { exitFile: false, swept: false, imported: null as ImportedEvidence | null };

/** By instance. Null: they cannot be listed. */
async function listDirectories(
  host: EvidenceSource,
  instances: ReadonlyMap<string, LocalInstance>,
  records: readonly RunRecord[],
): Promise<ReadonlyMap<string, ReadonlySet<string> | null>> {
  const origins = new Set(records.map((record) => record.originInstanceId).filter((id) => instances.has(id)));
  const found = [...origins].map(async (instanceId) => {
    const runIds = await host.listRunIds(instanceId).catch(() => null);
    return [instanceId, runIds === null ? null : new Set(runIds)] as const;
  });
  return new Map(await Promise.all(found));
}

interface ProcessLiveness {
  readonly anchor: Liveness;
  readonly root: Liveness;
}

/** One question for all. When it cannot be answered, nothing is known of any. */
async function probeProcesses(
  host: EvidenceSource,
  records: readonly RunRecord[],
): Promise<ReadonlyMap<string, ProcessLiveness>> {
  const wanted: ProcessIdentity[] = [];
  for (const { anchor, root } of records) {
    if (anchor !== null) wanted.push(anchor);
    if (root !== null) wanted.push(root);
  }
  const evidence = await host.inspectProcesses(wanted, { brief: true }).catch(() => null);
  let at = 0;
  const next = (record: RunRecord, identity: ProcessIdentity | null): Liveness =>
    identity === null ? "gone" : judgeLiveness(identity, record, evidence?.[at++], host.machine);
  return new Map(
    records.map((record) => {
      const { runId, anchor, root } = record;
      return [runId, { anchor: next(record, anchor), root: next(record, root) }] as const;
    }),
  );
}

/** Only of runs without an anchor: the others look after theirs. */
async function probeBoundaries(
  host: EvidenceSource,
  records: readonly RunRecord[],
  processes: ReadonlyMap<string, ProcessLiveness>,
): Promise<ReadonlyMap<string, CgroupState>> {
  const asked = records.flatMap((record) => {
    const cgroup = cgroupOf(record);
    return cgroup !== null && processes.get(record.runId)?.anchor !== "alive"
      ? [{ runId: record.runId, cgroup }]
      : [];
  });
  const evidence = await host.inspectCgroups(asked.map(({ cgroup }) => cgroup)).catch(() => null);
  return new Map(asked.map(({ runId }, at) => [runId, evidence?.[at] ?? "unknown"] as const));
}

/** One look for all whose cgroup is empty: who has left it still carries the marker. Null: nobody can say who does. */
async function findMarkers(
  host: EvidenceSource,
  records: readonly RunRecord[],
  boundaries: ReadonlyMap<string, CgroupState>,
): Promise<ReadonlySet<string> | null> {
  const empty = records.filter(({ runId, leaseId }) => {
    const boundary = boundaries.get(runId);
    return leaseId !== "" && (boundary === "empty" || boundary === "gone");
  });
  return host.findMarkedLeases(empty.map(({ leaseId }) => leaseId)).catch(() => null);
}

/** The run has a directory: what is written there, and whether somebody answers for it. */
async function readRunDirectory(
  host: EvidenceSource,
  clock: Clock,
  instances: ReadonlyMap<string, LocalInstance>,
  record: RunRecord,
  evidence: Evidence,
): Promise<Evidence> {
  const address = runAddressOf(record);
  if (evidence.anchor === "alive") {
    // It may have written its end and be on its way out.
    const { exit } = await host.readRunFiles(address);
    return { ...evidence, exitFile: exit !== null };
  }
  const launched = instances.get(record.originInstanceId)?.launched === true;
  // Its identity is not on record, or cannot be compared here: the process that accepts its key is the anchor.
  // When the kernel says that the process is gone, another process listens on its socket.
  const unidentified = record.anchor === null || !isSameMachine(host.machine, record);
  const asked = (unidentified || evidence.anchor === "unknown") && record.bootId === host.machine.bootId;
  const answer = asked ? await probeAnchor(host, address) : "gone";
  const anchor = unidentified || answer !== "gone" ? answer : evidence.anchor;
  const wait = launched && isSameMachine(host.machine, record) && anchor === "gone" && record.root !== null;
  const runFiles = await waitForRunFiles(host, clock, address, wait);
  return { ...evidence, anchor, exitFile: runFiles.exit !== null, swept: runFiles.swept !== null };
}

async function probeAnchor(host: EvidenceSource, address: RunAddress): Promise<Liveness> {
  try {
    const observer = await host.attach(address, 0);
    observer?.close();
    return observer === null ? "gone" : "alive";
  } catch {
    return "unknown";
  }
}

/** While there is a launcher it is cleaning up after the dead anchor, and says so within milliseconds. */
async function waitForRunFiles(
  host: EvidenceSource,
  clock: Clock,
  address: RunAddress,
  wait: boolean,
): Promise<RunFiles> {
  const until = clock.now() + defaults.sweptWaitMs;
  for (;;) {
    const runFiles = await host.readRunFiles(address);
    if (!wait || runFiles.exit !== null || runFiles.swept !== null || clock.now() >= until) return runFiles;
    await clock.sleep(defaults.sweptPollMs);
  }
}
