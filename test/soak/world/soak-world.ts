import { setTimeout as sleep } from "node:timers/promises";
import { Random } from "../../simulation/random.js";
import { checkReceived, checkSurvivors, checkTask } from "../checks/work-checks.js";
import { addProblem, injectionsOf, type Problem, type Tally } from "../tally.js";
import { type BatchRecord, runBatch } from "./batch.js";
import { World, type WorldPrograms } from "./world.js";

/** An attempt that a fault interrupted is repeated after its lease: a minute. */
const DELIVERED_MS = 120_000;
const GONE_MS = 10_000;

/** A world from a seed: batches until it has had so many injections or `isOver`, then what remains to be checked. */
export async function soakWorld(
  seed: number,
  programs: WorldPrograms,
  tally: Tally,
  {
    injections,
    isOver,
    postgres,
  }: { readonly injections: number; readonly isOver: () => boolean; readonly postgres: boolean },
): Promise<void> {
  const random = new Random(seed);
  const store = random.chance(0.35) && postgres ? "PostgreSQL" : "SQLite";
  const tier = random.pick(["", "cgroup", "cgroup,inode"]);
  await using world = await World.open(programs, store, tier);
  const record: BatchRecord & { number: number } = { seed, number: 0, tally, tasks: [] };
  const before = injectionsOf(tally);
  const report = (problem: Problem, faults: readonly string[]): void =>
    addProblem(tally, { ...problem, seed, batch: record.number, work: "world", faults });
  while (injectionsOf(tally) - before < injections && !isOver()) {
    record.number += 1;
    await runBatch(world, random, record);
  }
  // Otherwise the gateway does this once a minute, also for the ends of runs that it did not see.
  await world.ask((client) => client.maintainTasks({ body: { apply: true } }));
  const deadline = performance.now() + DELIVERED_MS;
  for (const { taskId, faults } of record.tasks) {
    let problems = await checkTask(world, taskId);
    while ((problems.length > 0 || world.receiver.of(taskId).length === 0) && performance.now() < deadline) {
      await sleep(500);
      problems = await checkTask(world, taskId);
    }
    for (const problem of problems) report(problem, faults);
  }
  await world
    .ask((client) => client.stop({ body: { runs: "terminate", waitMs: 5_000 } }))
    .catch(() => undefined);
  // Only now can no message follow.
  for (const { taskId, faults } of record.tasks)
    for (const problem of checkReceived(world, taskId)) report(problem, faults);
  tally.notifications += new Set(world.receiver.received.map(({ id }) => id)).size;
  tally.repeats += world.receiver.received.filter(({ repeat }) => repeat).length;
  for (const problem of await checkSurvivors(world, `SOAK_WORLD=${world.token}`)) report(problem, []);
  for (const what of await findOwnProcesses(world)) report({ kind: "survivors", what }, []);
  for (const what of world.bystanders.findSignalled()) report({ kind: "strangers", what }, []);
  tally.unproven += world.unproven.size;
  tally.worlds += 1;
}

/** Launchers and anchors, which have nothing left to do. */
async function findOwnProcesses(world: World): Promise<string[]> {
  const deadline = performance.now() + GONE_MS;
  for (;;) {
    const left = world
      .processes()
      .filter(({ argv }) => argv[0]?.startsWith("holdfast-anchor") === true || argv[1] === "launch");
    if (left.length === 0 || performance.now() > deadline)
      return left.map(({ pid, argv }) => `alive after the gateway was stopped: ${pid} ${argv.join(" ")}`);
    await sleep(50);
  }
}
