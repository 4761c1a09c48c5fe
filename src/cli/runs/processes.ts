import { findAnchorBinary } from "../../anchor/binary.js";
import type { ProcessEvidence } from "../../anchor/host-interface.js";
import { LEASE_MARKER, listMarkedProcesses } from "../../anchor/inspect/marked-processes.js";
import { HIDDEN_STATE } from "../../model/process.js";
import type { LiveProcesses } from "../../anchor/inspect/processes.js";
import { inspectTrees } from "../../anchor/inspect/process-trees.js";
import { errorMessage } from "../../home/errno.js";
import { observeMachineIdentity } from "../../home/machine-identity.js";
import { resolveHome } from "../../home/state-directory.js";
import type { RunRecord } from "../../model/run.js";
import {
  listProcessesOfRun,
  notInspected,
  type RunProcesses,
} from "../../supervisor/inspect/live-processes.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { orderAsTree } from "../print/process-tree.js";

/** The live processes of a run; `open`: every open run, which may share its anchor. Loads no database. */
export async function inspectRun(record: RunRecord, open: readonly RunRecord[]): Promise<RunProcesses> {
  const machine = await observeMachineIdentity(resolveHome());
  try {
    const anchorPath = findAnchorBinary();
    const inspector = {
      machine,
      inspectTrees: (...request: RequestOf<typeof inspectTrees>) => inspectTrees(anchorPath, ...request),
      listMarkedProcesses: () => listMarkedProcesses(anchorPath, LEASE_MARKER),
    };
    return await listProcessesOfRun(inspector, record, open, { ports: record.service !== null });
  } catch (error) {
    return notInspected(errorMessage(error));
  }
}

/** Everything except the path of the binary. */
type RequestOf<Asks extends (anchorPath: string, ...rest: never[]) => unknown> =
  Parameters<Asks> extends [string, ...infer Rest] ? Rest : never;

/** The processes of a run as JSON, as in `runs cleanup`, `doctor` and the API. */
export function processesJson({ processes, claims, unknown }: RunProcesses): object {
  return {
    processes: processes.map(({ identity, command, state }) => ({ ...identity, command, state })),
    claims: claims.map(({ identity, command }) => ({ ...identity, command })),
    unknown,
  };
}

/** Processes as a tree, one line each, children below their parents; `top`: the anchor, null if it is gone. */
export function processTree(
  top: ProcessEvidence | null,
  processes: LiveProcesses,
  rootPid: number | null,
): string[] {
  const above = top?.identity.pid ?? 0;
  const lines = orderAsTree(processes, above).map(({ process, branches }) => {
    const { identity, sessionId, command, state } = process;
    const marks = [
      identity.pid === rootPid ? "the command" : null,
      // In another session than the command: it has detached itself.
      rootPid !== null && sessionId !== rootPid ? `session ${sessionId}` : null,
      STATE_NAMES[state] ?? null,
    ].filter((mark) => mark !== null);
    const name = state === HIDDEN_STATE ? "(hidden)" : sanitizeLine(command);
    return `${branches} ${identity.pid} ${name}${marks.length === 0 ? "" : `  (${marks.join(", ")})`}`;
  });
  return top === null ? lines : [`${above} ${sanitizeLine(top.command)}`, ...lines];
}

/** States worth showing; sleeping and running are normal. */
const STATE_NAMES: Readonly<Record<string, string>> = {
  D: "uninterruptible",
  T: "stopped",
  t: "traced",
  Z: "zombie",
};
