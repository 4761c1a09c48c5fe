import { setImmediate } from "node:timers/promises";
import { NotFound } from "../errors.js";
import type { AcpSession, AcpTurn } from "../model/acp/session-and-turn.js";
import type { AcpPermissionRequest } from "../model/acp/permission-request.js";
import type { Elicitation } from "../model/acp/elicitation.js";
import type { AgentSettings } from "../model/acp/agent-settings.js";
import type { Survivor } from "../model/process.js";
import { OPEN_RUN_STATES } from "../model/run.js";
import type { ApprovalQuestion } from "../sessions/approval-question.js";
import type { Run } from "../supervisor/api.js";
import { ACP_BACKEND } from "../model/enums.js";
import type { AgentCommands } from "./agent-command.js";
import { type VerifiedProcessTree, verifyProcessTree } from "./agent/turn-process-audit.js";
import { AGENT_LABEL, TERMINAL_BACKEND } from "./client/terminals.js";
import { type EnsuredSession, ensureSession, type EnsureSessionRequest } from "./ensure-session.js";
import {
  type GivenVerdict,
  type PermissionAnswer,
  toDecideOptions,
} from "./permissions/permission-answer.js";
import {
  type AgentSessionSummary,
  listAgentSessions,
  type ListAgentSessionsRequest,
} from "./list-agent-sessions.js";
import { loginAgent, type LoginRequest, type LoginResult } from "./login-agent.js";
import { SessionRegistry, type SessionRegistryDeps } from "./session-registry.js";
import { closeLostSession, type CloseSessionOptions, isLostSession } from "./session/close-session.js";
import type { PromptRequest } from "./session/prompt-queue.js";
import type { CancelTurnOptions } from "./session/turn-runner.js";
import type { TurnActivity } from "./turn/turn-summary.js";
import type { UpdateFollower } from "./turn/update-follower.js";

interface ClosedSession {
  readonly session: AcpSession;
  readonly survivors: readonly Survivor[];
}

interface StartupReconciliation {
  /** Sessions whose agents are still running. */
  readonly resumed: number;
  /** Sessions whose agents had ended. */
  readonly down: number;
  /** Agents that belong to no open session and were stopped. */
  readonly reaped: number;
}

/** The entry point to the ACP sessions of a gateway. */
export class AcpController implements AsyncDisposable {
  readonly updates: UpdateFollower;
  readonly commands: AgentCommands;
  readonly #deps: SessionRegistryDeps;
  readonly #registry: SessionRegistry;
  readonly #ensureQueues = new Map<string, Promise<void>>();

  constructor(deps: SessionRegistryDeps) {
    this.#deps = deps;
    this.#registry = new SessionRegistry(deps);
    this.commands = this.#registry.commands;
    this.updates = this.#registry.updates;
  }

  /**
   * Resumes the sessions of the previous gateway process, and stops agents that belong to no open session. Called once,
   * after the supervisor has reconciled its runs; every other operation waits for it.
   */
  async reconcileAtStartup(): Promise<StartupReconciliation> {
    const { supervisor } = this.#deps;
    const counts = { resumed: 0, down: 0, reaped: 0 };
    try {
      for (const runner of (await this.#registry.resumeAll()).resumed)
        counts[runner.writer.row.state === "ready" ? "resumed" : "down"]++;
    } finally {
      this.#registry.startupDone.resolve();
    }
    const runs = await supervisor.listRuns({
      ownerInstanceId: supervisor.instanceId,
      states: OPEN_RUN_STATES,
    });
    for (const { runId, backendId, labels } of runs) {
      const agentRunId = backendId === TERMINAL_BACKEND ? (labels[AGENT_LABEL] ?? "") : runId;
      if (backendId !== ACP_BACKEND && agentRunId === runId) continue;
      if (await this.#isAgentOfOpenSession(agentRunId)) continue;
      await supervisor.stop(runId, { actor: "acp: its session is closed" });
      counts.reaped++;
    }
    return counts;
  }

  /**
   * Resumes the sessions whose agents are these runs, which this supervisor has acquired, and those whose agents ended.
   * True: sessions are left that could not be resumed.
   */
  async resumeSessionsOf(runs: readonly Run[]): Promise<boolean> {
    const { store, supervisor } = this.#deps;
    const session = { gatewayInstanceId: supervisor.instanceId };
    for (const { runId } of runs) {
      const [row] = await store.listAcpSessions({ runId, open: true, limit: 1 });
      // A session belongs to the gateway that owns its agent's process.
      if (row !== undefined && row.gatewayInstanceId !== supervisor.instanceId)
        await store.commitAcpChange(row.sessionId, row.gatewayInstanceId, { session });
    }
    return (await this.#registry.resumeAll()).left > 0;
  }

  /** Returns the open session with the requested key, with an agent that is ready for a prompt; creates it if there is none. */
  async ensureSession(request: EnsureSessionRequest): Promise<EnsuredSession> {
    await this.#registry.startupDone.promise;
    // Concurrent requests for one key get the same session.
    const before = this.#ensureQueues.get(request.key) ?? Promise.resolve();
    const ensured = before.then(() => ensureSession(this.#registry, request));
    const done = ensured.then(
      () => undefined,
      () => undefined,
    );
    this.#ensureQueues.set(request.key, done);
    try {
      return await ensured;
    } finally {
      if (this.#ensureQueues.get(request.key) === done) this.#ensureQueues.delete(request.key);
    }
  }

  /** Queues a prompt: one turn runs at a time. Resolves when the turn is stored, not when it ends. */
  async prompt(sessionId: string, request: PromptRequest): Promise<AcpTurn> {
    const turnId = await (await this.#registry.requireRunner(sessionId)).prompt(request);
    return this.#requireTurn(turnId);
  }

  /** Changes the model, the mode or config options of the agent's session; starts the agent if there is none. */
  async setSettings(sessionId: string, settings: AgentSettings, actor: string): Promise<AcpSession> {
    const runner = await this.#registry.requireRunner(sessionId);
    await runner.set(settings, actor);
    return runner.writer.row;
  }

  /** The sessions that an agent has stored itself. The agent is started for it, and ended. */
  listAgentSessions(request: ListAgentSessionsRequest): Promise<readonly AgentSessionSummary[]> {
    return listAgentSessions({ supervisor: this.#deps.supervisor, limits: this.#registry.limits }, request);
  }

  /** Logs in to an agent. The agent is started for it, and ended. */
  login(request: LoginRequest): Promise<LoginResult> {
    return loginAgent({ supervisor: this.#deps.supervisor, limits: this.#registry.limits }, request);
  }

  /** A message for the session has been stored. */
  onMessageWaiting(sessionId: string): void {
    this.#registry.get(sessionId)?.wake();
  }

  /** Reads messages that peer gateways have stored. */
  checkInboxes(): void {
    for (const runner of this.#registry.runners) runner.wake();
  }

  /** Cancels a turn; the agent stays. Null: there was no turn to cancel. */
  async cancelTurn(sessionId: string, request: CancelTurnOptions): Promise<AcpTurn | null> {
    const turnId = await (await this.#registry.requireRunner(sessionId)).cancel(request);
    return turnId === null ? null : this.#requireTurn(turnId);
  }

  /**
   * Resolves when every process of the session is proven gone, or survived its KILL. A session of another gateway is
   * refused; a lost one is closed only in the store.
   */
  async closeSession(sessionId: string, request: CloseSessionOptions): Promise<ClosedSession> {
    await this.#registry.startupDone.promise;
    const row = await this.#registry.requireSession(sessionId);
    if (row.state === "closed") return { session: row, survivors: [] };
    if (await this.isLost(row)) {
      const session = await closeLostSession(this.#deps, row, request, this.#registry.clock.wall());
      this.updates.wake(sessionId);
      return { session, survivors: [] };
    }
    const runner = await this.#registry.requireRunner(sessionId);
    const survivors = await runner.close(request);
    return { session: runner.writer.row, survivors };
  }

  /** True if the session belongs to another gateway that is gone, and its agent's run has ended on record. */
  isLost(session: AcpSession): Promise<boolean> {
    return isLostSession(this.#deps, session);
  }

  /** True if the agent's process has ended, and its session does not have that on record yet. */
  async isAgentGone({ runId }: AcpSession): Promise<boolean> {
    const { supervisor } = this.#deps;
    if (runId === null) return false;
    const state = supervisor.run(runId)?.state ?? (await supervisor.getRun(runId))?.state;
    return state === "exited";
  }

  async verifyProcessTree(sessionId: string): Promise<VerifiedProcessTree> {
    const { runId } = await this.#registry.requireSession(sessionId);
    return verifyProcessTree(this.#deps.supervisor, runId);
  }

  /** The newest stderr of the session's agent; empty if it does not run here. */
  stderrOf(sessionId: string): string {
    return this.#registry.get(sessionId)?.stderr ?? "";
  }

  /** The agent's activity in that turn; null if unknown. */
  activityOf(sessionId: string, turnId: string): TurnActivity | null {
    return this.#registry.get(sessionId)?.activity(turnId) ?? null;
  }

  /** True if the run is the agent, or a terminal, of a session of this gateway. */
  ownsRun(runId: string): boolean {
    return this.#registry.runners.some((runner) => runner.ownsRun(runId));
  }

  /** Resolves when no turn runs or is queued, or when the signal aborts. */
  async waitUntilIdle(signal: AbortSignal): Promise<void> {
    const states = ["queued", "running"] as const;
    for (const sessionId of this.#registry.sessionIds)
      await this.updates.waitFor(
        sessionId,
        async () =>
          (await this.#deps.store.listAcpTurns({ sessionId, states, limit: 1 })).length === 0 || null,
        signal,
      );
  }

  /** The whole question of a pending permission request. Null: it is not pending at this gateway. */
  async questionOf(permission: AcpPermissionRequest): Promise<ApprovalQuestion | null> {
    return (await this.#registry.get(permission.sessionId)?.questionOf(permission)) ?? null;
  }

  /** The question to the user that waits at this gateway. Null: the request is for permission, or does not wait. */
  elicitationOf({ id, sessionId }: AcpPermissionRequest): Elicitation | null {
    return this.#registry.get(sessionId)?.permissionRequests?.elicitations.get(id) ?? null;
  }

  /** Null: there is no such request. `decided: false`: it was decided before, or its agent no longer waits. */
  async answerPermission(
    id: string,
    verdict: GivenVerdict,
    actor: string,
    answer: PermissionAnswer = {},
  ): Promise<{ readonly permission: AcpPermissionRequest; readonly decided: boolean } | null> {
    await this.#registry.startupDone.promise;
    const { store } = this.#deps;
    const asked = await store.getAcpPermissionRequest(id);
    if (asked === null) return null;
    const requests = this.#registry.get(asked.sessionId)?.permissionRequests ?? null;
    if (asked.decision !== null || requests === null) return { permission: asked, decided: false };
    const options = toDecideOptions(asked, verdict, answer, {
      form: this.elicitationOf(asked),
      question: await this.questionOf(asked),
      session: await this.#registry.requireSession(asked.sessionId),
      made: { actor, at: this.#registry.clock.wall() },
    });
    const decided = await requests.decide(id, verdict, actor, options);
    return { permission: (await store.getAcpPermissionRequest(id)) ?? asked, decided };
  }

  /** Leaves the sessions and their agents to the next gateway process. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#registry.detachAll();
    this.updates.close();
    // Followers get one turn of the event loop to end the streams of their clients.
    await setImmediate();
  }

  async #requireTurn(turnId: string): Promise<AcpTurn> {
    const turn = await this.#deps.store.getAcpTurn(turnId);
    if (turn === null) throw new NotFound(`turn ${turnId}`);
    return turn;
  }

  async #isAgentOfOpenSession(runId: string): Promise<boolean> {
    const [row] = await this.#deps.store.listAcpSessions({ runId, open: true, limit: 1 });
    return row !== undefined && row.state !== "down";
  }
}
