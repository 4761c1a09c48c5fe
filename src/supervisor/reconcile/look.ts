import type {
  AnchorHost,
  BoundaryEvidence,
  LocalInstance,
  RunAddress,
  RunRemains,
} from "../../anchor/host.js";
import { type Seen, seenAs } from "../../anchor/seen.js";
import { defaults } from "../../defaults.js";
import { isSameMachine } from "../../store/machine.js";
import type { ProcessIdentity, RunRecord } from "../../store/run-record.js";
import { cgroupOf } from "../aftermath.js";
import { atMost } from "../at-most.js";
import type { Clock } from "../clock.js";
import type { ImportedSight, Sight } from "./decide.js";
import { lookAtImported } from "./imported.js";

/** The part of a host that looks and touches nothing. */
export type Looker = Pick<
  AnchorHost,
  "machine" | "attach" | "remains" | "instances" | "runIds" | "inspect" | "inspectBoundaries" | "markedBy"
>;

export function addressOf({ originInstanceId, runId }: RunRecord): RunAddress {
  return { instanceId: originInstanceId, runId };
}

/**
 * What can be seen of these runs now. Processes and boundaries are asked for in two questions, however many there are;
 * a directory is read only where there is one. Of a run whose directory cannot be read there is no sight.
 */
export async function look(
  host: Looker,
  clock: Clock,
  instances: ReadonlyMap<string, LocalInstance>,
  records: readonly RunRecord[],
): Promise<ReadonlyMap<string, Sight>> {
  const directories = await directoriesOf(host, instances, records);
  const numbered = records.filter(
    (record) => isSameMachine(host.machine, record) && record.imported === null,
  );
  const processes = await lookAtProcesses(host, numbered);
  const boundaries = await lookAtBoundaries(host, numbered, processes);
  const marked = await lookForMarkers(host, numbered, boundaries);
  const sights = new Map<string, Sight>();
  const lookAt = async (record: RunRecord): Promise<Sight> => {
    const { runId } = record;
    const seen = processes.get(runId) ?? { anchor: "gone", root: "gone" };
    const boundary = boundaries.get(runId) ?? (cgroupOf(record) === null ? null : "unknown");
    let sight: Sight = {
      ...NOTHING,
      ...seen,
      boundary,
      marked: marked === null || marked.has(record.leaseId),
    };
    if (directories.get(record.originInstanceId)?.has(runId) === true)
      sight = await lookInside(host, clock, instances, record, sight);
    const imported = record.imported === null ? null : await lookAtImported(host, record);
    return { ...sight, imported };
  };
  await atMost(
    defaults.recoverAtOnce,
    records.map((record) => async () => {
      if (directories.get(record.originInstanceId) === null) return;
      const sight = await lookAt(record).catch(() => null);
      if (sight !== null) sights.set(record.runId, sight);
    }),
  );
  return sights;
}

const NOTHING = { exitFile: false, swept: false, imported: null as ImportedSight | null };

/** By instance. Null: they cannot be listed. */
async function directoriesOf(
  host: Looker,
  instances: ReadonlyMap<string, LocalInstance>,
  records: readonly RunRecord[],
): Promise<ReadonlyMap<string, ReadonlySet<string> | null>> {
  const origins = new Set(records.map((record) => record.originInstanceId).filter((id) => instances.has(id)));
  const found = [...origins].map(async (instanceId) => {
    const runIds = await host.runIds(instanceId).catch(() => null);
    return [instanceId, runIds === null ? null : new Set(runIds)] as const;
  });
  return new Map(await Promise.all(found));
}

interface Processes {
  readonly anchor: Seen;
  readonly root: Seen;
}

/** One question for all. When it cannot be answered, nothing is known of any. */
async function lookAtProcesses(
  host: Looker,
  records: readonly RunRecord[],
): Promise<ReadonlyMap<string, Processes>> {
  const wanted: ProcessIdentity[] = [];
  for (const { anchor, root } of records) {
    if (anchor !== null) wanted.push(anchor);
    if (root !== null) wanted.push(root);
  }
  const evidence = await host.inspect(wanted, { brief: true }).catch(() => null);
  let at = 0;
  const next = (record: RunRecord, identity: ProcessIdentity | null): Seen =>
    identity === null ? "gone" : seenAs(identity, record, evidence?.[at++], host.machine);
  return new Map(
    records.map((record) => {
      const { runId, anchor, root } = record;
      return [runId, { anchor: next(record, anchor), root: next(record, root) }] as const;
    }),
  );
}

/** Only of runs without an anchor: the others look after theirs. */
async function lookAtBoundaries(
  host: Looker,
  records: readonly RunRecord[],
  processes: ReadonlyMap<string, Processes>,
): Promise<ReadonlyMap<string, BoundaryEvidence>> {
  const asked = records.flatMap((record) => {
    const cgroup = cgroupOf(record);
    return cgroup !== null && processes.get(record.runId)?.anchor !== "alive"
      ? [{ runId: record.runId, cgroup }]
      : [];
  });
  const evidence = await host.inspectBoundaries(asked.map(({ cgroup }) => cgroup)).catch(() => null);
  return new Map(asked.map(({ runId }, at) => [runId, evidence?.[at] ?? "unknown"] as const));
}

/** One look for all whose cgroup is empty: who has left it still carries the marker. Null: nobody can say who does. */
async function lookForMarkers(
  host: Looker,
  records: readonly RunRecord[],
  boundaries: ReadonlyMap<string, BoundaryEvidence>,
): Promise<ReadonlySet<string> | null> {
  const empty = records.filter(({ runId, leaseId }) => {
    const boundary = boundaries.get(runId);
    return leaseId !== "" && (boundary === "empty" || boundary === "gone");
  });
  return host.markedBy(empty.map(({ leaseId }) => leaseId)).catch(() => null);
}

/** The run has a directory: what is written there, and whether somebody answers for it. */
async function lookInside(
  host: Looker,
  clock: Clock,
  instances: ReadonlyMap<string, LocalInstance>,
  record: RunRecord,
  sight: Sight,
): Promise<Sight> {
  const address = addressOf(record);
  if (sight.anchor === "alive") {
    // It may have written its end and be on its way out.
    const { exit } = await host.remains(address);
    return { ...sight, exitFile: exit !== null };
  }
  const launched = instances.get(record.originInstanceId)?.launched === true;
  // Its identity is not on record, or cannot be compared here: the process that accepts its key is the anchor.
  // When the kernel says that the process is gone, another process listens on its socket.
  const nameless = record.anchor === null || !isSameMachine(host.machine, record);
  const asked = (nameless || sight.anchor === "unknown") && record.bootId === host.machine.bootId;
  const answer = asked ? await ask(host, address) : "gone";
  const anchor = nameless || answer !== "gone" ? answer : sight.anchor;
  const wait = launched && isSameMachine(host.machine, record) && anchor === "gone" && record.root !== null;
  const remains = await lastWords(host, clock, address, wait);
  return { ...sight, anchor, exitFile: remains.exit !== null, swept: remains.swept !== null };
}

async function ask(host: Looker, address: RunAddress): Promise<Seen> {
  try {
    const observer = await host.attach(address, 0);
    observer?.close();
    return observer === null ? "gone" : "alive";
  } catch {
    return "unknown";
  }
}

/** While there is a launcher it is cleaning up after the dead anchor, and says so within milliseconds. */
async function lastWords(
  host: Looker,
  clock: Clock,
  address: RunAddress,
  wait: boolean,
): Promise<RunRemains> {
  const until = clock.now() + defaults.sweptWaitMs;
  for (;;) {
    const remains = await host.remains(address);
    if (!wait || remains.exit !== null || remains.swept !== null || clock.now() >= until) return remains;
    await clock.pause(defaults.sweptPollMs);
  }
}
