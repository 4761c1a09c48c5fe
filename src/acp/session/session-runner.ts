import type { Survivor } from "../../model/process.js";
import { AcpClosed, AcpSessionClosed, AcpTimeout } from "../../errors.js";
import type { AcpPermissionRequest, AcpTurn } from "../../model/acp.js";
import { turnIdOfMessage } from "../../model/ids.js";
import type { SessionMessage } from "../../model/session.js";
import {
  type ApprovalQuestion,
  type LabelledText,
  questionAboutText,
} from "../../sessions/approval-question.js";
import type { Run } from "../../supervisor/api.js";
import { AgentLifecycle, type AgentLifecycleDeps } from "../agent/agent-lifecycle.js";
import type { AgentProcess } from "../agent/agent-process.js";
import { toProblem } from "../agent/exit-reason.js";
import { auditTurn, listProcessKeys } from "../agent/turn-processes.js";
import type { RunningTurn } from "../agent/turn-recorder.js";
import type { SessionWriter } from "../session-writer.js";
import { closeAgentSession } from "./close-session.js";
import { MessageInbox, type MessageInboxDeps } from "./message-inbox.js";
import { PromptQueue, type PromptRequest } from "./prompt-queue.js";

export interface SessionRunnerDeps extends AgentLifecycleDeps, MessageInboxDeps {
  /** Closed for good: its tokens, its row. */
  readonly onClosed: (actor: string) => Promise<void>;
  /** Asked before a message becomes a turn, which `begin` makes of it. */
  readonly startMessageTurn: (
    message: SessionMessage,
    turnId: string,
    begin: () => Promise<void>,
  ) => Promise<void>;
}

export interface CancelTurnOptions {
  readonly actor: string;
  readonly reapTools?: boolean;
  /** Left out: the one that runs, or else the next. */
  readonly turnId?: string;
}

export interface CloseSessionOptions {
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
const RETRY_MS = 1_000;
/** To write down that an agent has ended, and remove its directory. */
const RECORD_EXIT_MS = 2_000;
/** Survivors of a KILL are no event of a run. */
const POLL_MS = 500;

/** An ACP session that this gateway has: its prompts, one after the other, and its agent for as long as there is one. */
export class SessionRunner {
  readonly #deps: SessionRunnerDeps;
  readonly #lifecycle: AgentLifecycle;
  readonly #queue: PromptQueue;
  readonly #inbox: MessageInbox;
  #busy = false;
  #wakePending = false;
  #closing: Promise<void> | null = null;
  #detaching = false;

  constructor(deps: SessionRunnerDeps) {
    this.#deps = deps;
    this.#lifecycle = new AgentLifecycle(deps);
    this.#queue = new PromptQueue(deps);
    this.#inbox = new MessageInbox(deps);
  }

  get writer(): SessionWriter {
    return this.#deps.writer;
  }

  /** Of its agent's stderr, the newest, secrets hidden. */
  get stderr(): string {
    return this.#lifecycle.agent?.adapter.stderr.text ?? "";
  }

  /** Null: it has none now. */
  get permissionRequests() {
    return this.#lifecycle.agent?.permissionRequests ?? null;
  }

  /** The whole of a waiting question. Null: it does not wait at this gateway. */
  async questionOf(permission: AcpPermissionRequest): Promise<ApprovalQuestion | null> {
    const { agent } = this.#lifecycle;
    if (agent === null || permission.decision !== null) return null;
    const known = agent.permissionRequests.questionOf(permission.id);
    if (known !== null) return known;
    const again =
      (await agent.clientRequests.questionOf(permission)) ??
      questionAboutText(["title", permission.title ?? ""], [ASKED_BEFORE_RESTART]);
    agent.permissionRequests.setQuestion(permission.id, again);
    return again;
  }

  /** Of the turn that the agent works on: the tool that runs, or the step of its plan. */
  activity(turnId: string): string {
    const turn = this.#sentTurn();
    if (turn?.turnId !== turnId) return "";
    const { tools, plan } = turn.summary;
    const tool = tools.findLast(({ status }) => status === "pending" || status === "in_progress");
    const step = plan.find(({ status }) => status === "in_progress");
    return tool?.title ?? step?.content ?? tools.at(-1)?.title ?? "";
  }

  /** Whether the run is its agent, or one of that agent's terminals. */
  ownsRun(runId: string): boolean {
    return this.writer.row.runId === runId || this.#lifecycle.agent?.terminals.ownsRun(runId) === true;
  }

  /** There is an agent that waits for a prompt. */
  async ensureAgent(): Promise<void> {
    this.#assertOpen();
    await this.#lifecycle.ensureStarted();
  }

  /** Its turn's id, once it is in the queue. */
  async prompt(request: PromptRequest): Promise<string> {
    this.#assertOpen();
    const turnId = await this.#queue.add(request);
    this.#inbox.resetUnavailable();
    this.wake();
    return turnId;
  }

  /** See whether there is something to be done. */
  wake(): void {
    this.#wakePending = true;
    if (!this.#busy) this.#runExclusive(() => this.#drainQueue());
  }

  /** The turn, when it is over and what it left has been seen to; null: there is none to cancel. */
  async cancel(request: CancelTurnOptions): Promise<string | null> {
    const { turnId } = request;
    const meant = (): RunningTurn | null => {
      const turn = this.#sentTurn();
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
  async close(request: CloseSessionOptions): Promise<readonly Survivor[]> {
    this.#closing ??= this.#closeWithTimeout(request).catch((error: unknown) => {
      this.#closing = null;
      throw error;
    });
    return Promise.race([this.#closing.then(() => []), this.#awaitSurvivors(this.#closing)]);
  }

  /** An earlier process's agent, found alive. */
  async resume(run: Run): Promise<void> {
    const { store, writer, onProblem } = this.#deps;
    const { state, sessionId } = writer.row;
    const [running = null] = await store.listAcpTurns({ sessionId, states: ["running"] });
    const agent = await this.#lifecycle.resume(run, running);
    if (state === "closing") {
      const failed = (cause: unknown): void => onProblem(`the ACP session ${sessionId} is not closed`, cause);
      this.close({ actor: "gateway restarted" }).catch(failed);
      return;
    }
    // What it knows of us is not known.
    if (state !== "ready")
      agent.adapter.connection.close("closed", "it was being started when its gateway ended");
    this.#wakePending = true;
    const turn = this.#sentTurn();
    if (turn === null || turn.requestId === null) return this.#runExclusive(() => this.#auditLastTurn(agent));
    const answer = agent.adapter.connection.answerTo(turn.requestId);
    this.#runExclusive(() => this.#awaitTurn(agent, turn, answer));
    // Whether the agent was told is not known; told twice, it stops all the same.
    if (turn.cancel !== null) void this.#cancelRunning(turn, turn.cancel).catch(() => undefined);
  }

  /** No agent of it lives. */
  async agentGone(): Promise<void> {
    // The end of one that was down is on record.
    if (this.#deps.writer.row.state !== "down") await this.#lifecycle.recordLost();
    if (this.#deps.writer.row.state === "closing") await this.close({ actor: "gateway restarted" });
    else this.wake();
  }

  /** The next process goes on with it. */
  async detach(): Promise<void> {
    this.#detaching = true;
    const { agent } = this.#lifecycle;
    // Ended with the gateway: that is still for this one to write down.
    if (agent?.run.state === "exited")
      await this.#deps.clock.sleep(RECORD_EXIT_MS, this.#lifecycle.recordExit(agent));
    this.permissionRequests?.clear();
    await this.#deps.writer.detach();
  }

  /** Nothing is to be done here any more. */
  get #detached(): boolean {
    return this.#detaching || this.#lifecycle.detached;
  }

  #assertOpen(): void {
    const { state, sessionId } = this.#deps.writer.row;
    if (this.#closing !== null || state === "closing" || state === "closed")
      throw new AcpSessionClosed(sessionId);
  }

  /** The turn that the agent works on. */
  #sentTurn(): RunningTurn | null {
    const turn = this.#lifecycle.agent?.recorder.turn ?? null;
    return turn === null || turn.requestId === null ? null : turn;
  }

  /** One thing at a time; then whatever has come meanwhile. */
  #runExclusive(work: () => Promise<void>): void {
    const { clock, writer, onProblem } = this.#deps;
    this.#busy = true;
    work().then(
      () => {
        this.#busy = false;
        if (this.#wakePending && !this.#detached) this.wake();
      },
      (cause: unknown) => {
        if (this.#detached || writer.row.state === "closed") return;
        onProblem("the next prompt could not be looked for; trying again", cause);
        clock.setTimer(RETRY_MS, () => {
          this.#busy = false;
          this.wake();
        });
      },
    );
  }

  async #drainQueue(): Promise<void> {
    this.#wakePending = false;
    for (;;) {
      const next = await this.#nextTurn();
      if (this.#detached || this.#closing !== null) return;
      if (next === null) break;
      await this.#startTurn(next);
    }
    if (this.#deps.writer.row.mode === "run" && (await this.#lastTurn())?.state === "ended")
      void this.close({ actor: "acp: its one run is over" }).catch(() => undefined);
  }

  /** In the order they were said: a message becomes a turn when its turn has come, and its agent is there. */
  async #nextTurn(): Promise<AcpTurn | null> {
    const queued = await this.#queue.next();
    const message = await this.#inbox.nextWakeMessage();
    if (this.#detached || this.#closing !== null || message === null) return queued;
    if (queued !== null && queued.place < message.seq) return queued;
    try {
      await this.#lifecycle.ensureStarted();
    } catch {
      // It goes on waiting; the session says why.
      this.#inbox.agentUnavailable();
      return queued;
    }
    const { actor: askedBy } = message;
    const text = await this.#inbox.formatMessage(message);
    const turnId = turnIdOfMessage(message.id);
    try {
      await this.#deps.startMessageTurn(message, turnId, async () => {
        await this.#queue.add({ text, askedBy, message, turnId });
      });
    } catch (error) {
      // It may have been read elsewhere meanwhile.
      if (await this.#inbox.isPending(message)) throw error;
      return this.#nextTurn();
    }
    return this.#deps.store.getAcpTurn(turnId);
  }

  async #lastTurn(): Promise<AcpTurn | null> {
    const { store, writer } = this.#deps;
    const { sessionId } = writer.row;
    const [last] = await store.listAcpTurns({ sessionId, newestFirst: true, limit: 1 });
    return last ?? null;
  }

  /** One prompt, from its queue to its end. */
  async #startTurn(turn: AcpTurn): Promise<void> {
    let agent: AgentProcess;
    try {
      agent = await this.#lifecycle.ensureStarted();
    } catch (error) {
      await this.#queue.fail(turn.turnId, toProblem(error));
      return;
    }
    const before = await listProcessKeys(agent.run).catch(() => null);
    const { messages, text } = await this.#inbox.messagesForPrompt();
    const running = agent.recorder.beginTurn(turn, before, this.#lifecycle.contextLost, messages);
    const sessionId = this.#deps.writer.row.agentSessionId ?? "";
    const prompt = [{ type: "text" as const, text: `${text}${turn.prompt}` }];
    const answer = agent.adapter.connection.request(
      "session/prompt",
      { sessionId, prompt },
      { deadlineMs: turn.timeoutMs, fatal: true },
    );
    await this.#awaitTurn(agent, running, answer);
  }

  /** A turn until its end is kept, and what it left has been seen to. */
  async #awaitTurn(agent: AgentProcess, turn: RunningTurn, answer: Promise<unknown>): Promise<void> {
    using _watch = agent.adapter.connection.watchTurn(this.#deps.limits.noFramesMs);
    try {
      await Promise.race([answer, turn.endRecorded.promise]);
    } catch (error) {
      await this.#onTurnFailed(agent, turn, error);
    }
    if (this.#detached) return;
    this.#inbox.resetUnavailable();
    if (turn.requestId !== null) this.#lifecycle.contextLost = false;
    await auditTurn(this.#deps, agent, turn).finally(() => turn.audited.resolve());
  }

  /** What the agent answers itself, an error too, is kept when it comes. */
  async #onTurnFailed(agent: AgentProcess, turn: RunningTurn, error: unknown): Promise<void> {
    const end = { outcome: "failed", problem: toProblem(error) } as const;
    if (error instanceof AcpTimeout) await agent.recorder.endTurn(turn, end);
    // The end of the connection is the end of the process, and that is where it is written down.
    if (error instanceof AcpTimeout || error instanceof AcpClosed) return this.#lifecycle.recordExit(agent);
    if (turn.ended) return;
    await agent.recorder.discardUnsent(turn);
    if (!(await agent.recorder.endTurn(turn, end))) agent.recorder.dropTurn(turn);
  }

  async #cancelRunning(turn: RunningTurn, { actor, reapTools = false }: CancelTurnOptions): Promise<void> {
    const { writer, clock, limits } = this.#deps;
    const { agent } = this.#lifecycle;
    if (agent === null) return;
    const { turnId } = turn;
    const cancel = { actor, at: clock.wall(), reapTools: reapTools || turn.cancel?.reapTools === true };
    const runs = await writer.commit(
      () => (turn.ended ? null : { turns: [{ turnId, from: "running", set: { cancel } }] }),
      () => (turn.cancel = cancel),
    );
    // Ended meanwhile: what is said now would be said to the next.
    if (!runs) return turn.audited.promise;
    // Some never return while a question of theirs is open.
    await agent.permissionRequests.cancelAll(actor);
    const sessionId = writer.row.agentSessionId ?? "";
    agent.adapter.connection.notify("session/cancel", { sessionId }).catch(() => undefined);
    await clock.sleep(limits.cancelMs, turn.endRecorded.promise);
    if (!turn.ended) await agent.recorder.endTurn(turn, { outcome: "cancel-unconfirmed" });
    await turn.audited.promise;
  }

  /** The former process may have died before it had seen to what the last turn left. */
  async #auditLastTurn(agent: AgentProcess): Promise<void> {
    const last = await this.#lastTurn();
    if (last?.state === "ended" && last.audit === null) await auditTurn(this.#deps, agent, last);
  }

  /** The agent ends, whatever does not answer: the store, too. */
  async #closeWithTimeout(request: CloseSessionOptions): Promise<void> {
    const { clock, limits } = this.#deps;
    const enough = clock.setTimer(limits.cancelMs + 2 * limits.closeMs, () => {
      this.#lifecycle.agent?.adapter.close(request.actor).catch(() => undefined);
    });
    try {
      await this.#closeSteps(request);
    } finally {
      enough.cancel();
    }
  }

  async #closeSteps({ actor, discardPersistentState: discard = false }: CloseSessionOptions): Promise<void> {
    const { writer, supervisor, clock, limits } = this.#deps;
    if (writer.row.state === "closed") return;
    await writer.commit(() => ({ session: { state: "closing" } }));
    await this.#queue.cancelAll(actor);
    await this.#lifecycle.preventStart();
    const running = this.#sentTurn();
    if (running !== null) await this.#cancelRunning(running, { actor });
    const { agent } = this.#lifecycle;
    const { runId } = writer.row;
    if (agent !== null) {
      await closeAgentSession(agent, writer, { discard, deadlineMs: limits.closeMs });
      await agent.adapter.close(actor);
      await this.#lifecycle.recordExit(agent);
    } else if (runId !== null) {
      await supervisor.stop(runId, { actor }).catch(() => undefined);
    }
    const at = clock.wall();
    await writer.commit(() => ({
      session: { state: "closed", closedAt: at, tmpdir: null, sending: null, pending: [] },
      updates: [{ turnId: null, at, type: "session", data: { state: "closed", actor } }],
    }));
    await this.#deps.onClosed(actor);
  }

  /** Never resolves while none are known. */
  async #awaitSurvivors(closing: Promise<void>): Promise<readonly Survivor[]> {
    let over = false;
    const end = (): boolean => (over = true);
    closing.then(end, end);
    while (!over) {
      await this.#deps.clock.sleep(POLL_MS, closing);
      const survivors = this.#lifecycle.agent?.survivors ?? [];
      if (survivors.length > 0) return survivors;
    }
    return new Promise(() => undefined);
  }
}
