import { defaults } from "../defaults.js";
import { AcpRefused } from "../errors.js";
import type {
  AcpCancel,
  AcpOutcome,
  AcpTurn,
  AcpUpdate,
  KeptProblem,
  NewAcpUpdate,
} from "../store/acp-record.js";
import type { AcpChange, SessionPatch } from "../store/acp-store.js";
import type { NewRunEvent } from "../store/run-event.js";
import type { Clock } from "../supervisor/clock.js";
import { type Deferred, deferred } from "../supervisor/deferred.js";
import type { ClientRequests } from "./client/requests.js";
import { Conversation } from "./conversation.js";
import type { KeptSession } from "./kept-session.js";
import type { Questions } from "./questions.js";
import type { Turn } from "./turn.js";
import { excerpt } from "./wire/excerpt.js";
import type { Handlers } from "./wire/handlers.js";
import { isObject, type Outcome, type RpcId } from "./wire/message.js";
import type { OutgoingFrame } from "./wire/outgoing.js";
import type { PendingRequest } from "./wire/pending.js";
import type { Update } from "./wire/updates.js";

/** The turn that is under way. */
export interface RunningTurn {
  readonly turnId: string;
  readonly askedBy: string;
  /** Who lived in the agent's tree before; null: it could not be seen. */
  readonly before: readonly string[] | null;
  readonly contextLost: boolean;
  /** Messages that go to the agent with it, beside its own. */
  readonly carries: readonly string[];
  readonly summary: Turn;
  /** Resolves when its end is kept. */
  readonly over: Deferred<void>;
  /** Resolves when what it left has been seen to. */
  readonly audited: Deferred<void>;
  /** Null: it has not been sent. */
  requestId: number | null;
  cancel: AcpCancel | null;
  ended: boolean;
  keptBytes: number;
  droppedUpdates: number;
}

export interface TurnEnd {
  readonly outcome: AcpOutcome;
  readonly stopReason?: string | null;
  readonly problem?: KeptProblem | null;
}

export interface ExchangeParts {
  readonly kept: KeptSession;
  readonly clock: Clock;
  readonly questions: Questions;
  readonly client: ClientRequests;
  /** Whether the agent's own process is known to live: what it says after its death is not trusted. */
  readonly alive: () => boolean;
  /** How much of its stdin cannot be lost any more. */
  readonly accepted: () => number;
  /** A line that is no frame: of the first ones, each. */
  readonly onMalformed: (why: string, shown: string) => void;
}

/** Whoever writes more of them writes the same again. */
const MALFORMED_NOTED = 10;

/**
 * What is said between us and one agent process, and kept: everything that comes with the offset after it, everything
 * that goes before it is written.
 */
export class Exchange implements Handlers {
  readonly #parts: ExchangeParts;
  readonly questions: Handlers["questions"];
  conversation = new Conversation("");
  turn: RunningTurn | null = null;
  #bytesBetween = 0;
  #malformed = 0;

  constructor(parts: ExchangeParts) {
    this.#parts = parts;
    this.questions = {
      "session/request_permission": (question) => parts.questions.asked(question),
      ...parts.client.methods,
    };
  }

  /** Not sent yet: that is when it counts. */
  begin(
    turn: AcpTurn,
    before: readonly string[] | null,
    contextLost: boolean,
    carries: readonly string[] = [],
  ): RunningTurn {
    this.#bytesBetween = 0;
    return this.#set({
      turnId: turn.turnId,
      askedBy: turn.askedBy,
      before,
      contextLost,
      carries,
      summary: this.conversation.beginTurn(),
      over: deferred<void>(),
      audited: deferred<void>(),
      requestId: null,
      cancel: null,
      ended: false,
      keptBytes: 0,
      droppedUpdates: 0,
    });
  }

  /** One that an earlier process has sent, with what it has kept of it. */
  restore(turn: AcpTurn, updates: readonly AcpUpdate[]): RunningTurn {
    const running = this.begin(turn, turn.before, turn.contextLost);
    running.requestId = turn.requestId;
    running.cancel = turn.cancel;
    running.keptBytes = turn.keptBytes;
    running.droppedUpdates = turn.droppedUpdates;
    for (const { data } of updates)
      running.summary.take({ update: data as Update["update"], bytes: JSON.stringify(data).length });
    return running;
  }

  /** False: it had ended before. */
  end(turn: RunningTurn, end: TurnEnd, more: () => AcpChange = () => ({})): Promise<boolean> {
    return this.#parts.kept.commit(
      () => (turn.ended ? null : joined(this.#ending(turn, end), more())),
      () => this.#over(turn),
    );
  }

  /** It was ended while it waited, and never sent. */
  drop(turn: RunningTurn): void {
    this.#over(turn);
  }

  malformed(why: string, shown: string): void {
    if (this.#malformed++ < MALFORMED_NOTED) this.#parts.onMalformed(why, shown);
  }

  async updates(batch: readonly Update[]): Promise<void> {
    const at = this.#parts.clock.wall();
    const updates = batch.flatMap((update) => this.#kept(update, this.conversation.take(update), at));
    const end = batch.at(-1)?.end ?? 0;
    await this.#parts.kept.commit(() => ({
      session: { end, ...this.#written() },
      updates,
      turns: this.turn === null || this.turn.requestId === null ? [] : [counted(this.turn)],
    }));
  }

  /** What is let go of and was not kept to that place would be missed by the next process. */
  async passed(end: number): Promise<void> {
    const { kept } = this.#parts;
    await kept.commit(() => (end > kept.row.end ? { session: { end } } : null));
  }

  async sending(frame: OutgoingFrame, request: PendingRequest | null): Promise<void> {
    const { kept, clock, questions, client } = this.#parts;
    const id = request === null ? answerIn(frame) : undefined;
    const answered = id === undefined ? [] : questions.answering(id);
    const isPrompt = request?.method === "session/prompt";
    const written = await kept.commit(
      () => {
        const pending = request === null ? kept.row.pending : [...kept.row.pending, request];
        const session: SessionPatch = { sending: frame, pending };
        if (!isPrompt) return joined({ session, answered }, id === undefined ? {} : client.answering(id));
        const { turn } = this;
        if (turn === null || turn.ended) return null;
        const { turnId, before, contextLost, askedBy, carries } = turn;
        const at = clock.wall();
        const set = { state: "running", startedAt: at, requestId: request.id, before, contextLost } as const;
        return {
          session,
          turns: [{ turnId, from: "queued", set }],
          take: { turnId, messages: carries },
          updates: [{ turnId, at, type: "turn", data: { turnId, state: "running", contextLost } }],
          events: this.#event(turnId, null, askedBy, at),
        };
      },
      () => {
        questions.close(answered);
        if (isPrompt && this.turn !== null) this.turn.requestId = request.id;
      },
    );
    if (!written) throw new Error("it was cancelled before it was sent");
  }

  /** What was on its way could not be written, and never will be. */
  async unsent({ requestId }: RunningTurn): Promise<void> {
    const { kept } = this.#parts;
    await kept.commit(() => ({
      session: { sending: null, pending: kept.row.pending.filter(({ id }) => id !== requestId) },
    }));
  }

  async answered(request: PendingRequest, outcome: Outcome, end: number): Promise<void> {
    const { kept, clock } = this.#parts;
    let ended: RunningTurn | null = null;
    await kept.commit(
      () => {
        const pending = kept.row.pending.filter(({ id }) => id !== request.id);
        const session = { end, pending, ...this.#written(), ...learned(request, outcome) };
        if (request.method !== "session/prompt") return { session };
        ended = this.turn?.requestId === request.id ? this.turn : null;
        if (ended !== null) return joined(this.#ending(ended, this.#how(ended, outcome)), { session });
        const late = { method: request.method, outcome };
        return { session, updates: [{ turnId: null, at: clock.wall(), type: "late-answer", data: late }] };
      },
      () => {
        if (ended !== null) this.#over(ended);
        // In the same breath: the next frame may be an update already.
        const { agentSessionId } = kept.row;
        if (request.method === "session/new" && agentSessionId !== null)
          this.conversation = new Conversation(agentSessionId);
        if (request.method === "session/load") this.conversation.endReplay();
      },
    );
  }

  #how(turn: RunningTurn, outcome: Outcome): TurnEnd {
    const stopReason =
      "result" in outcome && isObject(outcome.result) ? excerpt(String(outcome.result["stopReason"])) : null;
    const said = stopReason === null ? {} : { stopReason };
    if (!this.#parts.alive()) {
      const message = "the agent's process had ended before its answer came; what it said is not relied on";
      return { outcome: "interrupted", ...said, problem: { code: "ACP_CLOSED", message } };
    }
    if (turn.cancel !== null || stopReason === "cancelled") return { outcome: "cancelled", ...said };
    if (!("error" in outcome)) return { outcome: "completed", ...said };
    const { code, message } = new AcpRefused(
      "session/prompt",
      outcome.error.code,
      excerpt(outcome.error.message),
    );
    return { outcome: "failed", problem: { code, message } };
  }

  #ending(turn: RunningTurn, end: TurnEnd): AcpChange {
    const { outcome, stopReason = null, problem = null } = end;
    const at = this.#parts.clock.wall();
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
      events: this.#event(turnId, outcome, cancel?.actor ?? askedBy, at),
    };
  }

  #event(turnId: string, outcome: AcpOutcome | null, actor: string, at: number): NewRunEvent[] {
    const { runId } = this.#parts.kept.row;
    if (runId === null) return [];
    return [{ runId, at, rootPid: null, descendants: 0, type: "turn", data: { turnId, outcome, actor } }];
  }

  #over(turn: RunningTurn): void {
    turn.ended = true;
    if (this.turn === turn) {
      this.turn = null;
      this.conversation.endTurn();
    }
    turn.over.resolve();
  }

  #set(turn: RunningTurn): RunningTurn {
    this.turn = turn;
    return turn;
  }

  /** History that is told again is in the store already; another session's is not ours. */
  #kept(
    { update, bytes }: Update,
    belongs: ReturnType<Conversation["take"]>,
    at: number,
  ): readonly NewAcpUpdate[] {
    if (belongs === null || belongs === "replay") return [];
    const { turn } = this;
    if (belongs === "turn" && turn !== null) {
      if (turn.keptBytes + bytes > defaults.acpTurnBytes) {
        turn.droppedUpdates++;
        return [];
      }
      turn.keptBytes += bytes;
      return [{ turnId: turn.turnId, at, type: "update", data: update }];
    }
    if (this.#bytesBetween + bytes > defaults.acpTurnBytes) return [];
    this.#bytesBetween += bytes;
    return [{ turnId: null, at, type: "update", data: update }];
  }

  /** A frame that its anchor has whole need not be kept: it may be large, and would be written again with every row. */
  #written(): SessionPatch {
    const { sending } = this.#parts.kept.row;
    if (sending === null) return {};
    const whole = this.#parts.accepted() >= sending.at + Buffer.byteLength(sending.text);
    return whole ? { sending: null } : {};
  }
}

function counted({ turnId, keptBytes, droppedUpdates }: RunningTurn) {
  return { turnId, from: "running", set: { keptBytes, droppedUpdates } } as const;
}

function learned({ method }: PendingRequest, outcome: Outcome): SessionPatch {
  if (!("result" in outcome) || !isObject(outcome.result)) return {};
  if (method === "initialize") return { capabilities: outcome.result };
  const { sessionId } = outcome.result;
  return method === "session/new" && typeof sessionId === "string" ? { agentSessionId: sessionId } : {};
}

/** What it answers; undefined: it is no answer. */
function answerIn({ text }: OutgoingFrame): RpcId | undefined {
  const { id, method } = JSON.parse(text) as { id?: RpcId; method?: string };
  return method === undefined ? id : undefined;
}

/** Both in one transaction. */
function joined(one: AcpChange, other: AcpChange): AcpChange {
  return {
    ...one,
    ...other,
    session: { ...one.session, ...other.session },
    turns: [...(one.turns ?? []), ...(other.turns ?? [])],
    updates: [...(one.updates ?? []), ...(other.updates ?? [])],
    events: [...(one.events ?? []), ...(other.events ?? [])],
  };
}
