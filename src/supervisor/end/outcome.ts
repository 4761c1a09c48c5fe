import { describeSpawnFailure, type StartAttempt } from "../../anchor/protocol/errors.js";
import type { AnchorExit, LeaderStatus, RunFiles, SweptFile } from "../../anchor/host.js";
import type { EndReason, RunExit } from "../../model/run.js";
import { END_REASONS } from "../../model/enums.js";
import { signalName } from "../../text/signal-name.js";

/** The outcome of a run, from its anchor's exit report. */
export function outcomeOfExit(
  exit: AnchorExit,
  source: "anchor" | "exit-file",
  attempt: StartAttempt | null = null,
): RunExit {
  const reason = parseEndReason(exit.reason);
  return {
    reason: reason ?? impliedReason(exit),
    actor: exit.actor,
    ...leaderExit(exit.leader),
    source: exit.leader === null ? "none" : source,
    detail: exitDetail(exit, reason, attempt),
    errno: exit.spawnError?.errno ?? null,
    limitHit: exit.limitHit,
  };
}

const NO_CAUSE = { errno: null, limitHit: null } as const;

/** The outcome of a run without an anchor, from the files in its directory. Null: it was imported and has none. */
export function outcomeOfRunFiles(runFiles: RunFiles | null, attempt: StartAttempt | null = null): RunExit {
  if (runFiles === null)
    return { reason: "lost", actor: "", ...leaderExit(null), source: "none", detail: null, ...NO_CAUSE };
  if (runFiles.exit !== null) return outcomeOfExit(runFiles.exit, "exit-file", attempt);
  const { firstStop } = runFiles;
  const enforced = firstStop?.withoutAnchor === true ? parseEndReason(firstStop.reason) : null;
  return {
    reason: enforced ?? "lost",
    // The anchor may have died during a stop, so its actor is recorded.
    actor: firstStop?.actor ?? "",
    ...leaderExit(runFiles.leader),
    source: runFiles.leader === null ? "none" : "leader-file",
    detail: enforced === null ? lostDetail(runFiles) : enforcedDetail(runFiles),
    ...NO_CAUSE,
  };
}

/** Null: an unknown reason, from an anchor of a newer version. */
export function parseEndReason(text: string): EndReason | null {
  return END_REASONS.find((reason) => reason === text) ?? null;
}

function impliedReason({ executed, leader }: AnchorExit): EndReason {
  if (!executed) return "spawn-error";
  if (leader === null) return "lost";
  return leader.signal === null ? "exit" : "signal";
}

function exitDetail(exit: AnchorExit, reason: EndReason | null, attempt: StartAttempt | null): string | null {
  if (exit.spawnError !== null) return describeSpawnFailure(exit.spawnError, attempt);
  if (reason === null)
    return `the anchor reported a reason that this version does not know: ${JSON.stringify(exit.reason)}`;
  if (!exit.executed) return "it was stopped before the command ran one instruction";
  return null;
}

/** Detail of a run that was stopped without its anchor, for the stop's reason. */
function enforcedDetail({ swept }: RunFiles): string {
  const silent = "its anchor did not answer, so the run was ended without it";
  if (swept === null) return silent;
  const { killed, emptiness } = swept;
  const ended = killed === 1 ? "1 process was killed" : `${killed} processes were killed`;
  return `${silent}; ${ended}${emptiness === "proven" ? "" : ", and whether others are alive is not known"}`;
}

function lostDetail({ swept, firstStop }: RunFiles): string {
  const asked = firstStop === null ? "" : `; a stop had been requested (${firstStop.reason})`;
  if (swept === null) return `its anchor ended without a report${asked}`;
  return `its anchor ${describeAnchorEnd(swept)}${asked}; ${describeCleanup(swept)}`;
}

function describeAnchorEnd({ anchorSignal }: SweptFile): string {
  return anchorSignal === null ? "ended without finishing" : `was killed by ${signalName(anchorSignal)}`;
}

function describeCleanup({ killed, emptiness }: SweptFile): string {
  const left = killed === 1 ? "1 process" : `${killed} processes`;
  if (emptiness === "unproven") return `the launcher killed ${left} but could not prove that none is left`;
  return killed === 0 ? "it left no process" : `the launcher killed the ${left} that it left`;
}

function leaderExit(leader: LeaderStatus | null): Pick<RunExit, "code" | "signal"> {
  if (leader === null) return { code: null, signal: null };
  return leader.signal === null
    ? { code: leader.code, signal: null }
    : { code: null, signal: signalName(leader.signal) };
}
