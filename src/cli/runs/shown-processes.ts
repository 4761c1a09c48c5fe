import type { RunProcesses } from "../../supervisor/inspect/live-processes.js";

/** The processes of a run for programs: as `runs cleanup`, `doctor` and the API name them. */
export function processesJson({ processes, claims, unknown }: RunProcesses): object {
  return {
    processes: processes.map(({ identity, command, state }) => ({ ...identity, command, state })),
    claims: claims.map(({ identity, command }) => ({ ...identity, command })),
    unknown,
  };
}
