import { BadInput } from "../errors.js";
import { NO_LIMITS, type RunLimits } from "../model/run.js";
import type { AskedLimits } from "./api.js";

/** What a kernel takes and a program can live with. */
const MEMORY_RANGE = { least: 1024 ** 2, most: 128 * 1024 ** 4, said: "from 1 MiB to 128 TiB" };
/** The most numbers that Linux gives to tasks. */
const PIDS_RANGE = { least: 1, most: 4_194_304, said: "a whole number from 1 to 4194304" };
/** The scheduler hands out time by the millisecond, ten times a second. */
const CPUS_RANGE = { least: 0.01, most: 4_096, said: "a number from 0.01 to 4096" };

/** Options come from JSON and JavaScript too: nothing is taken on trust. */
export function checkLimits(asked: AskedLimits = NO_LIMITS): RunLimits {
  if (typeof asked !== "object" || asked === null || Array.isArray(asked))
    throw new BadInput("limits", `limits must be an object, not ${JSON.stringify(asked)}`);
  const { memoryBytes, pids, cpus, ...others } = asked;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined)
    throw new BadInput("limits", `there is no limit ${JSON.stringify(unknown)}: memoryBytes, pids, cpus`);
  return {
    memoryBytes: limitInRange("memoryBytes", memoryBytes, MEMORY_RANGE, Number.isSafeInteger),
    pids: limitInRange("pids", pids, PIDS_RANGE, Number.isSafeInteger),
    cpus: limitInRange("cpus", cpus, CPUS_RANGE, Number.isFinite),
  };
}

function limitInRange(
  name: string,
  value: number | null | undefined,
  { least, most, said }: typeof MEMORY_RANGE,
  isNumber: (value: unknown) => boolean,
): number | null {
  if (value === undefined || value === null) return null;
  if (isNumber(value) && value >= least && value <= most) return value;
  throw new BadInput("limits", `the limit ${name} must be ${said}, not ${String(value)}`);
}
