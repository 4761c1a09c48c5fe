import { AcpRefused } from "../../errors.js";
import type { AcpTurnOutcome, StoredError } from "../../model/acp.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { AcpChange, AcpSessionPatch } from "../../store/acp/store.js";
import { redactedExcerpt } from "../../text/redact.js";
import type { OutgoingFrame } from "../wire/frame-writer.js";
import { isObject, type RpcId, type RpcOutcome } from "../wire/message.js";
import type { PendingRequest } from "../wire/pending-requests.js";
import type { RunningTurn } from "./running-turn.js";

export interface TurnEnd {
  readonly outcome: AcpTurnOutcome;
  readonly stopReason?: string | null;
  readonly problem?: StoredError | null;
}

/** How a turn ended, by the agent's answer. `isAlive`: the agent's process; an answer after its death is not trusted. */
export function turnEndOf(
  { cancel }: Pick<RunningTurn, "cancel">,
  answer: RpcOutcome,
  isAlive: boolean,
): TurnEnd {
  const stopReason =
    "result" in answer && isObject(answer.result)
      ? redactedExcerpt(String(answer.result["stopReason"]))
      : null;
  const known = stopReason === null ? {} : { stopReason };
  if (!isAlive) {
    const message = "the agent's process ended before its answer arrived; the answer was ignored";
    return { outcome: "interrupted", ...known, problem: { code: "ACP_CLOSED", message } };
  }
  if (cancel !== null || stopReason === "cancelled") return { outcome: "cancelled", ...known };
  if (!("error" in answer)) return { outcome: "completed", ...known };
  const { code, message } = new AcpRefused(
    "session/prompt",
    answer.error.code,
    redactedExcerpt(answer.error.message),
  );
  return { outcome: "failed", problem: { code, message } };
}

/** The change that ends a turn. `runId`: of the agent; null: it has none. */
export function turnEndChange(
  turn: RunningTurn,
  { outcome, stopReason = null, problem = null }: TurnEnd,
  runId: string | null,
  at: number,
): AcpChange {
  const { turnId, summary, requestId, cancel, askedBy } = turn;
  const set = {
    state: "ended",
    endedAt: at,
    outcome,
    stopReason,
    problem,
    text: summary.text.text,
    toolCalls: summary.tools,
    keptBytes: turn.keptBytes,
    droppedUpdates: turn.droppedUpdates,
  } as const;
  const data = { turnId, state: "ended", outcome, stopReason, problem };
  return {
    turns: [{ turnId, from: requestId === null ? "queued" : "running", set }],
    ...(outcome === "completed" ? { delivered: { turnId, at } } : {}),
    updates: [{ turnId, at, type: "turn", data }],
    events: turnEvents(runId, turnId, outcome, cancel?.actor ?? askedBy, at),
  };
}

/** The event that a turn started (`outcome` null) or ended. */
export function turnEvents(
  runId: string | null,
  turnId: string,
  outcome: AcpTurnOutcome | null,
  actor: string,
  at: number,
): NewRunEvent[] {
  if (runId === null) return [];
  return [{ runId, at, rootPid: null, descendants: 0, type: "turn", data: { turnId, outcome, actor } }];
}

export function countersPatch({ turnId, keptBytes, droppedUpdates }: RunningTurn) {
  return { turnId, from: "running", set: { keptBytes, droppedUpdates } } as const;
}

export function sessionPatchFrom({ method }: PendingRequest, outcome: RpcOutcome): AcpSessionPatch {
  if (!("result" in outcome) || !isObject(outcome.result)) return {};
  if (method === "initialize") return { capabilities: outcome.result };
  const { sessionId } = outcome.result;
  return method === "session/new" && typeof sessionId === "string" ? { agentSessionId: sessionId } : {};
}

/** The request that the frame answers; undefined: the frame is not an answer. */
export function answeredRequestId({ text }: OutgoingFrame): RpcId | undefined {
  const { id, method } = JSON.parse(text) as { id?: RpcId; method?: string };
  return method === undefined ? id : undefined;
}

/** One change, and so one transaction. */
export function mergeChanges(one: AcpChange, other: AcpChange): AcpChange {
  return {
    ...one,
    ...other,
    session: { ...one.session, ...other.session },
    turns: [...(one.turns ?? []), ...(other.turns ?? [])],
    updates: [...(one.updates ?? []), ...(other.updates ?? [])],
    events: [...(one.events ?? []), ...(other.events ?? [])],
  };
}
