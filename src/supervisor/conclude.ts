import type { AnchorExit, SpawnFailure, StreamName } from "../anchor/host.js";
import type { NewRunEvent } from "../store/run-event.js";
import type { RunExit } from "../store/run-record.js";
import type { Aftermath } from "./aftermath.js";
import { noteStop } from "./cancel.js";
import { finalize, type Finale } from "./finalize.js";
import type { LiveRun } from "./live-run.js";
import { outcomeOf, outcomeOfRemains } from "./outcome.js";
import { recordStart } from "./started.js";

type Events = readonly NewRunEvent[];
const STREAMS: readonly StreamName[] = ["stdout", "stderr"];

/** The anchor said how it ended, on the wire or in the file it left. */
export function concludeExit(
  live: LiveRun,
  exit: AnchorExit,
  source: "anchor" | "exit-file",
  before: Events = [],
): void {
  for (const stream of STREAMS) live.ranges.update(stream, { ...exit[stream], closed: true });
  if (exit.executed) recordStart(live, (exit.endedAt ?? live.context.clock.wall()) - exit.durationMs);
  noteTier(live, exit);
  reportLoss(live, exit);
  // Said in the exit too, for whoever did not hear it from the anchor in time.
  if (exit.requestId !== "" || exit.actor !== "") {
    const { reason, actor, requestId } = exit;
    live.firstStop ??= { reason, actor, requestId };
    // What ended a run that nobody attended is in its end, and in the decision to finalize it.
    if (source === "anchor") noteStop(live, live.firstStop);
  }
  live.failure ??= exit.spawnError;
  const outcome = outcomeOf(exit, source, live.facts.attempt);
  const { residue, residueCount, emptiness, usage, processes } = exit;
  finalize(live, {
    type: "exited",
    ending: {
      exit: exit.executed ? outcome : withReason(outcome, live.failure),
      residue,
      residueCount,
      emptiness,
      usage: { ...usage, processes },
    },
    mode: exit.killMode,
    cleaned: residueCount,
    survivors: 0,
    processes,
    endedAt: exit.endedAt,
    before,
  });
}

/** With back-pressure nothing is dropped but what the disk would not take. */
function reportLoss(live: LiveRun, exit: AnchorExit): void {
  const { runId, withholdAt } = live.facts;
  for (const stream of STREAMS) {
    const { dropped } = exit[stream];
    if (live.facts.attempt === null || withholdAt[stream] === null || dropped === 0) continue;
    const message = `run ${runId}: ${dropped} bytes of its output (${stream}) were lost, because they could not be written to the disk`;
    live.context.report({ runId, message, cause: null });
  }
}

/** A guarantee that became weaker on the way is recorded, never silent. */
function noteTier(live: LiveRun, { tier, tierNote }: AnchorExit): void {
  const { boundary } = live.traces;
  if (tier === null || live.tier === null || tier === live.tier || boundary === null) return;
  live.tier = tier;
  live.journal.note({ to: "weaker", tier, boundary: { ...boundary, note: tierNote } });
}

/** The anchor only knows that nobody said GO; this supervisor may know why. */
function withReason(outcome: RunExit, failure: SpawnFailure | null): RunExit {
  if (failure === null || outcome.reason !== "spawn-error") return outcome;
  return { ...outcome, detail: failure.message, errno: failure.errno === 0 ? null : failure.errno };
}

/** Nothing of the command ran, and nobody is left to say so. */
export function concludeFailure(live: LiveRun, failure: SpawnFailure, before: Events = []): void {
  live.failure ??= failure;
  const { errno, message } = failure;
  finalize(live, {
    ...NOTHING_CLEANED,
    type: "exited",
    ending: {
      exit: {
        reason: "spawn-error",
        actor: "",
        code: null,
        signal: null,
        source: "none",
        detail: message,
        errno: errno === 0 ? null : errno,
      },
      residue: [],
      residueCount: 0,
      usage: null,
      emptiness: "proven",
    },
    before,
  });
}

const NOTHING_CLEANED = { mode: "none", cleaned: 0, survivors: 0, processes: 0 } satisfies Partial<Finale>;

/** False: nothing can be concluded yet. */
export function concludeAftermath(live: LiveRun, after: Aftermath, before: Events = []): boolean {
  switch (after.kind) {
    case "exit":
      concludeExit(live, after.exit, "exit-file", before);
      return true;
    case "anchor-alive":
      return false;
    case "given-up":
      return true;
    case "never-executed":
      concludeFailure(live, live.failure ?? INTERRUPTED, before);
      return true;
    case "lost":
      concludeLost(live, after, before);
      return true;
  }
}

const INTERRUPTED: SpawnFailure = {
  errno: 0,
  step: "interrupted",
  message: "its supervisor ended while it was being started; the command did not run",
};

type Lost = Extract<Aftermath, { kind: "lost" }>;

function concludeLost(live: LiveRun, after: Lost, before: Events): void {
  const exit = { ...outcomeOfRemains(after.remains), ...(escaped(live, after) ? ESCAPE : {}) };
  const { emptiness, mode, killed, residue, survivors, note } = after;
  finalize(live, {
    type: "lost",
    ending: {
      exit: note === null ? exit : { ...exit, detail: [exit.detail, note].filter(Boolean).join("; ") },
      residue,
      residueCount: mode === "reap" ? killed : 0,
      usage: null,
      emptiness,
    },
    mode,
    cleaned: killed,
    survivors,
    processes: 0,
    before,
  });
}

const ESCAPE = { reason: "ownership-escape" } as const;

/** The command had ended by itself, and what it left outlived its anchor too: found, and proven to be gone now. */
function escaped({ facts }: LiveRun, { remains, mode, emptiness, residue }: Lost): boolean {
  const byItself = remains !== null && remains.leader !== null && remains.firstStop === null;
  return (
    byItself &&
    mode === "reap" &&
    emptiness === "proven" &&
    residue.length > 0 &&
    facts.policy.onEscape === "fail"
  );
}
