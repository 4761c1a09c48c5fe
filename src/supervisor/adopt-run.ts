import type { AnchorLink, Welcome } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import { BadInput, NotSteering } from "../errors.js";
import { NO_DEADLINES, type RunRecord } from "../store/run-record.js";
import type { AdoptOptions } from "./api.js";
import { deferred } from "./deferred.js";
import { eventFacts, isOver, type LiveRun } from "./live-run.js";
import { maySteer } from "./run.js";
import { plainText } from "./spawn-options.js";

/**
 * A task becomes a service: on record first, then for its anchor. Killed in between, whoever attaches next finds the
 * record and tells the anchor; until then it goes by what it knew, and nobody was told otherwise.
 */
export async function adoptRun(live: LiveRun, options: AdoptOptions = {}): Promise<RunRecord> {
  const { context, facts, journal } = live;
  const { runId } = facts;
  const actor = plainText("actor", options.actor ?? context.actor);
  maySteer(live);
  if (live.state.name !== "running")
    throw new BadInput("runId", `run ${runId} is ${live.state.name}, not running; nothing was changed`);
  if (live.service === null) {
    const service = { port: null, readyAt: null };
    const deadlines = options.keepTimeouts === true ? facts.deadlines : NO_DEADLINES;
    const at = context.clock.wall();
    // The new owner continues the run: it no longer ends when its caller exits.
    const policy = { ...facts.policy, onOrphan: "adopt" } as const;
    const change = { to: "service", service, deadlines, policy } as const;
    const written = await context.store.saveRun(journal.lease, change, [
      { ...eventFacts(live, at), type: "adopt", data: { actor, pid: null, from: null, to: null } },
    ]);
    if (!written) throw new BadInput("runId", `run ${runId} has ended meanwhile; nothing was changed`);
    journal.committed(change);
    live.service = service;
    if (options.keepTimeouts !== true) live.deadlines.lift();
    live.toldService = deferred<void>();
    if (live.link !== null && live.owner) tellService(live, live.link);
  }
  await known(live);
  const record = await context.store.getRun(runId);
  if (record === null) throw new NotSteering(runId, "its record is gone");
  return record;
}

/** Until the anchor has said that it knows. Repeated on every connection until then. */
async function known(live: LiveRun): Promise<void> {
  const { toldService, context, facts, ended } = live;
  if (toldService === null) return;
  const over = ended.promise.then(
    () => undefined,
    () => undefined,
  );
  await context.clock.pause(defaults.launcherReadyMs, Promise.race([toldService.promise, over]));
  if (live.toldService === null || isOver(live)) return;
  throw new NotSteering(
    facts.runId,
    "its record says service, but its anchor does not answer; it is told as soon as it does",
  );
}

/** Where the record says service and the anchor does not. */
export function tellService(live: LiveRun, link: AnchorLink): void {
  const unknown = live.service !== null && link.welcome.kind !== "service";
  if (live.toldService === null && !unknown) return;
  live.toldService ??= deferred<void>();
  link.policy({ kind: "service", ...live.deadlines.lifted });
  link.status();
}

export function heardKind(live: LiveRun, { kind }: Welcome): void {
  // One that does not say has obeyed: the frame is as old as the protocol.
  if (kind === "task") return;
  live.toldService?.resolve();
  live.toldService = null;
}
