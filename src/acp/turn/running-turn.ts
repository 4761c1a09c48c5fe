import { deferred, type Deferred } from "../../async/deferred.js";
import { AcpRefused } from "../../errors.js";
import type {
  AcpTurn,
  AcpTurnCancellation,
  AcpTurnOutcome,
  NewAcpTurn,
  NewAcpUpdate,
  StoredError,
  TurnAudit,
} from "../../model/acp/session-and-turn.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { AcpChange, AcpSessionPatch } from "../../store/acp/contract.js";
import { redactedExcerpt } from "../../text/redact.js";
import type { OutgoingFrame } from "../wire/frames.js";
import { type AgentIdentity, toAuthRequired } from "../wire/auth-required.js";
import { errorText, isObject, type RpcId, type RpcOutcome } from "../wire/message.js";
import type { PendingRequest } from "../wire/pending-requests.js";
import type { TurnSummary } from "./turn-summary.js";

/** Facts about a turn at its start. */
export interface TurnStart {
  /** Processes in the agent's tree before the turn; null: they could not be listed. */
  readonly before: readonly string[] | null;
  readonly contextLost: boolean;
  /** Messages from the inbox that are sent with the prompt. Default: none. */
  readonly messageIds?: readonly string[];
  /** The turn's record, if it is stored together with the start of the turn. */
  readonly unstored?: UnstoredTurn | null;
}

/** A new turn, and the update that reports it. */
export interface UnstoredTurn {
  readonly newTurn: NewAcpTurn;
  readonly update: NewAcpUpdate;
}

export type TurnToRun = Pick<AcpTurn, "turnId" | "askedBy" | "noOutputTimeoutMs"> &
  Partial<Pick<AcpTurn, "stalledAt">>;

/** The turn that an agent works on, or is about to be sent. */
export interface RunningTurn extends Required<TurnStart> {
  readonly turnId: string;
  readonly askedBy: string;
  /** The agent is ended after this time without output; null: never. */
  readonly noOutputTimeoutMs: number | null;
  readonly summary: TurnSummary;
  /** Resolves when the start of the turn is stored. */
  readonly startRecorded: Deferred<void>;
  /** Resolves when the turn's end is stored. */
  readonly endRecorded: Deferred<void>;
  /** Resolves when the processes that the turn left are audited. */
  readonly audited: Deferred<void>;
  /** The audit is stored with the end. */
  auditRecorded: boolean;
  /** Null: the prompt has not been sent. */
  requestId: number | null;
  cancel: AcpTurnCancellation | null;
  /** The start of a reported stall; null: there is none. */
  stalledAt: number | null;
  ended: boolean;
  keptBytes: number;
  droppedUpdates: number;
}

export function newRunningTurn(
  { turnId, askedBy, noOutputTimeoutMs, stalledAt = null }: TurnToRun,
  { before, contextLost, messageIds = [], unstored = null }: TurnStart,
  summary: TurnSummary,
): RunningTurn {
  return {
    ...{ turnId, askedBy, noOutputTimeoutMs, before, contextLost, messageIds, unstored, summary },
    startRecorded: deferred<void>(),
    endRecorded: deferred<void>(),
    audited: deferred<void>(),
    auditRecorded: false,
    requestId: null,
    cancel: null,
    stalledAt,
    ended: false,
    keptBytes: 0,
    droppedUpdates: 0,
  };
}

/** The change that stores the start of a turn: its prompt is sent. `runId`: the agent's run. */
export function turnStartChange(
  { turnId, before, contextLost, askedBy, messageIds, unstored }: RunningTurn,
  requestId: number,
  runId: string | null,
  at: number,
): AcpChange {
  const set = { state: "running", startedAt: at, requestId, before, contextLost } as const;
  const update = { turnId, at, type: "turn", data: { turnId, state: "running", contextLost } } as const;
  return {
    ...(unstored === null ? {} : { newTurn: unstored.newTurn }),
    turns: [{ turnId, from: "queued", set }],
    take: { turnId, messages: messageIds },
    updates: [...(unstored === null ? [] : [unstored.update]), update],
    events: turnEvents(runId, turnId, null, askedBy, at),
  };
}

/** Call when `turnStartChange` is stored. */
export function markStarted(turn: RunningTurn, requestId: number): void {
  turn.requestId = requestId;
  turn.startRecorded.resolve();
}

/** The change that ends a turn, with the turn's audit. */
export function withAudit(change: AcpChange, { turnId }: RunningTurn, audit: TurnAudit): AcpChange {
  const turns = (change.turns ?? []).map((each) =>
    each.turnId === turnId ? { ...each, set: { ...each.set, audit } } : each,
  );
  const update = { turnId, at: audit.at, type: "audit", data: audit } as const;
  return { ...change, turns, updates: [...(change.updates ?? []), update] };
}

export interface TurnEnd {
  readonly outcome: AcpTurnOutcome;
  readonly stopReason?: string | null;
  readonly problem?: StoredError | null;
}

interface TurnCircumstances {
  /** The agent's process is alive; an answer after its death is not trusted. */
  readonly isAlive: boolean;
  /** A permission request of the turn was not allowed; some agents then end the turn as cancelled. */
  readonly isDenied: boolean;
  readonly agent: AgentIdentity;
}

/** The protocol's stop reason of a turn that was cancelled. */
const STOP_CANCELLED = "cancelled";

/** True if the agent says that the turn was cancelled. */
export function saysCancelled(answer: RpcOutcome): boolean {
  return stopReasonOf(answer) === STOP_CANCELLED;
}

function stopReasonOf(answer: RpcOutcome): string | null {
  return "result" in answer && isObject(answer.result)
    ? redactedExcerpt(String(answer.result["stopReason"]))
    : null;
}

/** How a turn ended, by the agent's answer. */
export function turnEndOf(
  { cancel }: Pick<RunningTurn, "cancel">,
  answer: RpcOutcome,
  { isAlive, isDenied, agent }: TurnCircumstances,
): TurnEnd {
  const stopReason = stopReasonOf(answer);
  const known = stopReason === null ? {} : { stopReason };
  if (!isAlive) {
    const message = "the agent's process ended before its answer arrived; the answer was ignored";
    return { outcome: "interrupted", ...known, problem: { code: "ACP_CLOSED", message } };
  }
  if (cancel !== null) return { outcome: "cancelled", ...known };
  if (stopReason === STOP_CANCELLED) {
    if (isDenied) return { outcome: "cancelled", ...known };
    const message =
      "the agent reports that the turn was cancelled, but Holdfast did not cancel it: its process may have received a signal from outside. Send the prompt again if the work is not done";
    return { outcome: "interrupted", ...known, problem: { code: "ACP_CLOSED", message } };
  }
  if (!("error" in answer)) return { outcome: "completed", ...known };
  const refused = new AcpRefused("session/prompt", answer.error.code, errorText(answer.error));
  const { code, message } = toAuthRequired(refused, agent);
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
    stalledAt: null,
    outcome,
    stopReason,
    problem,
    text: summary.text.text,
    omittedChars: summary.text.omitted,
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
function turnEvents(
  runId: string | null,
  turnId: string,
  outcome: AcpTurnOutcome | null,
  actor: string,
  at: number,
): NewRunEvent[] {
  if (runId === null) return [];
  return [{ runId, at, rootPid: null, descendants: 0, type: "turn", data: { turnId, outcome, actor } }];
}

/** Records that the agent is silent since `stalledAt`; null: it is active again. */
export function stallChange({ turnId }: RunningTurn, stalledAt: number | null, at: number): AcpChange {
  return {
    turns: [{ turnId, from: "running", set: { stalledAt } }],
    updates: [{ turnId, at, type: "turn", data: { turnId, state: "running", stalledAt } }],
  };
}

export function countersPatch({ turnId, keptBytes, droppedUpdates }: RunningTurn) {
  return { turnId, from: "running", set: { keptBytes, droppedUpdates } } as const;
}

export function sessionPatchFrom({ method }: PendingRequest, outcome: RpcOutcome): AcpSessionPatch {
  if (!("result" in outcome) || !isObject(outcome.result)) return {};
  if (method === "initialize") return { capabilities: outcome.result };
  const { sessionId } = outcome.result;
  const opens = method === "session/new" || method === "session/fork";
  return opens && typeof sessionId === "string" ? { agentSessionId: sessionId } : {};
}

/** The request that the frame answers; undefined: the frame is not an answer. */
export function answeredRequestId({ text }: OutgoingFrame): RpcId | undefined {
  const { id, method } = JSON.parse(text) as { id?: RpcId; method?: string };
  return method === undefined ? id : undefined;
}

/** True if the frame cancels a turn. */
export function isCancelFrame({ text }: OutgoingFrame): boolean {
  return (JSON.parse(text) as { method?: string }).method === "session/cancel";
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
