import { defaults } from "../../defaults.js";
import type { Problem, Run } from "../../supervisor/api.js";
import { openSupervisor } from "../../supervisor/open.js";
import { retryWhileFenced } from "../../supervisor/run-handle.js";
import type { ForegroundRun, ForegroundRunner } from "./foreground-runner.js";

/** Supervises one command in this process, without a gateway. */
export async function openInProcessRunner(
  actor: string,
  onProblem: (problem: Problem) => void,
): Promise<ForegroundRunner> {
  const supervisor = await openSupervisor({ actor, discardOutput: true, onProblem });
  return {
    // When this process ends, nothing reads the output any more.
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
