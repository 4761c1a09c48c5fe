import type { HistoryEntry } from "./history.js";

type EntryOf<Kind extends HistoryEntry["entry"]> = Extract<HistoryEntry, { readonly entry: Kind }>;

/** The contradictions in a history; empty: none. */
export function checkHistory(history: readonly HistoryEntry[]): string[] {
  const all = <Kind extends HistoryEntry["entry"]>(kind: Kind): EntryOf<Kind>[] =>
    history.filter((each): each is EntryOf<Kind> => each.entry === kind);
  const events = all("event").toSorted((one, other) => one.seq - other.seq);
  const problems: string[] = [];
  const steered = groupBy(all("steered"), ({ runId }) => runId);
  for (const [runId, ofRun] of groupBy(events, (event) => event.runId)) {
    if (runId === "") continue;
    const leases = leasesOf(ofRun);
    problems.push(...checkEpochs(runId, leases), ...checkRunEnd(runId, ofRun));
    problems.push(...checkSteering(runId, leases, steered.get(runId) ?? []));
  }
  const received = groupBy(all("received"), ({ taskId }) => taskId);
  for (const [taskId, ends] of groupBy(all("task-end"), (end) => end.taskId))
    problems.push(...checkTaskEnd(taskId, ends, received.get(taskId) ?? []));
  return problems;
}

function groupBy<Each>(all: readonly Each[], keyOf: (each: Each) => string): Map<string, Each[]> {
  const groups = new Map<string, Each[]>();
  for (const each of all) {
    const group = groups.get(keyOf(each));
    if (group === undefined) groups.set(keyOf(each), [each]);
    else group.push(each);
  }
  return groups;
}

interface Lease {
  readonly epoch: number;
  /** The process that took it. */
  readonly process: string;
}

function leasesOf(events: readonly EntryOf<"event">[]): Lease[] {
  return events.flatMap(({ type, data }) => {
    const takes = type === "attach" || (type === "reconcile" && data["action"] !== "leave");
    const { epoch, process } = data;
    return takes && typeof epoch === "number" && typeof process === "string" ? [{ epoch, process }] : [];
  });
}

/** Each lease has a higher epoch than the one before, so no epoch has two owners. */
function checkEpochs(runId: string, leases: readonly Lease[]): string[] {
  return leases.flatMap(({ epoch, process }, at) => {
    const before = leases[at - 1];
    return before === undefined || epoch > before.epoch
      ? []
      : [`${runId}: ${process} took epoch ${epoch} after ${before.process} had taken epoch ${before.epoch}`];
  });
}

function checkRunEnd(runId: string, events: readonly EntryOf<"event">[]): string[] {
  const ends = events.filter(({ type }) => type === "exit").length;
  return ends === 1 ? [] : [`${runId} has ${ends} ends`];
}

/**
 * A lease is linearizable if accepted requests can be ordered by epoch without contradicting real time: a request that
 * was accepted under an epoch must not begin after one under a higher epoch was answered.
 */
function checkSteering(
  runId: string,
  leases: readonly Lease[],
  steered: readonly EntryOf<"steered">[],
): string[] {
  const problems: string[] = [];
  // A process may have held the run more than once; its request fits if any of its epochs does, so the last counts.
  const epochOf = new Map(leases.map(({ process, epoch }) => [process, epoch]));
  let answered: { readonly epoch: number; readonly by: EntryOf<"steered"> } | null = null;
  const accepted = steered.filter((each) => each.accepted);
  const moments = [
    ...accepted.map((each) => ({ at: each.invokedAt, begins: true, each })),
    ...accepted.map((each) => ({ at: each.returnedAt, begins: false, each })),
  ].toSorted((one, other) => one.at - other.at || Number(other.begins) - Number(one.begins));
  for (const { begins, each } of moments) {
    // The process that started the run has its first epoch, and takes it without an event.
    const epoch = epochOf.get(each.process) ?? 1;
    if (begins && answered !== null && epoch < answered.epoch)
      problems.push(
        `${runId}: ${each.process} steered under epoch ${epoch} after ${answered.by.process} had under epoch ${answered.epoch}`,
      );
    if (!begins && (answered === null || epoch > answered.epoch)) answered = { epoch, by: each };
  }
  return problems;
}

/** One end; at least one message of it, under one stable id, with the same status however often it came. */
function checkTaskEnd(
  taskId: string,
  ends: readonly EntryOf<"task-end">[],
  received: readonly EntryOf<"received">[],
): string[] {
  const problems: string[] = [];
  if (ends.length !== 1) problems.push(`${taskId} has ${ends.length} ends`);
  const messages = received.filter(({ id }) => !id.startsWith("task-state:"));
  const ids = new Set(messages.map(({ id }) => id));
  if (ids.size === 0) problems.push(`${taskId}: its end was not received`);
  if (ids.size > 1)
    problems.push(`${taskId}: its end was received under ${ids.size} ids: ${[...ids].join(", ")}`);
  for (const { status } of messages)
    if (status !== ends[0]?.status) problems.push(`${taskId}: received ${status}, ended ${ends[0]?.status}`);
  return problems;
}
