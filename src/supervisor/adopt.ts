import type { AnchorLink, ProcessEvidence } from "../anchor/host-interface.js";
import { isJobTier, isWeakTier } from "../anchor/inspect/boundary-and-tier.js";
import { PROTOCOL } from "../anchor/protocol/messages.js";
import { deferred } from "../async/deferred.js";
import { defaults } from "../defaults.js";
import { BadInput, NotAdopted, NotOurs, NotSteering } from "../errors.js";
import { errorMessage } from "../home/errno.js";
import { isSameMachine } from "../model/process.js";
import { newLeaseId, newRunId } from "../model/ids.js";
import { FIRST_EPOCH, NO_DEADLINES, NO_LIMITS, OPEN_RUN_STATES, type RunRecord } from "../model/run.js";
import { newRunRecord } from "../store/runs/apply-change.js";
import type { NewRun } from "../store/runs/contract.js";
import { commandHash, displayCommand } from "../text/redact.js";
import type { AdoptedProcess } from "./api.js";
import { bindLink, sendServicePolicy } from "./attach/bind-link.js";
import { reattach } from "./attach/reattach.js";
import { createLiveRun } from "./attach/create-live-run.js";
import { finalizeSpawnFailure } from "./end/finalize.js";
import { findOwningRun } from "./inspect/find-owning-run.js";
import { type AdoptOptions, checkText } from "./check-options.js";
import {
  assertOwned,
  isInactive,
  type LiveRun,
  runEventBase,
  type RunFacts,
  type SupervisorContext,
} from "./run/live-run.js";
import { gatedChange } from "./run/recorded-identity.js";

/**
 * Makes a process of an own run, with its descendants, a service of its own. First the record is written, then the anchor
 * adopts the process and serves both runs, then the identities are recorded. If this supervisor dies in between, the
 * next one finds the record, with or without an anchor that answers for it.
 */
export async function adoptProcess(
  context: SupervisorContext,
  pid: number,
  options: Pick<AdoptOptions, "actor"> = {},
): Promise<AdoptedProcess> {
  const actor = checkText("actor", options.actor ?? context.actor);
  const { evidence, record: parentRecord } = await findAdoptableMember(context, pid);
  const parent = context.runs.get(parentRecord.runId);
  if (parent === undefined)
    throw new NotSteering(parentRecord.runId, `${parentRecord.ownerInstanceId} owns it, not this supervisor`);
  assertOwned(parent);
  assertCanAdoptFrom(parent);
  const live = await recordService(context, parentRecord, evidence);
  const { runId } = live.facts;
  try {
    await requestAdoption(parent, live.facts, parentRecord, evidence);
  } catch (error) {
    finalizeSpawnFailure(live, { errno: 0, step: "adopt", message: errorMessage(error) });
    throw error;
  }
  const link = await attachToService(live, parent.facts.runId);
  bindLink(live, link, true);
  await commitIdentities(live, link, evidence);
  const at = context.clock.wall();
  const from = parent.facts.runId;
  live.writeQueue.enqueue(null, [
    { ...runEventBase(live, at), type: "adopt", data: { actor, pid, from, to: null } },
  ]);
  parent.writeQueue.enqueue(null, [
    { ...runEventBase(parent, at), type: "adopt", data: { actor, pid, from: null, to: runId } },
  ]);
  const record = await context.store.getRun(runId);
  if (record === null) throw new NotSteering(runId, "its record is gone");
  return { record, from, warnings: stdioWarnings(evidence, from) };
}

/** The run of a process, proven by identity, cgroup or ancestry; a marker alone is not enough. */
async function findAdoptableMember(
  { host, store }: SupervisorContext,
  pid: number,
): Promise<{ readonly evidence: ProcessEvidence; readonly record: RunRecord }> {
  const [evidence] = await host.inspectProcesses([pid]);
  if (evidence === undefined || !evidence.alive) throw new NotOurs(pid, "there is no such process");
  const records = (await store.listRuns({ states: OPEN_RUN_STATES })).filter((record) =>
    isSameMachine(record, host.machine),
  );
  const owner = await findOwningRun(evidence, records, (wanted) => host.inspectCgroups(wanted));
  if (owner === null)
    throw new NotOurs(pid, "neither its ancestry nor its cgroup belongs to a run; nothing was changed");
  const { role, record } = owner;
  switch (role) {
    case "member":
      if (Object.values(record.limits).some((limit) => limit !== null))
        throw new BadInput(
          "pid",
          `process ${pid} is inside run ${record.runId}, whose limits cannot be divided: adopt the run instead (holdfast service adopt ${record.runId}); nothing was changed`,
        );
      return { evidence, record };
    case "leader":
      throw new BadInput(
        "pid",
        `process ${pid} is the first of run ${record.runId}: adopt the run instead (holdfast service adopt ${record.runId}); nothing was changed`,
      );
    case "anchor":
      throw new BadInput("pid", `process ${pid} is the anchor of run ${record.runId}; nothing was changed`);
    case "claims":
      throw new NotOurs(
        pid,
        `it only has the environment marker of ${record.runId}, which any process can set; nothing was changed`,
      );
  }
}

/** Refuses, before anything is recorded, what the anchor would refuse. */
function assertCanAdoptFrom({ facts: { runId }, link, isOwner: owner, state }: LiveRun): void {
  const why = whyNot();
  if (why !== null) throw new NotAdopted(runId, why);
  function whyNot(): string | null {
    if (link === null || !owner) return "its anchor does not answer";
    if (link.welcome.protocol < PROTOCOL) return "its anchor is older than this version and cannot do it";
    if (isJobTier(link.welcome.boundary.tier))
      return `on Windows a process cannot leave the job of its run; adopt the run instead (holdfast service adopt ${runId})`;
    if (isWeakTier(link.welcome.boundary.tier))
      return "without cgroups and process handles it could not be stopped separately from its run";
    return state.name === "running" ? null : "the run is not running, or is about to end";
  }
}

async function recordService(
  context: SupervisorContext,
  parent: RunRecord,
  { argv, command }: ProcessEvidence,
): Promise<LiveRun> {
  const runId = newRunId();
  const words = argv.length === 0 ? [command] : argv;
  const service = { port: null, readyAt: null };
  const run: NewRun = {
    runId,
    leaseId: newLeaseId(),
    sessionKey: parent.sessionKey,
    sessionId: parent.sessionId,
    backendId: parent.backendId,
    agentId: parent.agentId,
    labels: parent.labels,
    kind: "service",
    io: "pipe",
    command: displayCommand(words),
    commandHash: commandHash(words),
    cwd: "",
    ...context.host.machine,
    // The parent's anchor serves it, and reads start times in its own time namespace.
    timeNamespace: parent.timeNamespace,
    stateId: context.stateId,
    anchorPath: parent.anchorPath,
    // Its directory is beside the parent's.
    originInstanceId: parent.originInstanceId,
    ownerInstanceId: context.instanceId,
    leaseEpoch: FIRST_EPOCH,
    deadlines: NO_DEADLINES,
    policy: { ...parent.policy, onEscape: "sweep", onOrphan: "adopt", callerBound: false },
    limits: NO_LIMITS,
    createdAt: context.clock.wall(),
    service,
    imported: null,
  };
  context.inserting.add(runId);
  try {
    const lease = await context.store.insertRun(run, defaults.leaseMs);
    const { leaseId, policy, deadlines } = run;
    return createLiveRun(
      context,
      {
        runId,
        address: { instanceId: run.originInstanceId, runId },
        leaseId,
        command: run.command,
        attempt: null,
        policy,
        deadlines,
        service,
        withholdAt: { stdout: null, stderr: null },
      },
      lease,
      newRunRecord(run, 0),
    );
  } finally {
    context.inserting.delete(runId);
  }
}

/** Resolves when the anchor has adopted the process, or the connection ends; rejects when it refuses. */
async function requestAdoption(
  parent: LiveRun,
  { runId, command }: Pick<RunFacts, "runId" | "command">,
  { sessionKey, sessionId, backendId, agentId, labels }: RunRecord,
  { identity }: ProcessEvidence,
): Promise<void> {
  while (parent.pendingAdoption !== null) await parent.pendingAdoption.promise.catch(() => undefined);
  if (parent.link === null || !parent.isOwner)
    throw new NotAdopted(parent.facts.runId, "its anchor does not answer");
  const answered = deferred<void>();
  parent.pendingAdoption = answered;
  try {
    const ownership = { sessionKey, sessionId, backendId, agentId, taskId: null, labels };
    const scope = { ...ownership, kind: "service", command } as const;
    parent.link.adopt(runId, identity, parent.facts.policy.graceMs, scope);
    await Promise.race([answered.promise, parent.ended.promise.then(() => undefined)]);
  } finally {
    parent.pendingAdoption = null;
  }
}

async function attachToService(live: LiveRun, from: string): Promise<AnchorLink> {
  const { context, facts, writeQueue } = live;
  let link: AnchorLink | null;
  try {
    link = await context.host.attach(facts.address, writeQueue.lease.epoch);
  } catch (error) {
    context.track(facts.runId, reattach(live));
    throw error;
  }
  if (link !== null) return link;
  const message = "its anchor has ended, or did not adopt it";
  finalizeSpawnFailure(live, { errno: 0, step: "adopt", message });
  throw new NotAdopted(from, message);
}

async function commitIdentities(
  { context, writeQueue }: LiveRun,
  { welcome }: AnchorLink,
  { processGroupId }: ProcessEvidence,
): Promise<void> {
  const change = gatedChange(welcome, processGroupId);
  await context.store.saveRun(writeQueue.lease, change);
  writeQueue.committed(change);
}

/** Warnings about stdio that ends with the parent run. */
function stdioWarnings({ stdio }: ProcessEvidence, from: string): readonly string[] {
  return [1, 2].flatMap((fd) => {
    const name = fd === 1 ? "stdout" : "stderr";
    const target = stdio[fd] ?? "";
    if (target.startsWith("pipe:"))
      return [
        `its ${name} is a pipe of ${from}: its output is stored there, and a write fails (SIGPIPE) after ${from} has ended`,
      ];
    if (target.startsWith("/dev/pts/"))
      return [`its ${name} is the terminal of ${from}: it is hung up (SIGHUP, EIO) when ${from} has ended`];
    return [];
  });
}

/**
 * Makes a task a service, first in its record, then in its anchor. If this supervisor dies in between, the next owner
 * informs the anchor.
 */
export async function convertToService(live: LiveRun, options: AdoptOptions = {}): Promise<RunRecord> {
  const { context, facts, writeQueue } = live;
  const { runId } = facts;
  const actor = checkText("actor", options.actor ?? context.actor);
  assertOwned(live);
  if (live.state.name !== "running")
    throw new BadInput("runId", `run ${runId} is ${live.state.name}, not running; nothing was changed`);
  if (live.service === null) {
    const service = { port: null, readyAt: null };
    const deadlines = options.keepTimeouts === true ? facts.deadlines : NO_DEADLINES;
    const at = context.clock.wall();
    // The new owner continues the run: it no longer ends when its caller exits.
    const policy = { ...facts.policy, onOrphan: "adopt" } as const;
    const change = { to: "service", service, deadlines, policy } as const;
    const written = await context.store.saveRun(writeQueue.lease, change, [
      { ...runEventBase(live, at), type: "adopt", data: { actor, pid: null, from: null, to: null } },
    ]);
    if (!written) throw new BadInput("runId", `run ${runId} has ended in the meantime; nothing was changed`);
    writeQueue.committed(change);
    live.service = service;
    if (options.keepTimeouts !== true) live.deadlines.disable();
    live.serviceAck = deferred<void>();
    if (live.link !== null && live.isOwner) sendServicePolicy(live, live.link);
  }
  await awaitServiceAck(live);
  const record = await context.store.getRun(runId);
  if (record === null) throw new NotSteering(runId, "its record is gone");
  return record;
}

/** Waits until the anchor confirms. The command is repeated on every connection until then. */
async function awaitServiceAck(live: LiveRun): Promise<void> {
  const { serviceAck, context, facts, ended } = live;
  if (serviceAck === null) return;
  const over = ended.promise.then(
    () => undefined,
    () => undefined,
  );
  await context.clock.sleep(defaults.launcherReadyMs, Promise.race([serviceAck.promise, over]));
  if (live.serviceAck === null || isInactive(live)) return;
  throw new NotSteering(
    facts.runId,
    "it is recorded as a service, but its anchor does not answer; the anchor gets the command as soon as it answers",
  );
}
