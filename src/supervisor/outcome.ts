import { explainFailure, type Attempt } from "../anchor/failure.js";
import type { AnchorExit, LeaderStatus, RunRemains, Swept } from "../anchor/host.js";
import { END_REASONS, type EndReason, type RunExit } from "../store/run-record.js";
import { signalName } from "./signal-name.js";

/** How a run ended, by the word of its anchor: over the connection, or from the file it left. */
export function outcomeOf(
  exit: AnchorExit,
  source: "anchor" | "exit-file",
  attempt: Attempt | null = null,
): RunExit {
  const reason = endReason(exit.reason);
  return {
    reason: reason ?? impliedReason(exit),
    actor: exit.actor,
    ...status(exit.leader),
    source: exit.leader === null ? "none" : source,
    detail: detailOf(exit, reason, attempt),
    errno: exit.spawnError?.errno ?? null,
    limitHit: exit.limitHit,
  };
}

const NO_CAUSE = { errno: null, limitHit: null } as const;

/** How a run ended whose anchor answers no more, by what lies in its directory. Null: it was imported, and never had one. */
export function outcomeOfRemains(remains: RunRemains | null, attempt: Attempt | null = null): RunExit {
  if (remains === null)
    return { reason: "lost", actor: "", ...status(null), source: "none", detail: null, ...NO_CAUSE };
  if (remains.exit !== null) return outcomeOf(remains.exit, "exit-file", attempt);
  const { firstStop } = remains;
  const enforced = firstStop?.withoutAnchor === true ? endReason(firstStop.reason) : null;
  return {
    reason: enforced ?? "lost",
    // The anchor may have died of the stop it was asked for; who asked is then worth knowing.
    actor: firstStop?.actor ?? "",
    ...status(remains.leader),
    source: remains.leader === null ? "none" : "leader-file",
    detail: enforced === null ? lostDetail(remains) : enforcedDetail(remains),
    ...NO_CAUSE,
  };
}

/** Null: not one of ours. An anchor of a newer version may know more reasons than we do. */
export function endReason(text: string): EndReason | null {
  return END_REASONS.find((reason) => reason === text) ?? null;
}

function impliedReason({ executed, leader }: AnchorExit): EndReason {
  if (!executed) return "spawn-error";
  if (leader === null) return "lost";
  return leader.signal === null ? "exit" : "signal";
}

function detailOf(exit: AnchorExit, reason: EndReason | null, attempt: Attempt | null): string | null {
  if (exit.spawnError !== null) return explainFailure(exit.spawnError, attempt);
  if (reason === null)
    return `the anchor gave a reason this version does not know: ${JSON.stringify(exit.reason)}`;
  if (!exit.executed) return "it was stopped before the command ran one instruction";
  return null;
}

/** A stop was due and its anchor did not answer: it was ended without it, for the stop's reason. */
function enforcedDetail({ swept }: RunRemains): string {
  const silent = "its anchor did not answer, so the run was ended without it";
  if (swept === null) return silent;
  const { killed, emptiness } = swept;
  const ended = killed === 1 ? "1 process was killed" : `${killed} processes were killed`;
  return `${silent}; ${ended}${emptiness === "proven" ? "" : ", and whether others live is not known"}`;
}

function lostDetail({ swept, firstStop }: RunRemains): string {
  const asked = firstStop === null ? "" : `; it had been asked to stop (${firstStop.reason})`;
  if (swept === null) return `its anchor is gone without a word${asked}`;
  return `its anchor ${anchorsEnd(swept)}${asked}; ${sweptUp(swept)}`;
}

function anchorsEnd({ anchorSignal }: Swept): string {
  return anchorSignal === null ? "ended without finishing" : `was killed by ${signalName(anchorSignal)}`;
}

function sweptUp({ killed, emptiness }: Swept): string {
  const left = killed === 1 ? "1 process" : `${killed} processes`;
  if (emptiness === "unproven") return `the launcher killed ${left} but could not prove that none is left`;
  return killed === 0 ? "it left no process" : `the launcher killed the ${left} it left`;
}

function status(leader: LeaderStatus | null): Pick<RunExit, "code" | "signal"> {
  if (leader === null) return { code: null, signal: null };
  return leader.signal === null
    ? { code: leader.code, signal: null }
    : { code: null, signal: signalName(leader.signal) };
}
