import type { RunRecord } from "../../model/run.js";
import type { CommandInput, Run, SpawnOptions } from "../../supervisor/api.js";

/** What the foreground needs of a run, wherever it is supervised. */
export type ForegroundRun = Pick<
  Run,
  | "runId"
  | "state"
  | "survivors"
  | "service"
  | "end"
  | "cancel"
  | "write"
  | "closeStdin"
  | "resize"
  | "follow"
> & {
  /** Resolves when nothing more will be heard of the run here, although it has not ended. */
  readonly unreachable: Promise<undefined>;
};

/** Where a foreground command is run: in this process, or by the gateway. */
export interface ForegroundRunner {
  spawn(input: CommandInput, options: SpawnOptions): Promise<ForegroundRun>;
  getRun(runId: string): Promise<RunRecord | null>;
  /** `left`: the run has not ended, and is not waited for. */
  close(left: boolean): Promise<void>;
}
