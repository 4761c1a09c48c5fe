import { Progress } from "./progress.js";
import { formatTally } from "./report.js";
import { injectionsOf, newTally, type Tally } from "./tally.js";
import { whyNoPostgres } from "../support/store/postgres-server.js";
import { buildPrograms } from "./world/programs.js";
import { soakWorld } from "./world/soak-world.js";

/** Injections into one gateway's state directory, before another one is made. */
const INJECTIONS_PER_WORLD = 200;
/** The end of a world: repeated notifications, and the stop of its gateway. */
const LAST_MS = 30_000;
const PRINT_MS = 15_000;

interface FaultState {
  /** Worlds that were started. */
  next: number;
  readonly tally: Tally;
}

interface FaultOptions {
  readonly seed: number | null;
  readonly directory: string;
  readonly deadline: number;
  readonly worlds: number;
  readonly injections: number;
  /** The only world to soak; null: all that are due. */
  readonly only: number | null;
}

/** Soaks worlds side by side until the time is over or there are enough injections. */
export async function soakFaults({
  seed,
  directory,
  deadline,
  worlds,
  injections,
  only,
}: FaultOptions): Promise<number> {
  const first = (): FaultState => ({ next: 0, tally: newTally() });
  const saved = only === null ? Progress.open<FaultState>("faults", seed, first) : null;
  const state = saved?.state ?? first();
  const { tally } = state;
  const programs = buildPrograms(directory);
  const before = { injections: injectionsOf(tally), found: tally.found.length, seconds: tally.seconds };
  const started = performance.now();
  const isOver = (): boolean => performance.now() > deadline - LAST_MS || injectionsOf(tally) >= injections;
  const save = (): void => {
    tally.seconds = before.seconds + (performance.now() - started) / 1_000;
    saved?.save();
  };
  let printed = before.found;
  const print = (): void => {
    const done = injectionsOf(tally) - before.injections;
    const perSecond = done / ((performance.now() - started) / 1_000);
    console.log(
      `${injectionsOf(tally)} injections, ${perSecond.toFixed(1)} per second, ${tally.found.length} problems`,
    );
    for (; printed < tally.found.length; printed++) console.log(JSON.stringify(tally.found[printed]));
    save();
  };
  const printing = setInterval(print, PRINT_MS);
  const one = async (worldSeed: number): Promise<void> => {
    const limits = { injections: INJECTIONS_PER_WORLD, isOver, postgres: whyNoPostgres === null };
    await soakWorld(worldSeed, programs, tally, limits).catch((error: unknown) => {
      tally.found.push({
        ...{ kind: "stuck", seed: worldSeed, batch: 0, work: "world", faults: [] },
        what: error instanceof Error ? (error.stack ?? error.message) : String(error),
      });
    });
  };
  if (only !== null) await one(only);
  else
    await Promise.all(
      Array.from({ length: worlds }, async () => {
        while (!isOver()) await one((saved?.origin.seed ?? 0) * 1_000_000 + state.next++);
      }),
    );
  clearInterval(printing);
  print();
  console.log(formatTally(tally));
  return tally.found.length > before.found ? 1 : 0;
}
