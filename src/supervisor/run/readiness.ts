import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import type { RunRecord, ServiceFacts } from "../../model/run.js";
import { sanitizeLine } from "../../text/sanitize.js";
import type { Readiness } from "../api.js";
import { checkWholeNumber, type ReadyOptions } from "../check-options.js";
import { isInactive, type LiveRun, runEventBase, type SupervisorContext } from "./live-run.js";

/**
 * Polls, at growing intervals, until a process of this run listens on its port. A process outside the run does not
 * count.
 */
export async function awaitReady(live: LiveRun, options: ReadyOptions = {}): Promise<Readiness> {
  const { context, facts, ended } = live;
  const port = servicePort(facts.runId, live.service);
  const { clock } = context;
  const until = clock.now() + checkWholeNumber("timeoutMs", options.timeoutMs ?? defaults.readyTimeoutMs);
  const interrupted = whenAborted(options.signal);
  // Caught here, because the run may be detached while no sleep handles the rejection.
  const over = ended.promise.catch(() => undefined);
  const early = Promise.race([over, interrupted]);
  for (let pause: number = defaults.readyPollMs; ; pause = Math.min(pause * 1.5, defaults.readyPollMaxMs)) {
    const late = clock.now() >= until;
    if (live.service !== null && live.service.readyAt !== null)
      return { kind: "ready", service: live.service };
    if (options.signal?.aborted === true || live.detachedBy !== null) return { kind: "given-up" };
    if (isInactive(live)) return { kind: "ended", detail: await describePortHolders(context, port) };
    if (live.state.name === "running" && (await isListening(live, port))) return recordReady(live, port);
    if (late) return { kind: "timeout", detail: await describePortHolders(context, port) };
    await clock.sleep(Math.min(pause, Math.max(1, until - clock.now())), early);
  }
}

/** The answer for a service that ended before the call. */
export async function endedBeforeReady(
  context: SupervisorContext,
  { runId, service }: RunRecord,
): Promise<Readiness> {
  return { kind: "ended", detail: await describePortHolders(context, servicePort(runId, service)) };
}

function servicePort(runId: string, service: ServiceFacts | null): number {
  if (service !== null && service.port !== null) return service.port;
  throw new BadInput("port", `run ${runId} is not a service with a port`);
}

/** Continues the wait after a restart, so that the ready time of a service is recorded without a caller, too. */
export function resumeReadiness(live: LiveRun): void {
  if (live.service === null || live.service.port === null || live.service.readyAt !== null) return;
  live.context.track(
    live.facts.runId,
    awaitReady(live).then(() => undefined),
  );
}

async function isListening({ context, recordedIdentity: recorded }: LiveRun, port: number): Promise<boolean> {
  if (recorded.anchor === null) return false;
  const [evidence] = await context.host.inspectProcesses([recorded.anchor], { ports: true });
  return evidence?.matches === true && evidence.descendants.some(({ ports }) => ports.includes(port));
}

/** Recorded once, however many callers wait. */
function recordReady(live: LiveRun, port: number): Readiness {
  const at = live.context.clock.wall();
  if (live.service !== null && live.service.readyAt !== null) return { kind: "ready", service: live.service };
  const service = { port, readyAt: at };
  live.service = service;
  live.writeQueue.enqueue({ to: "ready", service }, [
    { ...runEventBase(live, at), type: "ready", data: { port } },
  ]);
  return { kind: "ready", service };
}

/** Null: no process listens on the port. */
async function describePortHolders({ host }: SupervisorContext, port: number): Promise<string | null> {
  const { open, holders } = await host.inspectPort(port);
  const names = holders.map(({ identity, command }) => `${identity.pid} (${sanitizeLine(command)})`);
  if (names.length > 0)
    return `port ${port} is used by process ${names.join(", ")}, which is not in this run`;
  return open ? `another process listens on port ${port}, but it cannot be identified` : null;
}

function whenAborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) resolve();
    else signal?.addEventListener("abort", () => resolve(), { once: true });
  });
}
