import { posix } from "node:path";
import type { AnchorHost, ProcessEvidence } from "../../anchor/host.js";
import { HIDDEN_STATE } from "../../anchor/inspect/liveness.js";
import { isSameClock } from "../../home/machine-identity.js";
import type { ImportedFacts, RunRecord } from "../../model/run.js";
import { commandHash } from "../../text/redact.js";
import type { ImportedEvidence } from "./decide.js";

/** Inspects the process of an imported record. All recorded facts must match, because a pid alone proves nothing. */
export async function gatherImportedEvidence(
  host: Pick<AnchorHost, "inspectProcesses" | "machine">,
  record: RunRecord,
): Promise<ImportedEvidence> {
  const { imported } = record;
  if (imported === null) return { kind: "unknown", why: "nothing is recorded" };
  if (imported.startTime !== null && !isSameClock(record, host.machine))
    return { kind: "unknown", why: "its start time was read in another time namespace" };
  try {
    const [evidence] = await host.inspectProcesses([imported.pid]);
    return evidence === undefined
      ? { kind: "unknown", why: "its process cannot be inspected" }
      : compareImported(imported, evidence);
  } catch {
    return { kind: "unknown", why: "its process cannot be inspected" };
  }
}

export function compareImported(facts: ImportedFacts, live: ProcessEvidence): ImportedEvidence {
  if (!live.alive) return { kind: "gone" };
  if (live.state === HIDDEN_STATE)
    return { kind: "unknown", why: `process ${facts.pid} is hidden and cannot be inspected` };
  if (facts.startTime !== null && facts.startTime !== live.identity.startTime)
    return differs(`process ${facts.pid} was started at another time`);
  if (live.argv.length === 0)
    return { kind: "unknown", why: `the command of process ${facts.pid} cannot be read` };
  if (commandHash(live.argv) !== facts.commandHash)
    return differs(`process ${facts.pid} runs another command`);
  if (facts.wrapperRoot === "" || !posix.isAbsolute(facts.wrapperRoot))
    return differs("no wrapper root is recorded");
  if (!isBelowRoot(facts.wrapperRoot, live))
    return differs(`process ${facts.pid} runs no program below ${facts.wrapperRoot}`);
  return { kind: "matches" };
}

/** Checks the executable, and the script of an interpreter. */
function isBelowRoot(root: string, { executable, argv }: ProcessEvidence): boolean {
  const base = posix.resolve(root);
  const candidates = [executable, argv[0], argv.slice(1).find((word) => !word.startsWith("-"))];
  return candidates.some(
    (path) =>
      path !== undefined &&
      path !== null &&
      posix.isAbsolute(path) &&
      posix.resolve(path).startsWith(`${base}/`),
  );
}

function differs(why: string): ImportedEvidence {
  return { kind: "differs", why };
}
