import type { LiveProcesses } from "../../anchor/inspect/processes.js";
import { isSameProcess } from "../../model/process.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import { listOpenTerminals } from "../client/terminals.js";

/** What is known of the processes of a session. */
export interface VerifiedProcessTree {
  readonly runId: string | null;
  /** The agent's own process is the recorded one, and below the recorded anchor. */
  readonly verified: boolean;
  readonly why: string;
  readonly processes: LiveProcesses;
}

/** Of the session whose agent is this run; null: it has none. */
export async function verifyProcessTree(
  supervisor: Supervisor,
  runId: string | null,
): Promise<VerifiedProcessTree> {
  const nobody = (why: string): VerifiedProcessTree => ({ runId, verified: false, why, processes: [] });
  if (runId === null) return nobody("it has no agent process");
  const record = await supervisor.getRun(runId);
  if (record === null || record.state === "exited") return nobody("its agent's process has ended");
  const run = supervisor.run(runId);
  if (run === null) return nobody(`${record.ownerInstanceId} holds its agent's process, not this gateway`);
  const processes = await listLiveProcesses(supervisor, run);
  if (processes === null) return nobody("its processes cannot be seen now");
  const verified = processes.some(({ identity }) => isSameProcess(identity, record.root));
  const why = verified
    ? "its agent's process is the recorded one, below its anchor"
    : "its agent's own process is gone; the rest is its run's to end";
  return { runId, verified, why, processes };
}

/** Of the agent and of the terminals it has. Null: they cannot be seen now. */
async function listLiveProcesses(supervisor: Supervisor, agent: Run): Promise<LiveProcesses | null> {
  const processes = await agent.members().catch(() => null);
  if (processes === null) return null;
  const terminals = await listOpenTerminals(supervisor, agent.runId);
  const runs = terminals.flatMap(({ runId }) => supervisor.run(runId) ?? []);
  // One that ends just now has nobody.
  const others = await Promise.all(runs.map((run) => run.members().catch(() => [])));
  return [processes, ...others].flat();
}
