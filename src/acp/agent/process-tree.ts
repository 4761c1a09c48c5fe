import type { LiveProcesses } from "../../anchor/inspect/processes.js";
import { isSameProcess } from "../../model/process.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import { listOpenTerminals } from "../client/terminals.js";

export interface VerifiedProcessTree {
  readonly runId: string | null;
  /** The agent's own process is the one on record, below the anchor on record. */
  readonly verified: boolean;
  readonly why: string;
  readonly processes: LiveProcesses;
}

/** `runId`: of the session's agent; null: it has none. */
export async function verifyProcessTree(
  supervisor: Supervisor,
  runId: string | null,
): Promise<VerifiedProcessTree> {
  const unverified = (why: string): VerifiedProcessTree => ({ runId, verified: false, why, processes: [] });
  if (runId === null) return unverified("the session has no agent process");
  const record = await supervisor.getRun(runId);
  if (record === null || record.state === "exited") return unverified("the agent's process has ended");
  const run = supervisor.run(runId);
  if (run === null)
    return unverified(`instance ${record.ownerInstanceId} owns the agent's process, not this gateway`);
  const processes = await listLiveProcesses(supervisor, run);
  if (processes === null) return unverified("the processes cannot be listed now");
  const verified = processes.some(({ identity }) => isSameProcess(identity, record.root));
  const why = verified
    ? "the agent's process is the one on record, below its anchor"
    : "the agent's own process is gone; its run ends the others";
  return { runId, verified, why, processes };
}

/** Processes of the agent and its terminals. Null: they cannot be listed now. */
async function listLiveProcesses(supervisor: Supervisor, agent: Run): Promise<LiveProcesses | null> {
  const processes = await agent.members().catch(() => null);
  if (processes === null) return null;
  const terminals = await listOpenTerminals(supervisor, agent.runId);
  const runs = terminals.flatMap(({ runId }) => supervisor.run(runId) ?? []);
  // A terminal that ends just now has no processes.
  const others = await Promise.all(runs.map((run) => run.members().catch(() => [])));
  return [processes, ...others].flat();
}
