import { defaults } from "../../defaults.js";
import type { Problem, Run } from "../../supervisor/api.js";
import { openSupervisor } from "../../supervisor/open.js";
import { whenSteering } from "../../supervisor/when-steering.js";
import type { ForegroundHost, ForegroundRun } from "./host.js";

/** A supervisor of its own, for this one command: no gateway is asked or started. */
export async function openInProcess(
  actor: string,
  onProblem: (problem: Problem) => void,
): Promise<ForegroundHost> {
  const supervisor = await openSupervisor({ actor, discardOutput: true, onProblem });
  return {
    // Whoever asked for it is gone when this process is: nobody would read on.
    spawn: async (input, options) =>
      seen(
        await supervisor.spawn(input, {
          ...options,
          ownerLossMs: defaults.foregroundOwnerLossMs,
          onOrphan: "terminate",
        }),
      ),
    getRun: (runId) => supervisor.getRun(runId),
    close: (left) => supervisor.close({ leaveRuns: left, actor }),
  };
}

function seen(run: Run): ForegroundRun {
  const write = run.write.bind(run);
  const closeStdin = run.closeStdin.bind(run);
  return Object.assign(run, {
    outOfSight: new Promise<undefined>(() => {}),
    write: (data: Uint8Array | string) => whenSteering(() => write(data)),
    closeStdin: () => whenSteering(closeStdin),
  });
}
