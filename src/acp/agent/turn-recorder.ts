import type { Clock } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import type { AcpTurn, AcpUpdate, NewAcpUpdate } from "../../model/acp/session-and-turn.js";
import type { AgentState } from "../../model/acp/agent-state.js";
import type { AcpChange, AcpSessionPatch } from "../../store/acp/contract.js";
import type { ClientRequests } from "../client/client-requests.js";
import type { PermissionRequests } from "../permissions/permission-requests.js";
import type { SessionWriter } from "../session-writer.js";
import {
  answeredRequestId,
  countersPatch,
  isCancelFrame,
  mergeChanges,
  newRunningTurn,
  type RunningTurn,
  saysCancelled,
  sessionPatchFrom,
  stallChange,
  type TurnEnd,
  turnEndChange,
  turnEndOf,
  turnEvents,
} from "../turn/running-turn.js";
import { ReplayFilter, type UpdateScope } from "../turn/turn-summary.js";
import type { OutgoingFrame } from "../wire/frames.js";
import type { ConnectionHandlers } from "../wire/connection-contract.js";
import type { RpcOutcome, SessionUpdate } from "../wire/message.js";
import type { PendingRequest } from "../wire/pending-requests.js";
import { stateAfterAnswer, stateAfterUpdates } from "./agent-state.js";

export interface TurnRecorderDeps {
  readonly writer: SessionWriter;
  readonly clock: Clock;
  readonly permissionRequests: PermissionRequests;
  readonly clientRequests: ClientRequests;
  /** True if the agent's own process is known to be alive. */
  readonly isAlive: () => boolean;
  /** True if a permission request of the turn was not allowed. */
  readonly isPermissionDenied: (turnId: string) => Promise<boolean>;
  /** Bytes of stdin that the agent's anchor has accepted. */
  readonly stdinAccepted: () => number;
  /** Called for the first malformed lines. */
  readonly onMalformed: (why: string, excerpt: string) => void;
}

/** Later malformed lines are counted, not reported. */
const MALFORMED_REPORTED = 10;

/**
 * Stores the conversation with one agent process. Everything received is stored together with the offset after it;
 * everything sent is stored before it is written.
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
      "session/request_permission": (request) => deps.permissionRequests.onRequest(request),
      "elicitation/create": (request) => deps.permissionRequests.onElicitation(request),
      ...deps.clientRequests.handlers,
    };
  }

  /** Prepares a turn. It starts when its prompt is sent. */
  beginTurn(
    turn: AcpTurn,
    before: readonly string[] | null,
    contextLost: boolean,
    messageIds: readonly string[] = [],
  ): RunningTurn {
    this.#bytesBetweenTurns = 0;
    const summary = this.replayFilter.beginTurn();
    const running = newRunningTurn(turn, { before, contextLost, messageIds, summary });
    this.turn = running;
    return running;
  }

  /** Continues a turn that an earlier gateway process sent, from its stored updates. */
  restoreTurn(turn: AcpTurn, updates: readonly AcpUpdate[]): RunningTurn {
    const running = this.beginTurn(turn, turn.before, turn.contextLost);
    running.requestId = turn.requestId;
    running.cancel = turn.cancel;
    running.keptBytes = turn.keptBytes;
    running.droppedUpdates = turn.droppedUpdates;
    for (const { data } of updates) running.summary.apply({ update: data as SessionUpdate["update"] });
    return running;
  }

  /** False: the turn had already ended. */
  endTurn(turn: RunningTurn, end: TurnEnd, more: () => AcpChange = () => ({})): Promise<boolean> {
    return this.#deps.writer.commit(
      () => (turn.ended ? null : mergeChanges(this.#endChange(turn, end), more())),
      () => this.#markEnded(turn),
    );
  }

  /** Drops a turn that was cancelled in the queue and never sent. */
  dropTurn(turn: RunningTurn): void {
    this.#markEnded(turn);
  }

  onMalformed(why: string, excerpt: string): void {
    if (this.#malformed++ < MALFORMED_REPORTED) this.#deps.onMalformed(why, excerpt);
  }

  async onUpdates(batch: readonly SessionUpdate[]): Promise<void> {
    const at = this.#deps.clock.wall();
    const ofSession = batch.flatMap((update) => {
      const scope = this.replayFilter.classify(update);
      return scope === null ? [] : [{ update, scope }];
    });
    const updates = ofSession.flatMap(({ update, scope }) => this.#storableUpdates(update, scope, at));
    const end = batch.at(-1)?.end ?? 0;
    const { writer } = this.#deps;
    await writer.commit(() => ({
      session: {
        end,
        ...this.#clearAcceptedFrame(),
        ...statePatch(
          stateAfterUpdates(
            writer.row.agentState,
            ofSession.map(({ update }) => update),
          ),
        ),
      },
      updates,
      turns: this.turn === null || this.turn.requestId === null ? [] : [countersPatch(this.turn)],
    }));
  }

  async onStall(silentMs: number): Promise<void> {
    // A failed write is reported by the writer, and the stall only informs.
    await this.#setStalled(this.#deps.clock.wall() - silentMs).catch(() => undefined);
  }

  async onActivity(): Promise<void> {
    if (this.turn !== null && this.turn.stalledAt !== null) await this.#setStalled(null);
  }

  async #setStalled(stalledAt: number | null): Promise<void> {
    const { writer, clock } = this.#deps;
    const { turn } = this;
    if (turn === null || turn.requestId === null) return;
    await writer.commit(
      () => (turn.ended ? null : stallChange(turn, stalledAt, clock.wall())),
      () => (turn.stalledAt = stalledAt),
    );
  }

  /** Stores the offset: the next gateway process reads from there, and the spool may drop what is before it. */
  async onConsumed(end: number): Promise<void> {
    const { writer } = this.#deps;
    await writer.commit(() => (end > writer.row.end ? { session: { end } } : null));
  }

  async beforeSend(frame: OutgoingFrame, request: PendingRequest | null): Promise<void> {
    const { writer, clock, permissionRequests, clientRequests: client } = this.#deps;
    const id = request === null ? answeredRequestId(frame) : undefined;
    const answered = id === undefined ? [] : permissionRequests.idsAnsweredBy(id);
    const isPrompt = request?.method === "session/prompt";
    const isCancel = request === null && id === undefined && isCancelFrame(frame);
    const written = await writer.commit(
      () => {
        const pending = request === null ? writer.row.pending : [...writer.row.pending, request];
        const session: AcpSessionPatch = { sending: frame, pending };
        if (isCancel) {
          const change = this.#cancelSentChange(clock.wall());
          return change === null ? null : mergeChanges({ session }, change);
        }
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
          events: turnEvents(writer.row.runId, turnId, null, askedBy, at),
        };
      },
      () => {
        permissionRequests.markAnswered(answered);
        if (isPrompt && this.turn !== null) this.turn.requestId = request.id;
      },
    );
    if (!written)
      throw new Error(
        isCancel
          ? "the turn ended before its cancel was sent"
          : "the turn was cancelled before its prompt was sent",
      );
  }

  /** Null: the turn has ended, so that a cancel would reach the next one. */
  #cancelSentChange(at: number): AcpChange | null {
    const { turn } = this;
    if (turn === null || turn.ended || turn.cancel === null) return null;
    turn.cancel = { ...turn.cancel, sentAt: at };
    return { turns: [{ turnId: turn.turnId, from: "running", set: { cancel: turn.cancel } }] };
  }

  /** Forgets a prompt that could not be written. */
  async discardUnsent({ requestId }: RunningTurn): Promise<void> {
    const { writer } = this.#deps;
    await writer.commit(() => ({
      session: { sending: null, pending: writer.row.pending.filter(({ id }) => id !== requestId) },
    }));
  }

  async onAnswer(request: PendingRequest, outcome: RpcOutcome, end: number): Promise<void> {
    const { writer, clock } = this.#deps;
    let ended: RunningTurn | null = null;
    const isDenied = saysCancelled(outcome) && (await this.#deps.isPermissionDenied(this.turn?.turnId ?? ""));
    await writer.commit(
      () => {
        const pending = writer.row.pending.filter(({ id }) => id !== request.id);
        const session = {
          end,
          pending,
          ...this.#clearAcceptedFrame(),
          ...sessionPatchFrom(request, outcome),
          ...statePatch(stateAfterAnswer(writer.row.agentState, request.method, outcome)),
        };
        if (request.method !== "session/prompt") return { session };
        ended = this.turn?.requestId === request.id ? this.turn : null;
        if (ended !== null) {
          const how = { isAlive: this.#deps.isAlive(), isDenied, agent: writer.row };
          return mergeChanges(this.#endChange(ended, turnEndOf(ended, outcome, how)), { session });
        }
        const late = { method: request.method, outcome };
        return { session, updates: [{ turnId: null, at: clock.wall(), type: "late-answer", data: late }] };
      },
      () => {
        if (ended !== null) this.#markEnded(ended);
        // Synchronously: the next frame may already be an update.
        const { agentSessionId } = writer.row;
        const isNew = request.method === "session/new" || request.method === "session/fork";
        if (isNew && agentSessionId !== null) this.replayFilter = new ReplayFilter(agentSessionId);
        if (request.method === "session/load") this.replayFilter.endReplay();
      },
    );
  }

  #endChange(turn: RunningTurn, end: TurnEnd): AcpChange {
    const { writer, clock } = this.#deps;
    return turnEndChange(turn, end, writer.row.runId, clock.wall());
  }

  #markEnded(turn: RunningTurn): void {
    turn.ended = true;
    if (this.turn === turn) {
      this.turn = null;
      this.replayFilter.endTurn();
    }
    turn.endRecorded.resolve();
  }

  /** Replayed history is already stored. */
  #storableUpdates(
    { update, bytes }: SessionUpdate,
    scope: UpdateScope,
    at: number,
  ): readonly NewAcpUpdate[] {
    if (scope === "replay") return [];
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

  /** Drops a frame that the anchor has accepted whole: it may be large, and every write of the row would repeat it. */
  #clearAcceptedFrame(): AcpSessionPatch {
    const { sending } = this.#deps.writer.row;
    if (sending === null) return {};
    const accepted = this.#deps.stdinAccepted() >= sending.at + Buffer.byteLength(sending.text);
    return accepted ? { sending: null } : {};
  }
}

function statePatch(agentState: AgentState | null): AcpSessionPatch {
  return agentState === null ? {} : { agentState };
}
