import { defaults } from "../../../src/defaults.js";
import type { SpawnOptions } from "../../../src/supervisor/api.js";
import type { SimulatedSupervisor } from "../parts/supervisor.js";
import type { SimulationContext } from "../simulation-context.js";

/** Runs per schedule: enough for them to meet, few enough to follow. */
const MAX_RUNS = 5;

/** Returns the supervisor that spawns; null: none can. */
export function spawnRun(context: SimulationContext): SimulatedSupervisor | null {
  const process = context.random.maybePick(context.actors.awake);
  if (process === null || context.spawned >= MAX_RUNS) return null;
  context.spawned++;
  const random = context.random;
  const words = ["ignore-term", "missing", "no-fork"].filter((_, at) => random.chance(at === 0 ? 0.3 : 0.03));
  const options: SpawnOptions = {
    clearEnv: true,
    inherit: {},
    cwd: "/",
    kind: random.chance(context.serviceShare) ? "service" : "task",
    onOrphan: random.chance(0.7) ? "adopt" : "terminate",
    onEscape: random.chance(0.5) ? "fail" : "sweep",
    timeoutMs: random.pick([0, 0, 0, 5_000, 40_000]),
    noOutputTimeoutMs: random.pick([0, 0, 0, 0, 8_000]),
    graceMs: random.pick([0, 300, 5_000]),
    ownerLossMs: random.pick([1_000, 20_000, defaults.ownerLossMs]),
  };
  context.world.note(() => `${process.name} spawns ${words.join(" ")} ${JSON.stringify(options)}`);
  process.supervisor
    .spawn({ io: "pipe", argv: ["/bin/target", ...words] }, options)
    .catch((error: unknown) => context.world.note(() => `${process.name}: spawn failed: ${String(error)}`));
  return process;
}

export function cancelRun(context: SimulationContext): void {
  const held = context.pickHeldRun();
  if (held === null) return;
  const { process, runId } = held;
  context.world.note(() => `${process.name} cancels ${context.world.watch.alias(runId)}`);
  context.cancelRequests.push(held);
  void process.supervisor
    .run(runId)
    ?.cancel({ actor: "test" })
    .catch(() => undefined);
}

/** A client with the run's key, without store and supervisor. */
export function stopByKey(context: SimulationContext): void {
  const anchor = context.random.maybePick(context.actors.anchors);
  if (anchor === null) return;
  const by = { name: "key", gone: false, held: false, timebase: anchor.place.machine };
  const connection = anchor.connect(by, 0, () => undefined);
  connection?.send({
    type: "stop",
    stop: { reason: "manual-cancel", actor: "key", requestId: "k", graceMs: null },
  });
  connection?.hangUp();
}

export function controlRun(context: SimulationContext): void {
  const held = context.pickHeldRun();
  const run = held?.process.supervisor.run(held.runId) ?? null;
  if (run === null) return;
  const how = context.random.pick(["write", "heartbeat", "resize"] as const);
  try {
    if (how === "write") void run.write("x").catch(() => undefined);
    else if (how === "heartbeat") run.heartbeat();
    else run.resize({ rows: 10, cols: 10 });
  } catch {
    // It says that it may not, which is the answer hoped for.
  }
}
