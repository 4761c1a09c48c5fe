import type { NewRunEvent } from "../store/run-event.js";
import type { Residue } from "../store/run-record.js";
import { quiet } from "./let-go.js";
import { eventFacts, isOver, type LiveRun } from "./live-run.js";
import { releaseOutput } from "./release-output.js";
import { step, type Ending } from "./run-state.js";

export interface Finale {
  readonly ending: Ending;
  /** Whether the end was seen or concluded. */
  readonly type: "exited" | "lost";
  /** How the tree was emptied: `none`, `pid`, `cgroup`, `launcher`, `reap`. */
  readonly mode: string;
  /** Processes that had to be ended besides the leader. */
  readonly cleaned: number;
  readonly survivors: number;
  /** Processes seen in the run's life, the leader included; 0: nobody counted. */
  readonly processes: number;
  /** When the anchor saw it end, if that was told; otherwise now. */
  readonly endedAt?: number | null;
  /** Written in the same transaction, before the end. */
  readonly before: readonly NewRunEvent[];
}

/**
 * The one way to end a run. Idempotent: the first finale wins. The terminal row and its events are one transaction,
 * repeated until it is committed; only then is `wait` answered and the run's directory given up.
 */
export function finalize(live: LiveRun, finale: Finale): void {
  if (isOver(live)) return;
  live.finalizing = true;
  live.state = step(live.state, { type: finale.type, ending: finale.ending });
  live.descendants = Math.max(live.descendants, finale.processes - 1);
  quiet(live, "the run has ended");
  const at = finale.endedAt ?? live.context.clock.wall();
  const events = [...finale.before, ...finalEvents(live, finale, at)];
  live.context.track(
    live.facts.runId,
    commit(live, live.journal.finish({ to: "exited", at, ...finale.ending }, events)),
  );
}

async function commit(live: LiveRun, finished: ReturnType<LiveRun["journal"]["finish"]>): Promise<void> {
  try {
    const record = await finished;
    live.context.live.delete(live.facts.runId);
    live.ended.resolve(record);
    releaseOutput(live);
  } catch (error) {
    // Closed before it could be committed: the run's directory stays and tells the next supervisor.
    live.ended.reject(error);
  }
}

function finalEvents(live: LiveRun, { ending, mode, cleaned, survivors }: Finale, at: number): NewRunEvent[] {
  const { exit, residue, emptiness } = ending;
  const { reason, actor, code, signal } = exit;
  const facts = eventFacts(live, at);
  const events: NewRunEvent[] = [];
  // Who is still there when a run is stopped has not escaped it.
  const byItself = reason === "exit" || reason === "signal" || reason === "ownership-escape";
  const escaped = byItself ? residue.filter(isOutside) : [];
  if (escaped.length > 0)
    events.push({
      ...facts,
      type: "escape",
      data: { residue: escaped.map(({ pid, kind, command }) => ({ pid, kind, command })) },
    });
  if (cleaned > 0 || survivors > 0)
    events.push({ ...facts, type: "cleanup", data: { mode, residue: cleaned, survivors } });
  events.push({ ...facts, type: "exit", data: { reason, actor, code, signal, emptiness } });
  return events;
}

/** In a session of its own, or outside the boundary: not a mere background job of the leader's. */
function isOutside({ kind }: Residue): boolean {
  return kind === "detached" || kind === "migrated";
}
