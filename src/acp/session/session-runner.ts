import { deferred } from "../../async/deferred.js";
import type { Survivor } from "../../model/process.js";
import { AcpSessionClosed } from "../../errors.js";
import type { AcpPermissionRequest } from "../../model/acp/permission-request.js";
import type { AgentSettings } from "../../model/acp/agent-settings.js";
import type { ApprovalQuestion } from "../../sessions/approval-question.js";
import type { Run } from "../../supervisor/api.js";
import { AgentLifecycle } from "../agent/agent-lifecycle.js";
import { listSettings, mergeSettings, toSettings } from "../agent/agent-settings.js";
import type { RunningTurn } from "../turn/running-turn.js";
import type { TurnActivity } from "../turn/turn-summary.js";
import type { SessionWriter } from "../session-writer.js";
import { type CloseHooks, awaitSurvivors, closeSession, type CloseSessionOptions } from "./close-session.js";
import { MessageInbox, type MessageInboxDeps } from "./message-inbox.js";
import { PromptQueue, type PromptQueueDeps, type PromptRequest } from "./prompt-queue.js";
import { type CancelTurnOptions, TurnRunner, type TurnRunnerDeps } from "./turn-runner.js";

/** `onClosed` is called once, when the session is closed: it revokes the session's tokens and closes its record. */
export interface SessionRunnerDeps extends TurnRunnerDeps, MessageInboxDeps, PromptQueueDeps, CloseHooks {}

/** Pause before the queue is read again after a failure of the store. */
const RETRY_MS = 1_000;
/** Time to record an agent's exit and remove its directory while the gateway stops. */
const RECORD_EXIT_MS = 2_000;

/** An ACP session of this gateway: runs its prompts one after the other, and its agent while there is one. */
export class SessionRunner {
  readonly #deps: SessionRunnerDeps;
  readonly #lifecycle: AgentLifecycle;
  readonly #queue: PromptQueue;
  readonly #inbox: MessageInbox;
  readonly #turns: TurnRunner;
  #busy = false;
  /** No prompt is queued or being queued. */
  #drained = false;
  #queueing = 0;
  #wakePending = false;
  #closing: Promise<void> | null = null;
  #detaching = false;

  constructor(deps: SessionRunnerDeps) {
    this.#deps = deps;
    this.#lifecycle = new AgentLifecycle(deps);
    this.#queue = new PromptQueue(deps);
    this.#inbox = new MessageInbox(deps);
    this.#turns = new TurnRunner({
      deps,
      lifecycle: this.#lifecycle,
      queue: this.#queue,
      inbox: this.#inbox,
      isClosing: () => this.#closing !== null,
      isDetached: () => this.#detached,
    });
  }

  get writer(): SessionWriter {
    return this.#deps.writer;
  }

  /** The newest stderr of the agent, with secrets redacted. */
  get stderr(): string {
    return this.#lifecycle.agent?.agentRun.stderr.text ?? "";
  }

  /** Null: there is no agent. */
  get permissionRequests() {
    return this.#lifecycle.agent?.permissionRequests ?? null;
  }

  /** The whole question of a pending permission request. Null: it is not pending at this gateway. */
  async questionOf(permission: AcpPermissionRequest): Promise<ApprovalQuestion | null> {
    if (permission.decision !== null) return null;
    return (await this.#lifecycle.agent?.questionOf(permission)) ?? null;
  }

  /** The agent's activity in this turn; null if unknown. */
  activity(turnId: string): TurnActivity | null {
    const turn = this.#turns.sentTurn;
    return turn?.turnId === turnId ? turn.summary.activity : null;
  }

  /** True if the run is the agent, or one of its terminals. */
  ownsRun(runId: string): boolean {
    return this.writer.row.runId === runId || this.#lifecycle.agent?.terminals.ownsRun(runId) === true;
  }

  /** Resolves when the agent is ready for a prompt. `timeoutMs`: the limit for its start; null: the default limits. */
  async ensureAgent(timeoutMs: number | null = null): Promise<void> {
    this.#assertOpen();
    await this.#lifecycle.ensureStarted(timeoutMs);
  }

  /**
   * Applies settings to the agent's session now, and again whenever the agent is started. Rejects at the first that fails;
   * the settings before it stay.
   */
  async set(settings: AgentSettings, actor: string): Promise<void> {
    this.#assertOpen();
    const agent = await this.#lifecycle.ensureStarted();
    let made: AgentSettings = {};
    try {
      for (const setting of listSettings(settings)) {
        await agent.applySettings(toSettings(setting));
        made = mergeSettings(made, toSettings(setting));
      }
    } finally {
      if (Object.keys(made).length > 0) await this.#rememberSettings(made, actor);
    }
  }

  async #rememberSettings(settings: AgentSettings, actor: string): Promise<void> {
    const { writer, clock } = this.#deps;
    const update = {
      turnId: null,
      at: clock.wall(),
      type: "settings",
      data: { ...settings, actor },
    } as const;
    await writer.commit(() => ({
      session: { settings: mergeSettings(writer.row.settings, settings) },
      updates: [update],
    }));
  }

  /** Queues a prompt. Resolves with the id of its turn once it is stored. */
  async prompt(request: PromptRequest): Promise<string> {
    this.#assertOpen();
    const started = await this.#startAtOnce(request);
    if (started !== null) return started;
    this.#assertOpen();
    this.#queueing++;
    let turnId: string;
    try {
      turnId = await this.#queue.add(request);
    } finally {
      this.#queueing--;
    }
    this.#inbox.resetUnavailable();
    this.wake();
    return turnId;
  }

  /** Starts a turn at once if the agent is idle. Null: the prompt must be queued. */
  #startAtOnce(request: PromptRequest): Promise<string | null> {
    if (this.#busy || !this.#drained || this.#queueing > 0 || this.#detached) return Promise.resolve(null);
    const turnId = deferred<string | null>();
    this.#runExclusive(async () => {
      const started = await this.#turns.start(request).catch(() => null);
      turnId.resolve(started?.turnId ?? null);
      await started?.ended;
      if (started !== null) await this.#drainQueue();
    });
    return turnId.promise;
  }

  /** Runs what is queued, now or after the turn that is running. */
  wake(): void {
    this.#wakePending = true;
    if (!this.#busy) this.#runExclusive(() => this.#drainQueue());
  }

  /** Resolves with the turn's id when it has ended and been audited. Null: there is no turn to cancel. */
  async cancel(request: CancelTurnOptions): Promise<string | null> {
    const { turnId } = request;
    const findSent = (): RunningTurn | null => {
      const turn = this.#turns.sentTurn;
      return turnId === undefined || turn?.turnId === turnId ? turn : null;
    };
    const queuedId = findSent() === null ? await this.#queue.cancel(request.actor, turnId) : null;
    if (queuedId !== null) return queuedId;
    // The turn may have been sent while the queue was searched.
    const running = findSent();
    if (running === null) return null;
    await this.#turns.cancel(running, request);
    return running.turnId;
  }

  /**
   * Idempotent. Resolves when every process is proven gone, or with the processes that survived their KILL: then the
   * session stays `closing` until they are gone.
   */
  async close(request: CloseSessionOptions): Promise<readonly Survivor[]> {
    const session = { deps: this.#deps, lifecycle: this.#lifecycle, queue: this.#queue, turns: this.#turns };
    this.#closing ??= closeSession(session, request).catch((error: unknown) => {
      this.#closing = null;
      throw error;
    });
    return Promise.race([this.#closing.then(() => []), awaitSurvivors(session, this.#closing)]);
  }

  /** Continues with an agent that an earlier gateway process started and that is still running. */
  async resume(run: Run): Promise<void> {
    const { store, writer, onProblem } = this.#deps;
    const { state, sessionId } = writer.row;
    const [running = null] = await store.listAcpTurns({ sessionId, states: ["running"] });
    const agent = await this.#lifecycle.resume(run, running);
    if (state === "closing") {
      const failed = (cause: unknown): void =>
        onProblem(`ACP session ${sessionId} could not be closed`, cause);
      this.close({ actor: "gateway restarted" }).catch(failed);
      return;
    }
    await this.#closeIfUnused();
    // How far its initialization got is unknown.
    if (state !== "ready")
      agent.agentRun.connection.close("closed", "it was being started when its gateway ended");
    this.#wakePending = true;
    const turn = this.#turns.sentTurn;
    if (turn === null || turn.requestId === null)
      return this.#runExclusive(() => this.#turns.auditLast(agent));
    const answer = agent.agentRun.connection.answerTo(turn.requestId);
    this.#runExclusive(() => this.#turns.awaitEnd(agent, turn, answer));
    if (turn.cancel !== null) void this.#turns.resumeCancel(turn, turn.cancel).catch(() => undefined);
  }

  /** Continues a session whose agent has ended. */
  async agentGone(): Promise<void> {
    // In state `down` the agent's end is already stored.
    if (this.#deps.writer.row.state !== "down") await this.#lifecycle.recordLost();
    if (this.#deps.writer.row.state === "closing") await this.close({ actor: "gateway restarted" });
    else {
      await this.#closeIfUnused();
      this.wake();
    }
  }

  /** Closes a session for one run whose gateway died before the prompt was stored, unless the caller sends it again. */
  async #closeIfUnused(): Promise<void> {
    const { writer, clock, limits } = this.#deps;
    const isUnused = async (): Promise<boolean> =>
      writer.row.mode === "run" && (await this.#turns.lastTurn()) === null;
    if (!(await isUnused())) return;
    clock.setTimer(limits.unusedRunMs, () => {
      const close = async (): Promise<void> => {
        if (this.#detached || this.#closing !== null || !(await isUnused())) return;
        await this.close({ actor: "acp: its gateway ended before its prompt was stored" });
      };
      close().catch(() => undefined);
    });
  }

  /** Leaves the session to the next gateway process. */
  async detach(): Promise<void> {
    this.#detaching = true;
    const { agent } = this.#lifecycle;
    // An agent that has already ended is recorded by this process.
    if (agent?.run.state === "exited")
      await this.#deps.clock.sleep(RECORD_EXIT_MS, this.#lifecycle.recordExit(agent));
    this.permissionRequests?.clear();
    await this.#deps.writer.detach();
  }

  /** True if another gateway process continues the session. */
  get #detached(): boolean {
    return this.#detaching || this.#lifecycle.detached;
  }

  #assertOpen(): void {
    const { state, sessionId } = this.#deps.writer.row;
    if (this.#closing !== null || state === "closing" || state === "closed")
      throw new AcpSessionClosed(sessionId);
  }

  /** Runs one piece of work at a time; then the queue, if `wake` was called in the meantime. */
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
        onProblem(`prompt queue of ACP session ${writer.row.sessionId} could not be read; retrying`, cause);
        clock.setTimer(RETRY_MS, () => {
          this.#busy = false;
          this.wake();
        });
      },
    );
  }

  async #drainQueue(): Promise<void> {
    this.#wakePending = false;
    this.#drained = false;
    for (;;) {
      const next = await this.#turns.next();
      if (this.#detached || this.#closing !== null) return;
      if (next === null) break;
      await this.#turns.run(next);
    }
    this.#drained = true;
    if (this.#deps.writer.row.mode === "run" && (await this.#turns.lastTurn())?.state === "ended")
      void this.close({ actor: "acp: its one run is over" }).catch(() => undefined);
  }
}
