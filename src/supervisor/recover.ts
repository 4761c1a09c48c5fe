import { defaults } from "../defaults.js";
import type { NewRunEvent } from "../store/run-event.js";
import type { AnchorHost, Welcome } from "../anchor/host.js";
import type { ProcessIdentity, RunRecord } from "../store/run-record.js";
import { adopt } from "./adopt.js";
import { aftermath, type Aftermath } from "./aftermath.js";
import { concludeAftermath } from "./conclude.js";
import type { Context } from "./context.js";
import { importRun } from "./import-run.js";
import { eventFacts, isOver, type LiveRun } from "./live-run.js";
import { refuseGate, regain, stopEndedElsewhere } from "./regain.js";
import { resume } from "./resume.js";
import { takeUp } from "./take-up.js";

/**
 * Take up what an earlier process of this instance left: go on with what lives, end on record what has ended. What is
 * already held here, or has an end on record, is not touched, so doing it twice changes nothing.
 */
export async function recover(context: Context): Promise<readonly LiveRun[]> {
  const { store, host, instanceId } = context;
  const records = await store.listRuns({
    ownerInstanceId: instanceId,
    states: ["starting", "running", "exiting"],
  });
  const recorded = new Set(records.map(({ runId }) => runId));
  const directories = (await host.runIds()).filter((runId) => !recorded.has(runId));
  const dead = await deadAnchors(host, records);
  const work = [
    ...records.map((record) => () => takeUpRecord(context, record, dead.has(record.runId))),
    ...directories.map((runId) => () => takeUpDirectory(context, runId)),
  ];
  const found = await atMost(defaults.recoverAtOnce, work);
  return found.filter((live) => live !== null);
}

/** One look at all of them: whoever answers on a dead anchor's socket is not it. */
async function deadAnchors(host: AnchorHost, records: readonly RunRecord[]): Promise<Set<string>> {
  const { hostId, bootId, pidNamespace } = host.machine;
  const asked = records.flatMap(({ runId, anchor, ...where }) =>
    anchor !== null &&
    where.bootId === bootId &&
    where.hostId === hostId &&
    where.pidNamespace === pidNamespace
      ? [{ runId, anchor }]
      : [],
  );
  if (asked.length === 0) return new Set();
  const evidence = await host.inspect(asked.map(({ anchor }) => anchor));
  return new Set(asked.flatMap(({ runId }, i) => (evidence[i]?.matches === true ? [] : [runId])));
}

async function takeUpRecord(
  context: Context,
  record: RunRecord,
  anchorIsDead: boolean,
): Promise<LiveRun | null> {
  const { runId } = record;
  if (context.live.has(runId)) return null;
  // Sockets do not survive a boot; and no number of it may be looked at, let alone signalled.
  if (anchorIsDead || record.bootId !== context.host.machine.bootId) return concludeDead(context, record);
  const found = await takeUp(context, runId, record.leaseEpoch);
  switch (found.kind) {
    case "attached": {
      // Somebody else answers on the socket of a dead anchor: the record knows better who ours was.
      if (!isTheRecorded(record, found.link.welcome)) {
        found.link.close();
        return concludeDead(context, record);
      }
      const live = resume(context, record, found.lease, found.link.welcome);
      live.journal.note(null, [attachEvent(live, "continue: re-attached after a restart")]);
      adopt(live, found.link, true);
      refuseGate(live, found.link);
      return live;
    }
    case "silent":
    case "unreachable":
      return concludeDead(context, record);
    case "replaced":
      return null;
    case "ended-elsewhere":
      stopEndedElsewhere(context, found.observer);
      return null;
    case "unwritable":
      found.observer.close();
      throw found.error;
  }
}

function isTheRecorded({ anchor, root }: RunRecord, welcome: Welcome): boolean {
  return (
    (anchor === null || sameProcess(anchor, welcome.anchor)) &&
    (root === null || sameProcess(root, welcome.root))
  );
}

function sameProcess(a: ProcessIdentity, b: ProcessIdentity): boolean {
  return a.pid === b.pid && a.startTime === b.startTime && a.uniqueId === b.uniqueId;
}

async function concludeDead(context: Context, record: RunRecord): Promise<LiveRun | null> {
  const { runId, leaseEpoch } = record;
  const lease = await context.store.reclaimLease(runId, context.instanceId, leaseEpoch + 1, defaults.leaseMs);
  if (lease === null) return null;
  const live = resume(context, record, lease, null);
  try {
    const after = await aftermath(context.host, live.traces, () => isOver(live));
    if (concludeAftermath(live, after, [attachEvent(live, decisionFor(after))])) {
      await live.ended.promise;
      return null;
    }
  } catch (error) {
    context.report({ runId, message: `run ${runId}: cannot find out yet what became of it`, cause: error });
  }
  // Its anchor lives and may answer yet, or its directory may become readable.
  context.track(runId, regain(live));
  return live;
}

/** A run directory without an open record: its record has ended (and it is kept for its output), or it has none. */
async function takeUpDirectory(context: Context, runId: string): Promise<LiveRun | null> {
  if (context.live.has(runId)) return null;
  const record = await context.store.getRun(runId);
  if (record === null) return importRun(context, runId);
  if (record.state !== "exited" || record.bootId !== context.host.machine.bootId) return null;
  const observer = await context.host.attach(runId, 0).catch(() => null);
  if (observer !== null) stopEndedElsewhere(context, observer);
  return null;
}

function attachEvent(live: LiveRun, decision: string): NewRunEvent {
  const data = { epoch: live.journal.lease.epoch, decision };
  return { ...eventFacts(live, Date.now()), type: "attach", data };
}

function decisionFor(after: Aftermath): string {
  switch (after.kind) {
    case "exit":
      return "finalize: it had ended, its exit file says how";
    case "never-executed":
      return "spawn-error: interrupted before it ran";
    case "lost":
      return `lost: ${after.note ?? "its anchor died, the launcher cleaned up"}`;
    case "anchor-alive":
    case "given-up":
      return "wait: its anchor lives but does not answer";
  }
}

async function atMost<T>(limit: number, work: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  const waiting = work.values();
  const worker = async (): Promise<void> => {
    for (const each of waiting) results.push(await each());
  };
  await Promise.all(Array.from({ length: Math.min(limit, work.length) }, worker));
  return results;
}
