import type { Clock } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import { AcpQueueFull, AcpSessionClosed, BadInput } from "../../errors.js";
import type { AcpTurn, PromptContent, StoredError } from "../../model/acp/session-and-turn.js";
import { newTurnId } from "../../model/ids.js";
import type { SessionMessage } from "../../model/session-message.js";
import type { AcpStore, AcpTurnPatch } from "../../store/acp/contract.js";
import type { SessionWriter } from "../session-writer.js";
import type { UnstoredTurn } from "../turn/running-turn.js";

export interface PromptRequest {
  readonly text: string;
  /** Sent before the text. The agent supports all of it. */
  readonly content?: readonly PromptContent[];
  readonly askedBy: string;
  /** Default: a new id. */
  readonly turnId?: string;
  /** The agent is stopped if it has not answered by then. */
  readonly timeoutMs?: number;
  /** The agent is stopped after this time without output. Default: the limit of the agent. */
  readonly noOutputTimeoutMs?: number;
  /** The message that the prompt is made of. It is sent with no other turn. */
  readonly message?: Pick<SessionMessage, "id" | "seq">;
}

export interface PromptQueueDeps {
  readonly store: AcpStore;
  readonly clock: Clock;
  readonly writer: SessionWriter;
  /** The limit without output that the config sets for the agent; null: none. */
  readonly noOutputTimeoutMs: number | null;
}

/** The stored queue of prompts of a session. */
export class PromptQueue {
  readonly #deps: PromptQueueDeps;

  constructor(deps: PromptQueueDeps) {
    this.#deps = deps;
  }

  /** Creates the turn of a prompt without storing it. */
  newTurn({ text, askedBy, turnId = newTurnId(), message, ...request }: PromptRequest): UnstoredTurn {
    const at = this.#deps.clock.wall();
    const newTurn = {
      turnId,
      prompt: text,
      content: request.content ?? null,
      askedBy,
      timeoutMs: request.timeoutMs ?? null,
      noOutputTimeoutMs: request.noOutputTimeoutMs ?? this.#deps.noOutputTimeoutMs,
      createdAt: at,
      ...(message === undefined ? {} : { place: message.seq }),
    };
    const data = { turnId, state: "queued", prompt: text, askedBy };
    return { newTurn, update: { turnId, at, type: "turn", data } };
  }

  /** Resolves with the turn's id when the turn is stored. */
  async add(request: PromptRequest): Promise<string> {
    const { message } = request;
    const { writer } = this.#deps;
    const { sessionId } = writer.row;
    if (message === undefined && (await this.#queued(defaults.acpQueued)).length >= defaults.acpQueued)
      throw new AcpQueueFull(sessionId, defaults.acpQueued);
    const { newTurn, update } = this.newTurn(request);
    const { turnId } = newTurn;
    const take = message === undefined ? {} : { take: { turnId, messages: [message.id] } };
    const taken = await writer.commit(() =>
      writer.row.state === "closing" ? null : { newTurn, ...take, updates: [update] },
    );
    if (taken) return turnId;
    const existing = await this.#deps.store.getAcpTurn(turnId);
    if (existing === null && message !== undefined && writer.row.state !== "closing")
      throw new BadInput("message", "the session has already read it; no turn was created");
    if (existing === null) throw new AcpSessionClosed(sessionId);
    // The same turn was requested twice.
    if (existing.sessionId === sessionId) return turnId;
    throw new BadInput("turnId", "another session has a turn with that id; nothing was sent");
  }

  async next(): Promise<AcpTurn | null> {
    const [next] = await this.#queued(1);
    return next ?? null;
  }

  fail(turnId: string, problem: StoredError): Promise<boolean> {
    return this.#end(turnId, { outcome: "failed", problem });
  }

  /** Cancels this turn, or the next. Null: there is none, or it was just sent. */
  async cancel(actor: string, turnId?: string): Promise<string | null> {
    const queued = await this.#queued();
    const turn = turnId === undefined ? queued[0] : queued.find((each) => each.turnId === turnId);
    if (turn === undefined) return null;
    return (await this.#cancel(turn, actor)) ? turn.turnId : null;
  }

  /** Turns that are sent in the meantime are not cancelled. */
  async cancelAll(actor: string): Promise<void> {
    for (const turn of await this.#queued()) await this.#cancel(turn, actor);
  }

  #cancel({ turnId }: AcpTurn, actor: string): Promise<boolean> {
    const cancel = { actor, at: this.#deps.clock.wall(), reapTools: false };
    return this.#end(turnId, { outcome: "cancelled", cancel });
  }

  /** False: the turn is no longer queued. */
  #end(turnId: string, end: Pick<AcpTurnPatch, "outcome" | "problem" | "cancel">): Promise<boolean> {
    const { writer, clock } = this.#deps;
    const { outcome, problem = null } = end;
    const at = clock.wall();
    return writer.commit(() => ({
      turns: [{ turnId, from: "queued", set: { ...end, state: "ended", endedAt: at } }],
      updates: [{ turnId, at, type: "turn", data: { turnId, state: "ended", outcome, problem } }],
    }));
  }

  #queued(limit?: number): Promise<readonly AcpTurn[]> {
    const { store, writer } = this.#deps;
    const { sessionId } = writer.row;
    const queued = { sessionId, states: ["queued"] } as const;
    return store.listAcpTurns({ ...queued, ...(limit === undefined ? {} : { limit }) });
  }
}
