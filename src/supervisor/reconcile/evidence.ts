import { posix } from "node:path";
import type {
  AnchorHost,
  AnchorLink,
  CgroupState,
  LocalInstance,
  ProcessEvidence,
  RunAddress,
  RunFiles,
} from "../../anchor/host-interface.js";
import { judgeLiveness, type Liveness } from "../../anchor/inspect/liveness.js";
import type { Clock } from "../../async/clock.js";
import { runConcurrently } from "../../async/concurrency.js";
import { defaults } from "../../defaults.js";
import { HIDDEN_STATE, isSameClock, isSameMachine, type ProcessIdentity } from "../../model/process.js";
import type { ImportedFacts, RunRecord } from "../../model/run.js";
import { commandHash } from "../../text/redact.js";
import { cgroupOf, runAddressOf } from "../run/recorded-identity.js";
import type { Evidence, ImportedEvidence } from "./decide.js";

/** Inspects the process of an imported record. All recorded facts must match, because a pid alone proves nothing. */
export async function gatherImportedEvidence(
  host: Pick<AnchorHost, "inspectProcesses" | "machine">,
  record: RunRecord,
): Promise<ImportedEvidence> {
  const { imported } = record;
  if (imported === null) return { kind: "unknown", why: "nothing is recorded" };
  if (imported.startTime !== null && !isSameClock(record, host.machine))
    return { kind: "unknown", why: "its start time was read in another time namespace" };
  try {
    const [evidence] = await host.inspectProcesses([imported.pid]);
    return evidence === undefined
      ? { kind: "unknown", why: "its process cannot be inspected" }
      : compareImported(imported, evidence);
  } catch {
    return { kind: "unknown", why: "its process cannot be inspected" };
  }
}

export function compareImported(facts: ImportedFacts, live: ProcessEvidence): ImportedEvidence {
  if (!live.alive) return { kind: "gone" };
  if (live.state === HIDDEN_STATE)
    return { kind: "unknown", why: `process ${facts.pid} is hidden and cannot be inspected` };
  if (facts.startTime !== null && facts.startTime !== live.identity.startTime)
    return differs(`process ${facts.pid} was started at another time`);
  if (live.argv.length === 0)
    return { kind: "unknown", why: `the command of process ${facts.pid} cannot be read` };
  if (commandHash(live.argv) !== facts.commandHash)
    return differs(`process ${facts.pid} runs another command`);
  if (facts.wrapperRoot === "" || !posix.isAbsolute(facts.wrapperRoot))
    return differs("no wrapper root is recorded");
  if (!isBelowRoot(facts.wrapperRoot, live))
    return differs(`process ${facts.pid} runs no program below ${facts.wrapperRoot}`);
  return { kind: "matches" };
}

/** Checks the executable, and the script of an interpreter. */
function isBelowRoot(root: string, { executable, argv }: ProcessEvidence): boolean {
  const base = posix.resolve(root);
  const candidates = [executable, argv[0], argv.slice(1).find((word) => !word.startsWith("-"))];
  return candidates.some(
    (path) =>
      path !== undefined &&
      path !== null &&
      posix.isAbsolute(path) &&
      posix.resolve(path).startsWith(`${base}/`),
  );
}

function differs(why: string): ImportedEvidence {
  return { kind: "differs", why };
}

/** The host functions that change nothing. */
export type EvidenceSource = Pick<
  AnchorHost,
  | "machine"
  | "attach"
  | "readRunFiles"
  | "listInstances"
  | "listRunIds"
  | "listWarmRunIds"
  | "inspectProcesses"
  | "inspectCgroups"
  | "findMarkedLeases"
>;

/**
 * Gathers the evidence about these runs. Processes and cgroups take one query each, whatever their number. A run whose
 * directory cannot be read has no evidence.
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
  const unstarted = await listUnstarted(host, directories);
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
      marked: marked === null ? null : marked.has(record.leaseId),
    };
    // Undefined for a run of an instance that has no directory here.
    const listed = directories.get(record.originInstanceId)?.has(runId);
    if (listed === true) evidence = await readRunDirectory(host, clock, instances, record, evidence);
    const imported = record.imported === null ? null : await gatherImportedEvidence(host, record);
    const neverStarted = listed === false && unstarted.has(runId);
    return { ...evidence, imported, noDirectory: listed === false, neverStarted };
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

/** Run ids by instance; null: they cannot be listed. */
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

/** The runs whose anchors have not read START. Listed after their processes: a live anchor may read it meanwhile. */
async function listUnstarted(
  host: EvidenceSource,
  directories: ReadonlyMap<string, unknown>,
): Promise<ReadonlySet<string>> {
  const found = [...directories.keys()].map((instanceId) => host.listWarmRunIds(instanceId).catch(() => []));
  return new Set((await Promise.all(found)).flat());
}

interface ProcessLiveness {
  readonly anchor: Liveness;
  readonly root: Liveness;
}

/** One query for all runs. If it fails, the state of every process is unknown. */
async function probeProcesses(
  host: EvidenceSource,
  records: readonly RunRecord[],
): Promise<ReadonlyMap<string, ProcessLiveness>> {
  const identities: ProcessIdentity[] = [];
  for (const { anchor, root } of records) {
    if (anchor !== null) identities.push(anchor);
    if (root !== null) identities.push(root);
  }
  const evidence = await host.inspectProcesses(identities, { brief: true }).catch(() => null);
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

/** Only for runs without a live anchor. */
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

/** One query for all empty cgroups: a process that left its cgroup still has the marker. Null: the query failed. */
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

/** Adds the run's files, and whether its anchor answers. */
async function readRunDirectory(
  host: EvidenceSource,
  clock: Clock,
  instances: ReadonlyMap<string, LocalInstance>,
  record: RunRecord,
  evidence: Evidence,
): Promise<Evidence> {
  const address = runAddressOf(record);
  if (evidence.anchor === "alive") {
    // A live anchor may have written its exit file and be about to end.
    const { exit } = await host.readRunFiles(address);
    return { ...evidence, exitFile: exit !== null };
  }
  const launched = instances.get(record.originInstanceId)?.launched === true;
  // Without a comparable identity, the process that accepts the run's key is the anchor. If the kernel reports the
  // recorded process as gone, a listener on its socket is another process.
  const unidentified = record.anchor === null || !isSameMachine(host.machine, record);
  const mustProbe = (unidentified || evidence.anchor === "unknown") && record.bootId === host.machine.bootId;
  const answer = mustProbe ? await probeLiveness(host, address) : "gone";
  const anchor = unidentified || answer !== "gone" ? answer : evidence.anchor;
  const wait = launched && isSameMachine(host.machine, record) && anchor === "gone" && record.root !== null;
  const runFiles = await waitForRunFiles(host, clock, address, wait);
  return { ...evidence, anchor, exitFile: runFiles.exit !== null, swept: runFiles.swept !== null };
}

async function probeLiveness(host: EvidenceSource, address: RunAddress): Promise<Liveness> {
  const answer = await probeAnchor(host, address);
  if (answer.kind === "observer") answer.observer.close();
  return answer.kind === "observer" ? "alive" : answer.kind === "none" ? "gone" : "unknown";
}

type AnchorProbe =
  | { readonly kind: "observer"; readonly observer: AnchorLink }
  /** It listens, but does not answer. */
  | { readonly kind: "silent"; readonly error: unknown }
  | { readonly kind: "none" };

export async function probeAnchor(host: Pick<AnchorHost, "attach">, run: RunAddress): Promise<AnchorProbe> {
  try {
    const observer = await host.attach(run, 0);
    return observer === null ? { kind: "none" } : { kind: "observer", observer };
  } catch (error) {
    return { kind: "silent", error };
  }
}

/** A live launcher cleans up after a dead anchor and writes its report within milliseconds. */
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
