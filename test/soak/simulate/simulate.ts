import { fork } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { variants } from "../../simulation/variants.js";
import { Progress } from "../progress.js";

/** Schedules that a worker runs between two reports. */
const CHUNK = 500;
const PRINT_MS = 15_000;

export interface SimulationState {
  /** Schedules per variant, by name: they are drawn in turns, so each variant has as many. */
  readonly counts: Record<string, number>;
  /** The next chunk. */
  next: number;
  /** Chunks that a part gave out and that did not come back. */
  readonly unfinished: number[];
  seconds: number;
  readonly failures: { readonly seed: number; readonly message: string }[];
}

export interface SimulationChunk {
  readonly variant: number;
  readonly first: number;
  readonly count: number;
}

export interface SimulationResult {
  readonly failures: SimulationState["failures"];
}

/** Simulated schedules on all cores, until there are `count` in all parts together or the time is over. */
export async function simulate({
  count,
  seed,
  deadline,
}: {
  readonly count: number;
  readonly seed: number | null;
  readonly deadline: number;
}): Promise<number> {
  const first = (): SimulationState => ({ counts: {}, next: 0, unfinished: [], seconds: 0, failures: [] });
  const { origin, state, ...progress } = open(seed, first);
  const before = { seconds: state.seconds, failures: state.failures.length, done: doneOf(state) };
  const started = performance.now();
  const given = new Set<number>();
  const again = [...state.unfinished];
  let longestMs = 0;
  const save = (): void => {
    state.seconds = before.seconds + (performance.now() - started) / 1_000;
    progress.save();
  };
  const print = (): void => {
    const perSecond = (doneOf(state) - before.done) / ((performance.now() - started) / 1_000);
    console.log(
      `${doneOf(state)} schedules, ${perSecond.toFixed(0)} per second, ${state.failures.length} failures`,
    );
    save();
  };
  const printing = setInterval(print, PRINT_MS);
  const take = (): number | null => {
    if (performance.now() + longestMs > deadline || doneOf(state) + given.size * CHUNK >= count) return null;
    const chunk = again.shift() ?? state.next++;
    given.add(chunk);
    // On record until its answer is: a part that is interrupted leaves no gap.
    if (!state.unfinished.includes(chunk)) state.unfinished.push(chunk);
    return chunk;
  };
  const work = async (): Promise<void> => {
    // A schedule leaves much garbage, and little that lives on.
    const worker = fork(fileURLToPath(new URL("worker.js", import.meta.url)), {
      execArgv: [...process.execArgv, "--max-semi-space-size=32"],
    });
    for (let chunk = take(); chunk !== null; chunk = take()) {
      const begun = performance.now();
      worker.send(chunkOf(chunk, origin.seed));
      const [answer] = (await Promise.race([
        once(worker, "message"),
        once(worker, "exit").then(() => Promise.reject(new Error(`a worker ended in chunk ${chunk}`))),
      ])) as [SimulationResult];
      longestMs = Math.max(longestMs, performance.now() - begun);
      given.delete(chunk);
      state.unfinished.splice(state.unfinished.indexOf(chunk), 1);
      const name = variants[chunk % variants.length]?.name ?? "";
      state.counts[name] = (state.counts[name] ?? 0) + CHUNK;
      state.failures.push(...answer.failures);
      for (const { seed: failed, message } of answer.failures)
        console.log(
          `${message}\nreplay: HOLDFAST_SIM_SEED=${failed} npm test -- test/simulation/simulation.test.ts`,
        );
    }
    worker.disconnect();
  };
  try {
    await Promise.all(Array.from({ length: availableParallelism() }, work));
  } finally {
    clearInterval(printing);
    print();
  }
  return state.failures.length > before.failures ? 1 : 0;
}

function open(seed: number | null, first: () => SimulationState) {
  const progress = Progress.open("simulation", seed, first);
  return { origin: progress.origin, state: progress.state, save: () => progress.save() };
}

/** A seed of the simulator says its variant too: the first million seeds are of the first one, and so on. */
function chunkOf(chunk: number, seed: number): SimulationChunk {
  const variant = chunk % variants.length;
  const inVariant = Math.floor(chunk / variants.length) * CHUNK;
  return { variant, first: (seed - 1) * 250_000 + inVariant, count: CHUNK };
}

function doneOf({ counts }: SimulationState): number {
  return Object.values(counts).reduce((sum, each) => sum + each, 0);
}
