import { AcpClosed, AcpTimeout } from "../../errors.js";
import type { AcpTurn, AcpTurnCancellation, NewAcpTurn } from "../../model/acp/session-and-turn.js";
import { turnIdOfMessage } from "../../model/ids.js";
import type { SessionMessage } from "../../model/session-message.js";
import type { AgentLifecycle, AgentLifecycleDeps } from "../agent/agent-lifecycle.js";
import type { RunningAgent } from "../agent/running-agent.js";
import { toProblem } from "../agent/agent-exit.js";
import { auditTurn, listProcessKeys } from "../agent/turn-process-audit.js";
import { toContentBlocks } from "../turn/prompt-content.js";
import type { PackedMessages } from "../../sessions/pack-messages.js";
import type { RunningTurn, TurnEnd, UnstoredTurn } from "../turn/running-turn.js";
import type { MessageInbox } from "./message-inbox.js";
import type { PromptQueue, PromptRequest } from "./prompt-queue.js";

/** Time to read the output that an agent wrote while no gateway ran, before a cancel is sent. */
const UNREAD_OUTPUT_MS = 500;

export interface CancelTurnOptions {
  readonly actor: string;
  readonly reapTools?: boolean;
  /** Default: the running turn, or else the next one. */
  readonly turnId?: string;
}

export interface TurnRunnerDeps extends AgentLifecycleDeps {
  /** Called before a message becomes a turn, which `begin` queues. */
  readonly startMessageTurn: (
    message: SessionMessage,
    turnId: string,
    begin: () => Promise<void>,
  ) => Promise<void>;
}

/** A turn that was sent. `ended` resolves when it has ended and been audited. */
interface StartedTurn {
  readonly turnId: string;
  readonly ended: Promise<void>;
}

interface SendOptions {
  /** Processes in the agent's tree before the turn; null: they could not be listed. */
  readonly before: readonly string[] | null;
  /** The messages that are sent with the prompt. */
  readonly carried: PackedMessages;
  /** The turn's record, if it is not stored yet. */
  readonly unstored?: UnstoredTurn;
  /** The start of the turn's time, on the monotonic clock. */
  readonly beganAt: number;
}

interface TurnRunnerOptions {
  readonly deps: TurnRunnerDeps;
  readonly lifecycle: AgentLifecycle;
  readonly queue: PromptQueue;
  readonly inbox: MessageInbox;
  readonly isClosing: () => boolean;
  /** True if the session was left to another gateway process. */
  readonly isDetached: () => boolean;
}

/** Runs the turns of a session, from the queue to the audit of the processes that they leave. */
export class TurnRunner {
  readonly #session: TurnRunnerOptions;
  readonly #deps: TurnRunnerDeps;
  readonly #lifecycle: AgentLifecycle;

  constructor(session: TurnRunnerOptions) {
    this.#session = session;
    this.#deps = session.deps;
    this.#lifecycle = session.lifecycle;
  }

  /** The turn that was sent to the agent and has not ended. */
  get sentTurn(): RunningTurn | null {
    const turn = this.#lifecycle.agent?.recorder.turn ?? null;
    return turn === null || turn.requestId === null ? null : turn;
  }

  /** The oldest queued prompt or message. A message becomes a turn only now, and only if the agent is running. */
  async next(): Promise<AcpTurn | null> {
    const { queue, inbox, isDetached, isClosing } = this.#session;
    const queued = await queue.next();
    const message = await inbox.nextWakeMessage();
    if (isDetached() || isClosing() || message === null) return queued;
    if (queued !== null && queued.place < message.seq) return queued;
    try {
      await this.#lifecycle.ensureStarted();
    } catch {
      // The message stays in the inbox; the session's record has the reason.
      inbox.agentUnavailable();
      return queued;
    }
    const { actor: askedBy } = message;
    const text = await inbox.formatMessage(message);
    const turnId = turnIdOfMessage(message.id);
    try {
      await this.#deps.startMessageTurn(message, turnId, async () => {
        await queue.add({ text, askedBy, message, turnId });
      });
    } catch (error) {
      // The session may have read the message by itself in the meantime.
      if (await inbox.isPending(message)) throw error;
      return this.next();
    }
    return this.#deps.store.getAcpTurn(turnId);
  }

  async lastTurn(): Promise<AcpTurn | null> {
    const { store, writer } = this.#deps;
    const { sessionId } = writer.row;
    const [last] = await store.listAcpTurns({ sessionId, newestFirst: true, limit: 1 });
    return last ?? null;
  }

  /**
   * Sends a prompt to an idle agent at once, and stores the turn together with its start. The queue must be empty. Null:
   * nothing was stored or sent, and the prompt must be queued instead.
   */
  async start(request: PromptRequest): Promise<StartedTurn | null> {
    const { queue, inbox } = this.#session;
    const { agent } = this.#lifecycle;
    if (agent?.isIdle !== true) return null;
    const beganAt = this.#deps.clock.now();
    const listed = listProcessKeys(agent.run).catch(() => null);
    const carried = await inbox.messagesUnlessOneWakes();
    const before = await listed;
    if (carried === null || this.#session.isDetached() || this.#session.isClosing()) return null;
    if (this.#lifecycle.agent !== agent || !agent.isIdle) return null;
    const unstored = queue.newTurn(request);
    const { running, answer } = this.#send(agent, unstored.newTurn, { before, carried, unstored, beganAt });
    try {
      await Promise.race([running.startRecorded.promise, answer]);
    } catch (error) {
      // The record may still be being written: the time of the prompt ended, or the agent, while the store was away.
      if (error instanceof AcpTimeout) await agent.recorder.endTurn(running, failedEnd(error));
      else await this.#deps.writer.idle();
      // A turn that is stored reports the failure at its end.
      if (running.requestId === null) {
        agent.recorder.dropTurn(running);
        return null;
      }
    }
    return { turnId: running.turnId, ended: this.awaitEnd(agent, running, answer) };
  }

  /** Sends one prompt, and resolves when its turn has ended and been audited. */
  async run(turn: AcpTurn): Promise<void> {
    const { clock } = this.#deps;
    const beganAt = clock.now();
    let agent: RunningAgent;
    try {
      agent = await this.#lifecycle.ensureStarted(turn.timeoutMs);
    } catch (error) {
      await this.#session.queue.fail(turn.turnId, toProblem(error));
      return;
    }
    const before = await listProcessKeys(agent.run).catch(() => null);
    const carried = await this.#session.inbox.messagesForPrompt();
    const { running, answer } = this.#send(agent, turn, { before, carried, beganAt });
    await this.awaitEnd(agent, running, answer);
  }

  #send(
    agent: RunningAgent,
    turn: NewAcpTurn,
    { before, carried, unstored, beganAt }: SendOptions,
  ): { readonly running: RunningTurn; readonly answer: Promise<unknown> } {
    const { clock, writer } = this.#deps;
    const { contextLost } = this.#lifecycle;
    const start = { before, contextLost, messageIds: carried.messages, unstored: unstored ?? null };
    const running = agent.recorder.beginTurn(turn, start);
    const sessionId = writer.row.agentSessionId ?? "";
    const text = `${carried.text}${turn.prompt}`;
    const prompt = [...toContentBlocks(turn.content), { type: "text" as const, text }];
    // The start of the agent counts, too.
    const deadlineMs = turn.timeoutMs === null ? null : Math.max(0, turn.timeoutMs - (clock.now() - beganAt));
    const options = { deadlineMs, fatal: true };
    const answer = agent.agentRun.connection.request("session/prompt", { sessionId, prompt }, options);
    return { running, answer };
  }

  /** Resolves when the turn's end is stored and its processes are audited. */
  async awaitEnd(agent: RunningAgent, turn: RunningTurn, answer: Promise<unknown>): Promise<void> {
    const { connection } = agent.agentRun;
    using _watch = connection.watchTurn(this.#deps.limits.stallMs, turn.noOutputTimeoutMs);
    try {
      await Promise.race([answer, turn.endRecorded.promise]);
    } catch (error) {
      await this.#onFailed(agent, turn, error);
    }
    if (this.#session.isDetached()) return;
    this.#session.inbox.resetUnavailable();
    if (turn.requestId !== null) this.#lifecycle.contextLost = false;
    if (!turn.auditRecorded) await auditTurn(this.#deps, agent, turn).finally(() => turn.audited.resolve());
    turn.audited.resolve();
  }

  /** Ends a turn that the agent did not answer. The recorder stores an answer, also an error, when it arrives. */
  async #onFailed(agent: RunningAgent, turn: RunningTurn, error: unknown): Promise<void> {
    const end = failedEnd(error);
    if (error instanceof AcpTimeout) await agent.recorder.endTurn(turn, end);
    // The connection ends with the process, whose exit also ends the turn.
    if (error instanceof AcpTimeout || error instanceof AcpClosed) return this.#lifecycle.recordExit(agent);
    if (turn.ended) return;
    await agent.recorder.discardUnsent(turn);
    if (!(await agent.recorder.endTurn(turn, end))) agent.recorder.dropTurn(turn);
  }

  /** Cancels a turn that was sent. Resolves when it has ended and been audited. The first cancel's actor and time stay. */
  async cancel(turn: RunningTurn, { actor, reapTools = false }: CancelTurnOptions): Promise<void> {
    const { writer, clock } = this.#deps;
    const { agent } = this.#lifecycle;
    if (agent === null) return;
    const { turnId } = turn;
    const first = turn.cancel ?? { actor, at: clock.wall(), reapTools };
    const cancel = { ...first, reapTools: reapTools || first.reapTools };
    const recorded = await writer.commit(
      () => (turn.ended ? null : { turns: [{ turnId, from: "running", set: { cancel } }] }),
      () => (turn.cancel = cancel),
    );
    // The turn ended in the meantime: a cancel would reach the next turn.
    if (!recorded) return turn.audited.promise;
    // Some agents never end a turn while one of their permission requests is open.
    await agent.permissionRequests.cancelAll(actor);
    const sessionId = writer.row.agentSessionId ?? "";
    agent.agentRun.connection.notify("session/cancel", { sessionId }).catch(() => undefined);
    await this.#awaitConfirmation(agent, turn);
  }

  /** Continues a cancel of an earlier gateway process. It is sent only if the agent did not get it and still works on the turn. */
  async resumeCancel(turn: RunningTurn, cancel: AcpTurnCancellation): Promise<void> {
    const { agent } = this.#lifecycle;
    if (agent === null) return;
    if (cancel.sentAt !== undefined) {
      await agent.permissionRequests.cancelAll(cancel.actor);
      return this.#awaitConfirmation(agent, turn);
    }
    // The end of the turn may be in output that has not been read yet.
    await this.#deps.clock.sleep(UNREAD_OUTPUT_MS, turn.endRecorded.promise);
    return this.cancel(turn, cancel);
  }

  async #awaitConfirmation(agent: RunningAgent, turn: RunningTurn): Promise<void> {
    const { clock, limits } = this.#deps;
    await clock.sleep(limits.cancelMs, turn.endRecorded.promise);
    if (!turn.ended) await agent.recorder.endTurn(turn, { outcome: "cancel-unconfirmed" });
    await turn.audited.promise;
  }

  /** Audits the last turn if the previous gateway process died before it could. */
  async auditLast(agent: RunningAgent): Promise<void> {
    const last = await this.lastTurn();
    if (last?.state === "ended" && last.audit === null) await auditTurn(this.#deps, agent, last);
  }
}

function failedEnd(error: unknown): TurnEnd {
  return { outcome: "failed", problem: toProblem(error) };
}
