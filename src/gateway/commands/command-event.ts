import type { CommandResult, NewCommand } from "../../store/command-record.js";
import type { NewRunEvent } from "../../store/run-event.js";
import type { RunRecord } from "../../store/run-record.js";

/** It was handed over (`result` null), or this came of it. */
export function commandEvent(
  { id, runId, actor, handedOverBy, target }: NewCommand,
  record: Pick<RunRecord, "root"> | null,
  result: CommandResult | null,
): NewRunEvent {
  const { outcome = null, error = null } = result ?? {};
  return {
    runId,
    type: "command",
    at: Date.now(),
    rootPid: record?.root?.pid ?? null,
    descendants: 0,
    data: { id, actor, by: handedOverBy, target, outcome, error },
  };
}
