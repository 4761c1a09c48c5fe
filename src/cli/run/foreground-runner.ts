import type { RunRecord } from "../../model/run.js";
import type { CommandInput, Run, SpawnOptions } from "../../supervisor/api.js";

/** The parts of a run that the foreground needs. */
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
  /** Resolves when the run can no longer be observed, although it has not ended. */
  readonly unreachable: Promise<undefined>;
};

/** Supervises a foreground command: in this process, or in the gateway. */
export interface ForegroundRunner {
  spawn(input: CommandInput, options: SpawnOptions): Promise<ForegroundRun>;
  getRun(runId: string): Promise<RunRecord | null>;
  /** `left`: the run has not ended, and this process does not wait for it. */
  close(left: boolean): Promise<void>;
}
