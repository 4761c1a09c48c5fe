import { OPEN_STATES, type RunRecord } from "../store/run-record.js";
import type { Supervisor } from "../supervisor/api.js";
import type { Callers } from "./callers.js";

export interface StopPolicy {
  /** `leave`: the runs stay with their anchors. `drain`: wait for tasks to end. `terminate`: stop them. */
  readonly runs: "leave" | "drain" | "terminate";
  /** How long to wait for tasks that are drained; the rest is left. */
  readonly waitMs: number;
}

/** What was done about the runs. */
export interface Stopping {
  readonly left: number;
  readonly ended: number;
  readonly terminated: number;
  /** Of those that are left, how many run in the foreground of somebody who now waits for the next gateway. */
  readonly callers: number;
}

/** See to the runs before the gateway leaves. Services are left in any case but `terminate`. Aborted, it drains no longer. */
export async function settleRuns(
  supervisor: Supervisor,
  callers: Callers,
  { runs, waitMs }: StopPolicy,
  signal: AbortSignal,
  /** Resolves when no agent works on anything. They do not end by themselves. */
  agentsQuiet: (enough: AbortSignal) => Promise<void>,
): Promise<Stopping> {
  const held = (await openRuns(supervisor)).flatMap((record) => {
    const run = supervisor.run(record.runId);
    return run === null ? [] : [{ record, run }];
  });
  let ended = 0;
  let terminated = 0;
  if (runs === "terminate")
    await Promise.all(
      held.map(async ({ run }) => {
        const { outcome } = await supervisor.stop(run.runId, { reason: "shutdown" });
        if (outcome === "gone") terminated++;
      }),
    );
  if (runs === "drain") {
    const tasks = held.filter(({ record }) => record.kind === "task" && record.backendId !== "acp");
    const over = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    const enough = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, signal.aborted ? 0 : waitMs);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    const all = Promise.all(
      tasks.map(({ run }) =>
        run.wait().then(
          () => ended++,
          () => undefined,
        ),
      ),
    );
    await Promise.race([Promise.all([all, agentsQuiet(over.signal)]), enough]);
    over.abort();
    clearTimeout(timer);
  }
  const left = held.length - ended - terminated;
  return { left, ended, terminated, callers: Math.min(left, callers.present) };
}

/** A store that cannot be read keeps nobody from leaving: then closing sees to whatever is held. */
async function openRuns(supervisor: Supervisor): Promise<readonly RunRecord[]> {
  const states = OPEN_STATES;
  return supervisor.listRuns({ ownerInstanceId: supervisor.instanceId, states }).catch(() => []);
}
