import { defaults } from "../../defaults.js";
import type { Problem, Run } from "../../supervisor/api.js";
import { openSupervisor } from "../../supervisor/open.js";
import { retryWhileFenced } from "../../supervisor/run-handle.js";
import type { ForegroundRun, ForegroundRunner } from "./foreground-runner.js";

/** A supervisor of its own, for this one command: no gateway is asked or started. */
export async function openInProcessRunner(
  actor: string,
  onProblem: (problem: Problem) => void,
): Promise<ForegroundRunner> {
  const supervisor = await openSupervisor({ actor, discardOutput: true, onProblem });
  return {
    // Whoever asked for it is gone when this process is: nobody would read on.
    spawn: async (input, options) =>
      toForegroundRun(
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

function toForegroundRun(run: Run): ForegroundRun {
  const write = run.write.bind(run);
  const closeStdin = run.closeStdin.bind(run);
  return Object.assign(run, {
    unreachable: new Promise<undefined>(() => {}),
    write: (data: Uint8Array | string) => retryWhileFenced(() => write(data)),
    closeStdin: () => retryWhileFenced(closeStdin),
  });
}
