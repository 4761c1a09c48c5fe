import { runSchedule } from "../../simulation/run-schedule.js";
import { firstSeed, variants } from "../../simulation/variants.js";
import type { SimulationChunk, SimulationResult } from "./simulate.js";

process.on("message", (chunk: SimulationChunk) => void runChunk(chunk));

async function runChunk({ variant: at, first, count }: SimulationChunk): Promise<void> {
  const variant = variants[at];
  if (variant === undefined) throw new Error(`no variant ${at}`);
  const failures: { seed: number; message: string }[] = [];
  for (let each = 0; each < count; each++) {
    const failure = await runSchedule(firstSeed(variant) + first + each, variant);
    if (failure !== null) failures.push(failure);
  }
  const result: SimulationResult = { failures };
  process.send?.(result);
}
