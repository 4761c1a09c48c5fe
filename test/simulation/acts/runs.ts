import { defaults } from "../../../src/defaults.js";
import type { SpawnOptions } from "../../../src/supervisor/api.js";
import type { Stage } from "../stage.js";

/** Runs per schedule: enough for them to meet, few enough to follow. */
const MOST_RUNS = 5;

export function spawn(stage: Stage): void {
  const process = stage.random.maybePick(stage.cast.awake);
  if (process === null || stage.spawned >= MOST_RUNS) return;
  stage.spawned++;
  const random = stage.random;
  const words = ["ignore-term", "missing", "no-fork"].filter((_, at) => random.chance(at === 0 ? 0.3 : 0.03));
  const options: SpawnOptions = {
    clearEnv: true,
    cwd: "/",
    kind: random.chance(stage.serviceShare) ? "service" : "task",
    onOrphan: random.chance(0.7) ? "adopt" : "terminate",
    onEscape: random.chance(0.5) ? "fail" : "sweep",
    timeoutMs: random.pick([0, 0, 0, 5_000, 40_000]),
    noOutputTimeoutMs: random.pick([0, 0, 0, 0, 8_000]),
    graceMs: random.pick([0, 300, 5_000]),
    ownerLossMs: random.pick([1_000, 20_000, defaults.ownerLossMs]),
  };
  stage.world.note(() => `${process.name} spawns ${words.join(" ")} ${JSON.stringify(options)}`);
  process.supervisor
    .spawn({ io: "pipe", argv: ["/bin/target", ...words] }, options)
    .catch((error: unknown) => stage.world.note(() => `${process.name}: spawn failed: ${String(error)}`));
}

export function cancel(stage: Stage): void {
  const held = stage.held();
  if (held === null) return;
  const { process, runId } = held;
  stage.world.note(() => `${process.name} cancels ${stage.world.watch.alias(runId)}`);
  stage.asked.push(held);
  void process.supervisor
    .run(runId)
    ?.cancel({ actor: "test" })
    .catch(() => undefined);
}

/** Somebody with the key, and no store or supervisor at all. */
export function stopByKey(stage: Stage): void {
  const anchor = stage.random.maybePick(stage.cast.anchors);
  if (anchor === null) return;
  const by = { name: "key", gone: false, held: false, timebase: anchor.place.machine };
  const connection = anchor.connect(by, 0, () => undefined);
  connection?.send({
    type: "stop",
    stop: { reason: "manual-cancel", actor: "key", requestId: "k", graceMs: null },
  });
  connection?.hangUp();
}

export function steer(stage: Stage): void {
  const held = stage.held();
  const run = held?.process.supervisor.run(held.runId) ?? null;
  if (run === null) return;
  const how = stage.random.pick(["write", "heartbeat", "resize"] as const);
  try {
    if (how === "write") void run.write("x").catch(() => undefined);
    else if (how === "heartbeat") run.heartbeat();
    else run.resize({ rows: 10, cols: 10 });
  } catch {
    // It says that it may not, which is the answer hoped for.
  }
}
