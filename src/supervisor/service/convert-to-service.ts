import { defaults } from "../../defaults.js";
import { BadInput, NotSteering } from "../../errors.js";
import { NO_DEADLINES, type RunRecord } from "../../model/run.js";
import type { AdoptOptions } from "../run-options.js";
import { deferred } from "../../async/deferred.js";
import { assertOwned, isInactive, type LiveRun, runEventBase } from "../run/live-run.js";
import { checkText } from "../run/options.js";
import { sendServicePolicy } from "../attach/bind-link.js";

/**
 * Makes a task a service, first in its record, then in its anchor. If this supervisor dies in between, the next owner
 * tells the anchor.
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
    "it is recorded as a service, but its anchor does not answer; the anchor is told as soon as it answers",
  );
}
