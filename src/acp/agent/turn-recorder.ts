import type { Clock } from "../../async/clock.js";
import { deferred, type Deferred } from "../../async/deferred.js";
import { defaults } from "../../defaults.js";
import { AcpRefused } from "../../errors.js";
import type {
  AcpTurn,
  AcpTurnCancellation,
  AcpTurnOutcome,
  AcpUpdate,
  NewAcpUpdate,
  StoredError,
} from "../../model/acp.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { AcpChange, AcpSessionPatch } from "../../store/acp/store.js";
import { redactedExcerpt } from "../../text/truncate.js";
import type { ClientRequests } from "../client/client-requests.js";
import type { PermissionRequests } from "../permissions/permission-requests.js";
import type { SessionWriter } from "../session-writer.js";
import { ReplayFilter } from "../turn/replay-filter.js";
import type { TurnSummary } from "../turn/turn-summary.js";
import type { OutgoingFrame } from "../wire/frame-writer.js";
import type { ConnectionHandlers } from "../wire/handlers.js";
import { isObject, type RpcId, type RpcOutcome } from "../wire/message.js";
import type { PendingRequest } from "../wire/pending-requests.js";
import type { SessionUpdate } from "../wire/session-update.js";

/** The turn that is under way. */
export interface RunningTurn {
  readonly turnId: string;
  readonly askedBy: string;
  /** Who lived in the agent's tree before; null: it could not be seen. */
  readonly before: readonly string[] | null;
  readonly contextLost: boolean;
  /** Messages that go to the agent with it, beside its own. */
  readonly messageIds: readonly string[];
  readonly summary: TurnSummary;
  /** Resolves when its end is kept. */
  readonly endRecorded: Deferred<void>;
  /** Resolves when what it left has been seen to. */
  readonly audited: Deferred<void>;
  /** Null: it has not been sent. */
  requestId: number | null;
  cancel: AcpTurnCancellation | null;
  ended: boolean;
  keptBytes: number;
  droppedUpdates: number;
}

export interface TurnEnd {
  readonly outcome: AcpTurnOutcome;
  readonly stopReason?: string | null;
  readonly problem?: StoredError | null;
}

export interface TurnRecorderDeps {
  readonly writer: SessionWriter;
  readonly clock: Clock;
  readonly permissionRequests: PermissionRequests;
  readonly clientRequests: ClientRequests;
  /** Whether the agent's own process is known to live: what it says after its death is not trusted. */
  readonly isAlive: () => boolean;
  /** How much of its stdin cannot be lost any more. */
  readonly stdinAccepted: () => number;
  /** A line that is no frame: of the first ones, each. */
  readonly onMalformed: (why: string, shown: string) => void;
}

/** Whoever writes more of them writes the same again. */
const MALFORMED_REPORTED = 10;

/**
 * What is said between us and one agent process, and kept: everything that comes with the offset after it, everything
 * that goes before it is written.
 */
export class TurnRecorder implements ConnectionHandlers {
  readonly #deps: TurnRecorderDeps;
  readonly requests: ConnectionHandlers["requests"];
  replayFilter = new ReplayFilter("");
  turn: RunningTurn | null = null;
  #bytesBetweenTurns = 0;
  #malformed = 0;

  constructor(deps: TurnRecorderDeps) {
    this.#deps = deps;
    this.requests = {
      "session/request_permission": (question) => deps.permissionRequests.onRequest(question),
      ...deps.clientRequests.handlers,
    };
  }

  /** Not sent yet: that is when it counts. */
  beginTurn(
    turn: AcpTurn,
    before: readonly string[] | null,
    contextLost: boolean,
    messageIds: readonly string[] = [],
  ): RunningTurn {
    this.#bytesBetweenTurns = 0;
    return this.#setTurn({
      turnId: turn.turnId,
      askedBy: turn.askedBy,
      before,
      contextLost,
      messageIds,
      summary: this.replayFilter.beginTurn(),
      endRecorded: deferred<void>(),
      audited: deferred<void>(),
      requestId: null,
      cancel: null,
      ended: false,
      keptBytes: 0,
      droppedUpdates: 0,
    });
  }

  /** One that an earlier process has sent, with what it has kept of it. */
  restoreTurn(turn: AcpTurn, updates: readonly AcpUpdate[]): RunningTurn {
    const running = this.beginTurn(turn, turn.before, turn.contextLost);
    running.requestId = turn.requestId;
    running.cancel = turn.cancel;
    running.keptBytes = turn.keptBytes;
    running.droppedUpdates = turn.droppedUpdates;
    for (const { data } of updates)
      running.summary.apply({ update: data as SessionUpdate["update"], bytes: JSON.stringify(data).length });
    return running;
  }

  /** False: it had ended before. */
  endTurn(turn: RunningTurn, end: TurnEnd, more: () => AcpChange = () => ({})): Promise<boolean> {
    return this.#deps.writer.commit(
      () => (turn.ended ? null : mergeChanges(this.#endChange(turn, end), more())),
      () => this.#markEnded(turn),
    );
  }

  /** It was ended while it waited, and never sent. */
  dropTurn(turn: RunningTurn): void {
    this.#markEnded(turn);
  }

  onMalformed(why: string, shown: string): void {
    if (this.#malformed++ < MALFORMED_REPORTED) this.#deps.onMalformed(why, shown);
  }

  async onUpdates(batch: readonly SessionUpdate[]): Promise<void> {
    const at = this.#deps.clock.wall();
    const updates = batch.flatMap((update) =>
      this.#storableUpdates(update, this.replayFilter.classify(update), at),
    );
    const end = batch.at(-1)?.end ?? 0;
    await this.#deps.writer.commit(() => ({
      session: { end, ...this.#clearAcceptedFrame() },
      updates,
      turns: this.turn === null || this.turn.requestId === null ? [] : [countersPatch(this.turn)],
    }));
  }

  /** What is let go of and was not kept to that place would be missed by the next process. */
  async onConsumed(end: number): Promise<void> {
    const { writer } = this.#deps;
    await writer.commit(() => (end > writer.row.end ? { session: { end } } : null));
  }

  async beforeSend(frame: OutgoingFrame, request: PendingRequest | null): Promise<void> {
    const { writer, clock, permissionRequests, clientRequests: client } = this.#deps;
    const id = request === null ? answeredRequestId(frame) : undefined;
    const answered = id === undefined ? [] : permissionRequests.idsAnsweredBy(id);
    const isPrompt = request?.method === "session/prompt";
    const written = await writer.commit(
      () => {
        const pending = request === null ? writer.row.pending : [...writer.row.pending, request];
        const session: AcpSessionPatch = { sending: frame, pending };
        if (!isPrompt)
          return mergeChanges({ session, answered }, id === undefined ? {} : client.changeWithAnswer(id));
        const { turn } = this;
        if (turn === null || turn.ended) return null;
        const { turnId, before, contextLost, askedBy, messageIds } = turn;
        const at = clock.wall();
        const set = { state: "running", startedAt: at, requestId: request.id, before, contextLost } as const;
        return {
          session,
          turns: [{ turnId, from: "queued", set }],
          take: { turnId, messages: messageIds },
          updates: [{ turnId, at, type: "turn", data: { turnId, state: "running", contextLost } }],
          events: this.#turnEvents(turnId, null, askedBy, at),
        };
      },
      () => {
        permissionRequests.markAnswered(answered);
        if (isPrompt && this.turn !== null) this.turn.requestId = request.id;
      },
    );
    if (!written) throw new Error("it was cancelled before it was sent");
  }

  /** What was on its way could not be written, and never will be. */
  async discardUnsent({ requestId }: RunningTurn): Promise<void> {
    const { writer } = this.#deps;
    await writer.commit(() => ({
      session: { sending: null, pending: writer.row.pending.filter(({ id }) => id !== requestId) },
    }));
  }

  async onAnswer(request: PendingRequest, outcome: RpcOutcome, end: number): Promise<void> {
    const { writer, clock } = this.#deps;
    let ended: RunningTurn | null = null;
    await writer.commit(
      () => {
        const pending = writer.row.pending.filter(({ id }) => id !== request.id);
        const session = {
          end,
          pending,
          ...this.#clearAcceptedFrame(),
          ...sessionPatchFrom(request, outcome),
        };
        if (request.method !== "session/prompt") return { session };
        ended = this.turn?.requestId === request.id ? this.turn : null;
        if (ended !== null)
          return mergeChanges(this.#endChange(ended, this.#turnEndOf(ended, outcome)), { session });
        const late = { method: request.method, outcome };
        return { session, updates: [{ turnId: null, at: clock.wall(), type: "late-answer", data: late }] };
      },
      () => {
        if (ended !== null) this.#markEnded(ended);
        // In the same breath: the next frame may be an update already.
        const { agentSessionId } = writer.row;
        if (request.method === "session/new" && agentSessionId !== null)
          this.replayFilter = new ReplayFilter(agentSessionId);
        if (request.method === "session/load") this.replayFilter.endReplay();
      },
    );
  }

  #turnEndOf(turn: RunningTurn, outcome: RpcOutcome): TurnEnd {
    const stopReason =
      "result" in outcome && isObject(outcome.result)
        ? redactedExcerpt(String(outcome.result["stopReason"]))
        : null;
    const said = stopReason === null ? {} : { stopReason };
    if (!this.#deps.isAlive()) {
      const message = "the agent's process had ended before its answer came; what it said is not relied on";
      return { outcome: "interrupted", ...said, problem: { code: "ACP_CLOSED", message } };
    }
    if (turn.cancel !== null || stopReason === "cancelled") return { outcome: "cancelled", ...said };
    if (!("error" in outcome)) return { outcome: "completed", ...said };
    const { code, message } = new AcpRefused(
      "session/prompt",
      outcome.error.code,
      redactedExcerpt(outcome.error.message),
    );
    return { outcome: "failed", problem: { code, message } };
  }

  #endChange(turn: RunningTurn, end: TurnEnd): AcpChange {
    const { outcome, stopReason = null, problem = null } = end;
    const at = this.#deps.clock.wall();
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
      events: this.#turnEvents(turnId, outcome, cancel?.actor ?? askedBy, at),
    };
  }

  #turnEvents(turnId: string, outcome: AcpTurnOutcome | null, actor: string, at: number): NewRunEvent[] {
    const { runId } = this.#deps.writer.row;
    if (runId === null) return [];
    return [{ runId, at, rootPid: null, descendants: 0, type: "turn", data: { turnId, outcome, actor } }];
  }

  #markEnded(turn: RunningTurn): void {
    turn.ended = true;
    if (this.turn === turn) {
      this.turn = null;
      this.replayFilter.endTurn();
    }
    turn.endRecorded.resolve();
  }

  #setTurn(turn: RunningTurn): RunningTurn {
    this.turn = turn;
    return turn;
  }

  /** History that is told again is in the store already; another session's is not ours. */
  #storableUpdates(
    { update, bytes }: SessionUpdate,
    scope: ReturnType<ReplayFilter["classify"]>,
    at: number,
  ): readonly NewAcpUpdate[] {
    if (scope === null || scope === "replay") return [];
    const { turn } = this;
    if (scope === "turn" && turn !== null) {
      if (turn.keptBytes + bytes > defaults.acpTurnBytes) {
        turn.droppedUpdates++;
        return [];
      }
      turn.keptBytes += bytes;
      return [{ turnId: turn.turnId, at, type: "update", data: update }];
    }
    if (this.#bytesBetweenTurns + bytes > defaults.acpTurnBytes) return [];
    this.#bytesBetweenTurns += bytes;
    return [{ turnId: null, at, type: "update", data: update }];
  }

  /** A frame that its anchor has whole need not be kept: it may be large, and would be written again with every row. */
  #clearAcceptedFrame(): AcpSessionPatch {
    const { sending } = this.#deps.writer.row;
    if (sending === null) return {};
    const whole = this.#deps.stdinAccepted() >= sending.at + Buffer.byteLength(sending.text);
    return whole ? { sending: null } : {};
  }
}

function countersPatch({ turnId, keptBytes, droppedUpdates }: RunningTurn) {
  return { turnId, from: "running", set: { keptBytes, droppedUpdates } } as const;
}

function sessionPatchFrom({ method }: PendingRequest, outcome: RpcOutcome): AcpSessionPatch {
  if (!("result" in outcome) || !isObject(outcome.result)) return {};
  if (method === "initialize") return { capabilities: outcome.result };
  const { sessionId } = outcome.result;
  return method === "session/new" && typeof sessionId === "string" ? { agentSessionId: sessionId } : {};
}

/** What it answers; undefined: it is no answer. */
function answeredRequestId({ text }: OutgoingFrame): RpcId | undefined {
  const { id, method } = JSON.parse(text) as { id?: RpcId; method?: string };
  return method === undefined ? id : undefined;
}

/** Both in one transaction. */
function mergeChanges(one: AcpChange, other: AcpChange): AcpChange {
  return {
    ...one,
    ...other,
    session: { ...one.session, ...other.session },
    turns: [...(one.turns ?? []), ...(other.turns ?? [])],
    updates: [...(one.updates ?? []), ...(other.updates ?? [])],
    events: [...(one.events ?? []), ...(other.events ?? [])],
  };
}
