import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { writePage } from "./report.js";
import { soakFaults } from "./soak-faults.js";
import { simulate } from "./simulate/simulate.js";

const HELP = `Usage: npm run soak -- [options]

Injects faults into real gateways and checks the invariants after each. State is kept in build/soak/: the next part
continues where the last one ended.

  --minutes <n>      start nothing that would end later than this (default: 10)
  --seed <n>         seed of the schedule; another seed starts from zero (default: that of the saved state, or 1)
  --worlds <n>       state directories at a time (default: two per core)
  --injections <n>   stop after so many injections in all parts together
  --world <seed>     only the world of this seed, not saved: to repeat a problem
  --simulate <n>     simulated schedules instead, on all cores, until there are so many in all parts together
  --write            only write what all parts found into docs/reliability.md
`;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    seed: { type: "string" },
    worlds: { type: "string", default: String(2 * availableParallelism()) },
    injections: { type: "string" },
    world: { type: "string" },
    simulate: { type: "string" },
    write: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

const deadline = performance.now() + Number(values.minutes) * 60_000;
const seed = values.seed === undefined ? null : Number(values.seed);

async function run(): Promise<number> {
  if (values.help) {
    console.log(HELP);
    return 0;
  }
  if (values.write) {
    writePage();
    return 0;
  }
  if (values.simulate !== undefined) return simulate({ count: Number(values.simulate), seed, deadline });
  const directory = mkdtempSync(join(tmpdir(), "hf-soak-"));
  try {
    return await soakFaults({
      seed,
      directory,
      deadline,
      worlds: Number(values.worlds),
      injections: values.injections === undefined ? Infinity : Number(values.injections),
      only: values.world === undefined ? null : Number(values.world),
    });
  } finally {
    rmSync(directory, { recursive: true });
  }
}

process.exitCode = await run();
const program = process.env["SOAK_PROGRAM"];
if (program !== undefined) rmSync(program, { recursive: true, force: true });
