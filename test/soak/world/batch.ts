import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../../simulation/random.js";
import { checkEnd, checkHistory, checkReading, findByVariable } from "../checks/work-checks.js";
import { faults } from "../faults/all.js";
import type { Fault, FaultContext } from "../faults/fault.js";
import { addProblem, countsOf, type Problem, type Tally } from "../tally.js";
import { newWork } from "../works/new-work.js";
import { type Work, WORK_KINDS } from "../works/work.js";
import type { World } from "./world.js";

/** A stop falls back from gateway to anchor to launcher to the processes, each within its bound. */
const STOP_MS = 40_000;

export interface BatchRecord {
  readonly seed: number;
  readonly number: number;
  readonly tally: Tally;
  /** Their notifications are checked at the end of the world. */
  readonly tasks: { readonly taskId: string; readonly faults: readonly string[] }[];
}

/** Some works at a time, some faults in their lives, then their ends, checked. */
export async function runBatch(world: World, random: Random, record: BatchRecord): Promise<void> {
  const { seed, number, tally } = record;
  const kinds = random.shuffle([...WORK_KINDS]).slice(0, random.between(3, WORK_KINDS.length));
  const works = kinds.map((kind, at) =>
    newWork(kind, world, random, `${world.token}${number.toString(36).padStart(3, "0")}${at}`),
  );
  const stopped = new Set<Work>();
  const report = (problem: Problem, work: Work | null, by: readonly string[]): void =>
    addProblem(tally, { ...problem, seed, batch: number, work: work?.kind ?? "all", faults: by });
  for (const work of works) work.begin();
  for (let left = random.between(3, 8); left > 0; left--) {
    await sleep(random.below(30));
    const { fault, victim } = drawFault(world, random, works);
    const alive = victim === null ? works : [victim];
    // Drawn always, so that the same seed is the same schedule whatever a fault does.
    const [stops, stopAt] = [random.chance(0.15), random.pick(works)];
    const during = async (mostMs: number): Promise<void> => {
      if (!stops || stopped.has(stopAt) || stopAt.executions().length === 0)
        return sleep(random.below(mostMs));
      stopped.add(stopAt);
      tally.stops += 1;
      for (const problem of await stopWork(world, stopAt))
        report(problem, stopAt, [...stopAt.faults, fault.name]);
    };
    const context: FaultContext = { world, random, victim, works, during };
    for (const work of alive) work.faults.push(fault.name);
    try {
      if (!(await fault.inject(context))) continue;
    } catch (error) {
      report({ kind: "stuck", what: `${fault.name}: ${String(error)}` }, victim, [fault.name]);
      await world.ensureGateway();
    }
    const counts = countsOf(tally, fault.name);
    counts.injections += 1;
    for (const { kind } of alive) counts.met[kind] += 1;
    for (const what of world.bystanders.findSignalled())
      report({ kind: "strangers", what }, victim, [fault.name]);
    if (random.chance(0.1)) plantLikeness(world, works);
  }
  await Promise.all(works.map(({ started }) => started));
  for (const work of works) {
    if (
      work.kind === "service" &&
      random.chance(0.5) &&
      work.runId !== null &&
      work.executions().length > 0
    ) {
      work.allowStop();
      stopped.add(work);
      await world
        .ask((client) => client.kill({ params: { runId: work.runId ?? "" } }))
        .catch(() => undefined);
    } else work.release();
  }
  for (const work of works) {
    const { problems, bytes } = await checkEnd(work);
    tally.works += 1;
    tally.bytes += bytes;
    for (const problem of [...problems, ...(await checkHistory(world, work))])
      report(problem, work, work.faults);
    const ran = work.executions().at(-1)?.runId;
    if (work.kind === "task" && ran !== undefined) {
      const taskId = await findTask(world, ran);
      if (taskId === null)
        report({ kind: "notifications", what: `${ran} was executed and has no task` }, work, work.faults);
      else record.tasks.push({ taskId, faults: work.faults });
    }
  }
  for (const what of world.crashes.splice(0)) report({ kind: "crashes", what }, null, works[0]?.faults ?? []);
  const ended = works.flatMap(({ runId }) => (runId === null ? [] : [runId]));
  const read = random.maybePick(ended);
  if (read !== null && (await world.record(read)) !== null)
    for (const problem of await checkReading(world, read)) report(problem, null, works[0]?.faults ?? []);
  for (const what of world.bystanders.findSignalled())
    report({ kind: "strangers", what }, null, works.flatMap((work) => work.faults).slice(-1));
  for (const work of works) work.tidy();
}

async function findTask(world: World, runId: string): Promise<string | null> {
  const { tasks } = await world.ask((client) => client.listTasks());
  return tasks.find((task) => task.runId === runId)?.taskId ?? null;
}

function drawFault(
  world: World,
  random: Random,
  works: readonly Work[],
): { fault: Fault; victim: Work | null } {
  const possible = faults.flatMap((fault) => {
    if (fault.isPossible?.(world) === false) return [];
    const { suits } = fault;
    if (suits === undefined) return [{ fault, victims: [null] as (Work | null)[] }];
    const victims = works.filter((work) => suits(work));
    return victims.length === 0 ? [] : [{ fault, victims }];
  });
  let left = random.fraction() * possible.reduce((sum, { fault }) => sum + fault.weight, 0);
  for (const { fault, victims } of possible) {
    left -= fault.weight;
    if (left < 0) return { fault, victim: random.pick(victims) };
  }
  throw new Error("no fault is possible");
}

/** Stops a work from the command line while a fault is in force: it must be gone although the fault is not. */
async function stopWork(world: World, work: Work): Promise<Problem[]> {
  const { runId } = work;
  if (runId === null) return [];
  work.allowStop();
  const started = performance.now();
  const { code, said } = await Promise.race([
    world.holdfast("runs", "cancel", runId),
    sleep(STOP_MS, { code: null, said: `no answer within ${STOP_MS} ms` }),
  ]);
  const tookMs = Math.round(performance.now() - started);
  const left = findByVariable(`SOAK_WORK=${work.token}`);
  if (code === 0 && left.length === 0) return [];
  const alive = left.map(({ pid, argv }) => `${pid} ${argv.join(" ")}`).join("; ");
  return [
    {
      kind: "stops",
      what: `runs cancel ${runId} ended with ${code} after ${tookMs} ms (${said.trim()}); alive: ${alive}`,
    },
  ];
}

/** A process that carries the marker of a run, and does not belong to it. */
function plantLikeness(world: World, works: readonly Work[]): void {
  const runId = works.map((work) => work.runId).find((id) => id !== null);
  if (runId === undefined || runId === null) return;
  world.bystanders.plant("a process with the marker of a run", {
    env: { HOLDFAST_RUN_ID: runId, HOLDFAST_HOME: world.home },
  });
}
