import type { Clock } from "../../async/clock.js";
import type { AcpTurn, AcpUpdate, TurnAudit } from "../../model/acp/session-and-turn.js";
import type { AgentReport } from "../../model/acp/agent-reported-state.js";
import type { AcpChange, AcpSessionPatch } from "../../store/acp/contract.js";
import type { ClientRequests } from "../client/client-requests.js";
import type { PermissionRequests } from "../permissions/permission-requests.js";
import type { SessionWriter } from "../session-writer.js";
import {
  answeredRequestId,
  countersPatch,
  isCancelFrame,
  markStarted,
  mergeChanges,
  newRunningTurn,
  type RunningTurn,
  saysCancelled,
  sessionPatchFrom,
  stallChange,
  type TurnEnd,
  turnEndChange,
  turnEndOf,
  type TurnStart,
  turnStartChange,
  type TurnToRun,
  withAudit,
} from "../turn/running-turn.js";
import { ReplayFilter } from "../turn/replay-filter.js";
import type { OutgoingFrame } from "../wire/frames.js";
import type { ConnectionHandlers } from "../wire/connection-contract.js";
import type { RpcOutcome, SessionUpdate } from "../wire/message.js";
import type { PendingRequest } from "../wire/pending-requests.js";
import { stateAfterAnswer } from "./agent-reported-state.js";
import { type ReceivedBatch, ReceivedUpdates } from "./received-updates.js";

interface TurnRecorderDeps {
  readonly writer: SessionWriter;
  readonly clock: Clock;
  readonly permissionRequests: PermissionRequests;
  readonly clientRequests: ClientRequests;
  /** True if the agent's own process is known to be alive. */
  readonly isAlive: () => boolean;
  /** True if a permission request of the turn was not allowed. */
  readonly isPermissionDenied: (turnId: string) => Promise<boolean>;
  /** The audit of a turn whose agent has answered, if it left no process; null: it is audited after its end. */
  readonly auditIfClean: (turn: RunningTurn) => Promise<TurnAudit | null>;
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
export class ConversationRecorder implements ConnectionHandlers {
  readonly #deps: TurnRecorderDeps;
  readonly requests: ConnectionHandlers["requests"];
  replayFilter = new ReplayFilter("");
  turn: RunningTurn | null = null;
  readonly #received = new ReceivedUpdates();
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
  beginTurn(turn: TurnToRun, start: TurnStart): RunningTurn {
    this.#received.beginTurn();
    const running = newRunningTurn(turn, start, this.replayFilter.beginTurn());
    this.turn = running;
    return running;
  }

  /** Continues a turn that an earlier gateway process sent, from its stored updates. */
  restoreTurn(turn: AcpTurn, updates: readonly AcpUpdate[]): RunningTurn {
    const running = this.beginTurn(turn, turn);
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
    const { updates, stateAfter } = this.#receive(batch);
    const end = batch.at(-1)?.end ?? 0;
    const { writer } = this.#deps;
    await writer.commit(() => ({
      session: { end, ...this.#clearAcceptedFrame(), ...statePatch(stateAfter(writer.row.agentState)) },
      updates,
      turns: this.turn === null || this.turn.requestId === null ? [] : [countersPatch(this.turn)],
    }));
  }

  #receive(batch: readonly SessionUpdate[]): ReceivedBatch {
    return this.#received.receive(batch, this.replayFilter, this.turn, this.#deps.clock.wall());
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
        // A session that is being closed takes no new turn.
        if (turn.unstored !== null && writer.row.state === "closing") return null;
        return mergeChanges({ session }, turnStartChange(turn, request.id, writer.row.runId, clock.wall()));
      },
      () => {
        permissionRequests.markAnswered(answered);
        if (isPrompt && this.turn !== null) markStarted(this.turn, request.id);
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

  onAnswer(request: PendingRequest, outcome: RpcOutcome, end: number): Promise<void> {
    return this.onUpdatesAndAnswer([], request, outcome, end);
  }

  async onUpdatesAndAnswer(
    batch: readonly SessionUpdate[],
    request: PendingRequest,
    outcome: RpcOutcome,
    end: number,
  ): Promise<void> {
    const { writer, clock } = this.#deps;
    let ended: RunningTurn | null = null;
    const { updates, stateAfter } = this.#receive(batch);
    const isDenied = saysCancelled(outcome) && (await this.#deps.isPermissionDenied(this.turn?.turnId ?? ""));
    const answered = this.turn?.requestId === request.id ? this.turn : null;
    const audit = answered === null ? null : await this.#deps.auditIfClean(answered);
    await writer.commit(
      () => {
        const state = stateAfter(writer.row.agentState);
        const pending = writer.row.pending.filter(({ id }) => id !== request.id);
        const session = {
          end,
          pending,
          ...this.#clearAcceptedFrame(),
          ...sessionPatchFrom(request, outcome),
          ...statePatch(stateAfterAnswer(state ?? writer.row.agentState, request.method, outcome) ?? state),
        };
        const received = { session, updates };
        if (request.method !== "session/prompt") return received;
        ended = this.turn?.requestId === request.id ? this.turn : null;
        if (ended !== null) {
          const how = { isAlive: this.#deps.isAlive(), isDenied, agent: writer.row };
          const change = mergeChanges(received, this.#endChange(ended, turnEndOf(ended, outcome, how)));
          // The processes of a cancelled turn may have to be ended.
          ended.auditRecorded = audit !== null && ended.cancel === null;
          return audit !== null && ended.auditRecorded ? withAudit(change, ended, audit) : change;
        }
        const late = { method: request.method, outcome };
        const update = { turnId: null, at: clock.wall(), type: "late-answer", data: late } as const;
        return mergeChanges(received, { updates: [update] });
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

  /** Drops a frame that the anchor has accepted whole: it may be large, and every write of the row would repeat it. */
  #clearAcceptedFrame(): AcpSessionPatch {
    const { sending } = this.#deps.writer.row;
    if (sending === null) return {};
    const accepted = this.#deps.stdinAccepted() >= sending.at + Buffer.byteLength(sending.text);
    return accepted ? { sending: null } : {};
  }
}

function statePatch(agentState: AgentReport | null): AcpSessionPatch {
  return agentState === null ? {} : { agentState };
}
