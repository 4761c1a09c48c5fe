import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import type { RunRecord, ServiceFacts } from "../../model/run.js";
import { sanitizeLine } from "../../text/sanitize.js";
import type { Readiness } from "../api.js";
import type { ReadyOptions } from "../run-options.js";
import { isInactive, type LiveRun, runEventBase, type SupervisorContext } from "./live-run.js";
import { checkWholeNumber } from "./options.js";

/**
 * Wait until a process of this run listens on its port. Nobody tells when that happens, so it is looked for, at growing
 * intervals. Who listens there and is none of the run's does not count.
 */
export async function awaitReady(live: LiveRun, options: ReadyOptions = {}): Promise<Readiness> {
  const { context, facts, ended } = live;
  const port = servicePort(facts.runId, live.service);
  const { clock } = context;
  const until = clock.now() + checkWholeNumber("timeoutMs", options.timeoutMs ?? defaults.readyTimeoutMs);
  const interrupted = whenAborted(options.signal);
  // Nobody may be pausing when the run is let go of: that is no rejection of ours.
  const over = ended.promise.catch(() => undefined);
  const early = Promise.race([over, interrupted]);
  for (let pause: number = defaults.readyLookMs; ; pause = Math.min(pause * 1.5, defaults.readyLookMaxMs)) {
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

/** It had ended before anybody could wait for it. */
export async function endedBeforeReady(
  context: SupervisorContext,
  { runId, service }: RunRecord,
): Promise<Readiness> {
  return { kind: "ended", detail: await describePortHolders(context, servicePort(runId, service)) };
}

function servicePort(runId: string, service: ServiceFacts | null): number {
  if (service !== null && service.port !== null) return service.port;
  throw new BadInput("port", `run ${runId} is no service with a port to wait for`);
}

/** Its former supervisor died waiting, or nobody waited: that it became ready is still worth recording. */
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

/** Said once, whoever waits. */
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

/** Null: nobody listens there. */
async function describePortHolders({ host }: SupervisorContext, port: number): Promise<string | null> {
  const { open, holders } = await host.inspectPort(port);
  const names = holders.map(({ identity, command }) => `${identity.pid} (${sanitizeLine(command)})`);
  if (names.length > 0)
    return `port ${port} is held by process ${names.join(", ")}, which is none of this run's`;
  return open ? `somebody else listens on port ${port}, and it cannot be seen who` : null;
}

function whenAborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal === undefined) return;
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
