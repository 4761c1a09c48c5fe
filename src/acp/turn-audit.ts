import type { LeftProcess, TurnAudit } from "../store/acp-record.js";
import type { Clock } from "../supervisor/clock.js";
import type { AgentProcess } from "./agent-process.js";
import type { RunningTurn } from "./exchange.js";
import type { KeptSession } from "./kept-session.js";
import type { AcpLimits } from "./limits.js";
import { bornSince, endBornSince } from "./turn-tree.js";

export interface AuditParts {
  readonly kept: KeptSession;
  readonly clock: Clock;
  readonly limits: AcpLimits;
}

/** Born in the turn and alive: reported; ended where that was asked for, or is the session's policy. */
export async function auditTurn(
  { kept, clock, limits }: AuditParts,
  { run, terminals }: Pick<AgentProcess, "run" | "terminals">,
  { turnId, before, cancel }: Pick<RunningTurn, "turnId" | "before" | "cancel">,
): Promise<void> {
  if (before === null || run.state !== "running") return;
  const { reap } = kept.row;
  const reaped = reap === "always" || (cancel !== null && (cancel.reapTools || reap === "cancel"));
  try {
    const left = [...(await bornSince(run, before)), ...(await terminals.left(turnId))];
    let survivors: readonly LeftProcess[] = left;
    if (reaped) {
      const stopped = terminals.stop(turnId);
      const tools = await endBornSince(run, before, clock, limits.toolGraceMs);
      await stopped;
      survivors = [...tools, ...(await terminals.left(turnId))];
    }
    const at = clock.wall();
    const audit: TurnAudit = { at, left, reaped, survivors };
    await kept.commit(() => ({
      turns: [{ turnId, from: "ended", set: { audit } }],
      updates: [{ turnId, at, type: "audit", data: audit }],
    }));
  } catch {
    // The agent has ended meanwhile, and everybody with it.
  }
}
