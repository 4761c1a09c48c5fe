import type { Survivor } from "../anchor/host.js";
import { AcpClosed, AcpSessionClosed, AcpTimeout } from "../errors.js";
import { textQuestion, type LabelledText, type Question } from "../sessions/question.js";
import type { AcpPermission, AcpTurn } from "../store/acp-record.js";
import type { SessionMessage } from "../store/message-record.js";
import type { Run } from "../supervisor/api.js";
import type { AgentProcess } from "./agent-process.js";
import { AgentSeat, type SeatParts } from "./agent-seat.js";
import type { RunningTurn } from "./exchange.js";
import { sayGoodbye } from "./goodbye.js";
import { turnOfMessage } from "./ids.js";
import { Inbox, type InboxParts } from "./inbox.js";
import type { KeptSession } from "./kept-session.js";
import { problemOf } from "./problem.js";
import { PromptQueue, type PromptRequest } from "./prompt-queue.js";
import { auditTurn } from "./turn-audit.js";
import { whoLives } from "./turn-tree.js";

export interface HeldParts extends SeatParts, InboxParts {
  /** Closed for good: its tokens, its row. */
  readonly onClosed: (actor: string) => Promise<void>;
  /** Asked before a message becomes a turn, which `begin` makes of it. */
  readonly waking: (message: SessionMessage, turnId: string, begin: () => Promise<void>) => Promise<void>;
}

export interface CancelRequest {
  readonly actor: string;
  readonly reapTools?: boolean;
  /** Left out: the one that runs, or else the next. */
  readonly turnId?: string;
}

export interface CloseRequest {
  readonly actor: string;
  /** Also what the agent keeps of it, where the agent offers that. */
  readonly discardPersistentState?: boolean;
}

/** Note in place of the details, which are not stored because they may contain secrets. */
const ASKED_BEFORE_RESTART: LabelledText = [
  "note",
  "asked before the gateway was restarted: only the first 16384 characters of the title were kept",
];
/** A store that could not be read is asked again. */
const AGAIN_MS = 1_000;
/** To write down that an agent has ended, and remove its directory. */
const LAST_WORDS_MS = 2_000;
/** Survivors of a KILL are no event of a run. */
const LOOK_MS = 500;

/** An ACP session that this gateway has: its prompts, one after the other, and its agent for as long as there is one. */
export class HeldSession {
  readonly #parts: HeldParts;
  readonly #seat: AgentSeat;
  readonly #queue: PromptQueue;
  readonly #inbox: Inbox;
  #busy = false;
  #kicked = false;
  #closing: Promise<void> | null = null;
  #leaving = false;

  constructor(parts: HeldParts) {
    this.#parts = parts;
    this.#seat = new AgentSeat(parts);
    this.#queue = new PromptQueue(parts);
    this.#inbox = new Inbox(parts);
  }

  get kept(): KeptSession {
    return this.#parts.kept;
  }

  /** Of its agent's stderr, the newest, secrets hidden. */
  get stderr(): string {
    return this.#seat.agent?.adapter.stderr.text ?? "";
  }

  /** Null: it has none now. */
  get questions() {
    return this.#seat.agent?.questions ?? null;
  }

  /** The whole of a waiting question. Null: it does not wait at this gateway. */
  async questionOf(permission: AcpPermission): Promise<Question | null> {
    const { agent } = this.#seat;
    if (agent === null || permission.decision !== null) return null;
    const known = agent.questions.questionOf(permission.id);
    if (known !== null) return known;
    const again =
      (await agent.client.questionOf(permission)) ??
      textQuestion(["title", permission.title ?? ""], [ASKED_BEFORE_RESTART]);
    agent.questions.setQuestion(permission.id, again);
    return again;
  }

  /** Of the turn that the agent works on: the tool that runs, or the step of its plan. */
  doing(turnId: string): string {
    const turn = this.#sent();
    if (turn?.turnId !== turnId) return "";
    const { tools, plan } = turn.summary;
    const tool = tools.findLast(({ status }) => status === "pending" || status === "in_progress");
    const step = plan.find(({ status }) => status === "in_progress");
    return tool?.title ?? step?.content ?? tools.at(-1)?.title ?? "";
  }

  /** Whether the run is its agent, or one of that agent's terminals. */
  holds(runId: string): boolean {
    return this.kept.row.runId === runId || this.#seat.agent?.terminals.has(runId) === true;
  }

  /** There is an agent that waits for a prompt. */
  async up(): Promise<void> {
    this.#mustBeOpen();
    await this.#seat.ready();
  }

  /** Its turn's id, once it is in the queue. */
  async prompt(request: PromptRequest): Promise<string> {
    this.#mustBeOpen();
    const turnId = await this.#queue.add(request);
    this.#inbox.again();
    this.kick();
    return turnId;
  }

  /** See whether there is something to be done. */
  kick(): void {
    this.#kicked = true;
    if (!this.#busy) this.#occupy(() => this.#pump());
  }

  /** The turn, when it is over and what it left has been seen to; null: there is none to cancel. */
  async cancel(request: CancelRequest): Promise<string | null> {
    const { turnId } = request;
    const meant = (): RunningTurn | null => {
      const turn = this.#sent();
      return turnId === undefined || turn?.turnId === turnId ? turn : null;
    };
    const waited = meant() === null ? await this.#queue.cancel(request.actor, turnId) : null;
    if (waited !== null) return waited;
    // Looked for again: it may have been sent while it was looked for in the queue.
    const running = meant();
    if (running === null) return null;
    await this.#cancelRunning(running, request);
    return running.turnId;
  }

  /**
   * Idempotent. Resolves when every process is proven to be gone; or with those that survive their KILL: then the
   * session stays `closing`, and is closed when they are gone.
   */
  async close(request: CloseRequest): Promise<readonly Survivor[]> {
    this.#closing ??= this.#close(request).catch((error: unknown) => {
      this.#closing = null;
      throw error;
    });
    return Promise.race([this.#closing.then(() => []), this.#survivors(this.#closing)]);
  }

  /** An earlier process's agent, found alive. */
  async takeUp(run: Run): Promise<void> {
    const { store, kept, onProblem } = this.#parts;
    const { state, sessionId } = kept.row;
    const [running = null] = await store.listAcpTurns({ sessionId, states: ["running"] });
    const agent = await this.#seat.resume(run, running);
    if (state === "closing") {
      const failed = (cause: unknown): void => onProblem(`the ACP session ${sessionId} is not closed`, cause);
      this.close({ actor: "gateway restarted" }).catch(failed);
      return;
    }
    // What it knows of us is not known.
    if (state !== "ready")
      agent.adapter.connection.close("closed", "it was being started when its gateway ended");
    this.#kicked = true;
    const turn = this.#sent();
    if (turn === null || turn.requestId === null) return this.#occupy(() => this.#auditLast(agent));
    const answer = agent.adapter.connection.answerTo(turn.requestId);
    this.#occupy(() => this.#goOn(agent, turn, answer));
    // Whether the agent was told is not known; told twice, it stops all the same.
    if (turn.cancel !== null) void this.#cancelRunning(turn, turn.cancel).catch(() => undefined);
  }

  /** No agent of it lives. */
  async found(): Promise<void> {
    // The end of one that was down is on record.
    if (this.#parts.kept.row.state !== "down") await this.#seat.lost();
    if (this.#parts.kept.row.state === "closing") await this.close({ actor: "gateway restarted" });
    else this.kick();
  }

  /** The next process goes on with it. */
  async leave(): Promise<void> {
    this.#leaving = true;
    const { agent } = this.#seat;
    // Ended with the gateway: that is still for this one to write down.
    if (agent?.run.state === "exited") await this.#parts.clock.pause(LAST_WORDS_MS, this.#seat.gone(agent));
    this.questions?.forget();
    await this.#parts.kept.leave();
  }

  /** Nothing is to be done here any more. */
  get #left(): boolean {
    return this.#leaving || this.#seat.left;
  }

  #mustBeOpen(): void {
    const { state, sessionId } = this.#parts.kept.row;
    if (this.#closing !== null || state === "closing" || state === "closed")
      throw new AcpSessionClosed(sessionId);
  }

  /** The turn that the agent works on. */
  #sent(): RunningTurn | null {
    const turn = this.#seat.agent?.exchange.turn ?? null;
    return turn === null || turn.requestId === null ? null : turn;
  }

  /** One thing at a time; then whatever has come meanwhile. */
  #occupy(work: () => Promise<void>): void {
    const { clock, kept, onProblem } = this.#parts;
    this.#busy = true;
    work().then(
      () => {
        this.#busy = false;
        if (this.#kicked && !this.#left) this.kick();
      },
      (cause: unknown) => {
        if (this.#left || kept.row.state === "closed") return;
        onProblem("the next prompt could not be looked for; trying again", cause);
        clock.after(AGAIN_MS, () => {
          this.#busy = false;
          this.kick();
        });
      },
    );
  }

  async #pump(): Promise<void> {
    this.#kicked = false;
    for (;;) {
      const next = await this.#next();
      if (this.#left || this.#closing !== null) return;
      if (next === null) break;
      await this.#take(next);
    }
    if (this.#parts.kept.row.mode === "run" && (await this.#last())?.state === "ended")
      void this.close({ actor: "acp: its one run is over" }).catch(() => undefined);
  }

  /** In the order they were said: a message becomes a turn when its turn has come, and its agent is there. */
  async #next(): Promise<AcpTurn | null> {
    const queued = await this.#queue.next();
    const message = await this.#inbox.next();
    if (this.#left || this.#closing !== null || message === null) return queued;
    if (queued !== null && queued.place < message.seq) return queued;
    try {
      await this.#seat.ready();
    } catch {
      // It goes on waiting; the session says why.
      this.#inbox.inVain();
      return queued;
    }
    const { actor: askedBy } = message;
    const text = await this.#inbox.frame(message);
    const turnId = turnOfMessage(message.id);
    try {
      await this.#parts.waking(message, turnId, async () => {
        await this.#queue.add({ text, askedBy, message, turnId });
      });
    } catch (error) {
      // It may have been read elsewhere meanwhile.
      if (await this.#inbox.has(message)) throw error;
      return this.#next();
    }
    return this.#parts.store.getAcpTurn(turnId);
  }

  async #last(): Promise<AcpTurn | null> {
    const { store, kept } = this.#parts;
    const { sessionId } = kept.row;
    const [last] = await store.listAcpTurns({ sessionId, newestFirst: true, limit: 1 });
    return last ?? null;
  }

  /** One prompt, from its queue to its end. */
  async #take(turn: AcpTurn): Promise<void> {
    let agent: AgentProcess;
    try {
      agent = await this.#seat.ready();
    } catch (error) {
      await this.#queue.fail(turn.turnId, problemOf(error));
      return;
    }
    const before = await whoLives(agent.run).catch(() => null);
    const { messages, text } = await this.#inbox.carried();
    const running = agent.exchange.begin(turn, before, this.#seat.contextLost, messages);
    const sessionId = this.#parts.kept.row.agentSessionId ?? "";
    const prompt = [{ type: "text" as const, text: `${text}${turn.prompt}` }];
    const answer = agent.adapter.connection.request(
      "session/prompt",
      { sessionId, prompt },
      { deadlineMs: turn.timeoutMs, fatal: true },
    );
    await this.#goOn(agent, running, answer);
  }

  /** A turn until its end is kept, and what it left has been seen to. */
  async #goOn(agent: AgentProcess, turn: RunningTurn, answer: Promise<unknown>): Promise<void> {
    using _watch = agent.adapter.connection.watchTurn(this.#parts.limits.noFramesMs);
    try {
      await Promise.race([answer, turn.over.promise]);
    } catch (error) {
      await this.#failed(agent, turn, error);
    }
    if (this.#left) return;
    this.#inbox.again();
    if (turn.requestId !== null) this.#seat.contextLost = false;
    await auditTurn(this.#parts, agent, turn).finally(() => turn.audited.resolve());
  }

  /** What the agent answers itself, an error too, is kept when it comes. */
  async #failed(agent: AgentProcess, turn: RunningTurn, error: unknown): Promise<void> {
    const end = { outcome: "failed", problem: problemOf(error) } as const;
    if (error instanceof AcpTimeout) await agent.exchange.end(turn, end);
    // The end of the connection is the end of the process, and that is where it is written down.
    if (error instanceof AcpTimeout || error instanceof AcpClosed) return this.#seat.gone(agent);
    if (turn.ended) return;
    await agent.exchange.unsent(turn);
    if (!(await agent.exchange.end(turn, end))) agent.exchange.drop(turn);
  }

  async #cancelRunning(turn: RunningTurn, { actor, reapTools = false }: CancelRequest): Promise<void> {
    const { kept, clock, limits } = this.#parts;
    const { agent } = this.#seat;
    if (agent === null) return;
    const { turnId } = turn;
    const cancel = { actor, at: clock.wall(), reapTools: reapTools || turn.cancel?.reapTools === true };
    const runs = await kept.commit(
      () => (turn.ended ? null : { turns: [{ turnId, from: "running", set: { cancel } }] }),
      () => (turn.cancel = cancel),
    );
    // Ended meanwhile: what is said now would be said to the next.
    if (!runs) return turn.audited.promise;
    // Some never return while a question of theirs is open.
    await agent.questions.cancelAll(actor);
    const sessionId = kept.row.agentSessionId ?? "";
    agent.adapter.connection.notify("session/cancel", { sessionId }).catch(() => undefined);
    await clock.pause(limits.cancelMs, turn.over.promise);
    if (!turn.ended) await agent.exchange.end(turn, { outcome: "cancel-unconfirmed" });
    await turn.audited.promise;
  }

  /** The former process may have died before it had seen to what the last turn left. */
  async #auditLast(agent: AgentProcess): Promise<void> {
    const last = await this.#last();
    if (last?.state === "ended" && last.audit === null) await auditTurn(this.#parts, agent, last);
  }

  /** The agent ends, whatever does not answer: the store, too. */
  async #close(request: CloseRequest): Promise<void> {
    const { clock, limits } = this.#parts;
    const enough = clock.after(limits.cancelMs + 2 * limits.closeMs, () => {
      this.#seat.agent?.adapter.close(request.actor).catch(() => undefined);
    });
    try {
      await this.#closeInOrder(request);
    } finally {
      enough.cancel();
    }
  }

  async #closeInOrder({ actor, discardPersistentState: discard = false }: CloseRequest): Promise<void> {
    const { kept, supervisor, clock, limits } = this.#parts;
    if (kept.row.state === "closed") return;
    await kept.commit(() => ({ session: { state: "closing" } }));
    await this.#queue.cancelAll(actor);
    await this.#seat.close();
    const running = this.#sent();
    if (running !== null) await this.#cancelRunning(running, { actor });
    const { agent } = this.#seat;
    const { runId } = kept.row;
    if (agent !== null) {
      await sayGoodbye(agent, kept, { discard, deadlineMs: limits.closeMs });
      await agent.adapter.close(actor);
      await this.#seat.gone(agent);
    } else if (runId !== null) {
      await supervisor.stop(runId, { actor }).catch(() => undefined);
    }
    const at = clock.wall();
    await kept.commit(() => ({
      session: { state: "closed", closedAt: at, tmpdir: null, sending: null, pending: [] },
      updates: [{ turnId: null, at, type: "session", data: { state: "closed", actor } }],
    }));
    await this.#parts.onClosed(actor);
  }

  /** Never resolves while none are known. */
  async #survivors(closing: Promise<void>): Promise<readonly Survivor[]> {
    let over = false;
    const end = (): boolean => (over = true);
    closing.then(end, end);
    while (!over) {
      await this.#parts.clock.pause(LOOK_MS, closing);
      const survivors = this.#seat.agent?.survivors ?? [];
      if (survivors.length > 0) return survivors;
    }
    return new Promise(() => undefined);
  }
}
