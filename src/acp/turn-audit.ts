import type { LeftoverProcess, TurnAudit } from "../model/acp.js";
import type { Clock } from "../async/clock.js";
import type { AgentProcess } from "./agent/agent-process.js";
import type { RunningTurn } from "./agent/turn-recorder.js";
import type { SessionWriter } from "./session-writer.js";
import type { AcpLimits } from "./limits.js";
import { processesStartedSince, killStartedSince } from "./agent/turn-processes.js";

export interface TurnAuditDeps {
  readonly writer: SessionWriter;
  readonly clock: Clock;
  readonly limits: AcpLimits;
}

/**
 * Born in the turn and alive: reported; ended where that was asked for, or is the session's policy. That nobody is left is
 * said only of a tree that was seen.
 */
export async function auditTurn(
  { writer, clock, limits }: TurnAuditDeps,
  { run, terminals }: Pick<AgentProcess, "run" | "terminals">,
  { turnId, before, cancel }: Pick<RunningTurn, "turnId" | "before" | "cancel">,
): Promise<void> {
  // With the agent everybody ends, and its run says how.
  if (run.state !== "running") return;
  const { reap } = writer.row;
  const asked = reap === "always" || (cancel !== null && (cancel.reapTools || reap === "cancel"));
  let left: readonly LeftoverProcess[] = [];
  let survivors: readonly LeftoverProcess[] = [];
  let [reaped, unknown]: [boolean, string | null] = [false, null];
  try {
    const inTerminals = await terminals.liveProcessesOf(turnId);
    survivors = left = inTerminals;
    if (asked) await terminals.stopTurn(turnId);
    if (before === null) throw new Error("its agent's processes could not be seen when it began");
    survivors = left = [...(await processesStartedSince(run, before)), ...inTerminals];
    if (asked)
      survivors = [
        ...(await killStartedSince(run, before, clock, limits.toolGraceMs)),
        ...(await terminals.liveProcessesOf(turnId)),
      ];
    reaped = asked;
  } catch (error) {
    unknown = error instanceof Error ? error.message : String(error);
  }
  if (run.state !== "running") return;
  const at = clock.wall();
  const audit: TurnAudit = { at, left, reaped, survivors, unknown };
  await writer.commit(() => ({
    turns: [{ turnId, from: "ended", set: { audit } }],
    updates: [{ turnId, at, type: "audit", data: audit }],
  }));
}
