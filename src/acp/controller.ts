import { resolve } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { Survivor } from "../model/process.js";
import type { Clock } from "../async/clock.js";
import { deferred } from "../async/deferred.js";
import { hostClock } from "../async/host-clock.js";
import type { AgentEntry } from "../config/agents.js";
import {
  clientAccessUpdate,
  grantsAnyAccess,
  recordedClientAccess,
  type RequestedClientAccess,
  resolveClientAccess,
} from "../config/client-access.js";
import { defaults } from "../defaults.js";
import { AcpNotHeld, AcpSessionClosed, NotFound, SessionTaken, SupervisorClosed } from "../errors.js";
import type {
  AcpMode,
  AcpPermissionRequest,
  AcpSession,
  AcpTurn,
  PermissionRule,
  ReapPolicy,
} from "../model/acp.js";
import { OPEN_RUN_STATES } from "../model/run.js";
import type { SessionRecord } from "../model/session.js";
import { type ApprovalQuestion, assertAnswersQuestion } from "../sessions/approval-question.js";
import type { SessionOptions, Sessions } from "../sessions/sessions.js";
import type { AcpChange, AcpStore } from "../store/acp/store.js";
import type { GatewayStore } from "../store/gateways/store.js";
import type { MessageStore } from "../store/messages/store.js";
import type { ReadStore } from "../store/store.js";
import type { Run, Supervisor } from "../supervisor/api.js";
import { displayCommand } from "../text/redact.js";
import { ACP_BACKEND, type AgentCommand, executedArgv, storableArgv } from "./agent-command.js";
import { AgentCommands, type RequestedAgentCommand } from "./agent/agent-commands.js";
import { type VerifiedProcessTree, verifyProcessTree } from "./agent/process-tree.js";
import { AGENT_LABEL, TERMINAL_BACKEND } from "./client/terminals.js";
import { type AcpLimits, defaultAcpLimits } from "./limits.js";
import { SessionWriter } from "./session-writer.js";
import { closeLostSessionChange } from "./session/close-session.js";
import type { PromptRequest } from "./session/prompt-queue.js";
import {
  type CancelTurnOptions,
  type CloseSessionOptions,
  SessionRunner,
  type SessionRunnerDeps,
} from "./session/session-runner.js";
import { UpdateFollower } from "./turn/update-follower.js";

export interface AcpControllerDeps {
  readonly supervisor: Supervisor;
  readonly store: AcpStore &
    Pick<MessageStore, "listMessages"> &
    Pick<GatewayStore, "getGateway"> &
    Pick<ReadStore, "now">;
  readonly sessions: Pick<
    Sessions,
    "open" | "openFor" | "close" | "get" | "getByKey" | "issueRunToken" | "bindToken"
  >;
  readonly agents: ReadonlyMap<string, AgentEntry>;
  /** Variables that the config passes to runs of sessions. */
  readonly passEnv?: readonly string[];
  readonly limits?: Partial<AcpLimits>;
  readonly onProblem: (message: string, cause: unknown) => void;
  /** Its agent has answered a turn, and had what went with it. */
  readonly onDelivered?: (sessionId: string) => void;
  /** Left out: a message that wakes an agent becomes a turn, and that is all. */
  readonly startMessageTurn?: SessionRunnerDeps["startMessageTurn"];
}

export interface EnsureSessionRequest extends RequestedAgentCommand {
  readonly key: string;
  readonly cwd: string;
  readonly mode?: AcpMode;
  readonly rules?: readonly PermissionRule[];
  readonly reap?: ReapPolicy;
  /** Beside what the catalogue says of the agent. */
  readonly client?: RequestedClientAccess | undefined;
  /** The session on whose behalf: the new one is its child. */
  readonly requester?: SessionRecord | null;
  readonly session?: SessionOptions;
}

export interface EnsuredSession {
  readonly row: SessionRecord;
  readonly session: AcpSession;
  readonly created: boolean;
}

export interface ClosedSession {
  readonly session: AcpSession;
  readonly survivors: readonly Survivor[];
}

export interface StartupReconciliation {
  /** Sessions whose agents go on. */
  readonly resumed: number;
  /** Sessions whose agents had ended. */
  readonly down: number;
  /** Agents of no open session, which were ended. */
  readonly reaped: number;
}

/** Reads and searches are let through, everything else is asked about. */
export const DEFAULT_PERMISSION_RULES: readonly PermissionRule[] = [
  { effect: "allow", kind: "read" },
  { effect: "allow", kind: "search" },
  { effect: "ask" },
];

/** One owner of the life of every ACP session of a gateway. */
export class AcpController implements AsyncDisposable {
  readonly updates: UpdateFollower;
  readonly commands: AgentCommands;
  readonly #deps: AcpControllerDeps;
  readonly #clock: Clock = hostClock;
  readonly #limits: AcpLimits;
  readonly #runners = new Map<string, SessionRunner>();
  readonly #ensureQueues = new Map<string, Promise<void>>();
  readonly #resuming = new Map<string, Promise<SessionRunner | null>>();
  readonly #startupDone = deferred<void>();
  #disposed = false;

  constructor(deps: AcpControllerDeps) {
    this.#deps = deps;
    this.commands = new AgentCommands(deps.agents, deps.sessions, deps.passEnv ?? []);
    this.#limits = { ...defaultAcpLimits, ...deps.limits };
    this.updates = new UpdateFollower(deps.store, (sessionId) => this.#runners.has(sessionId));
  }

  /**
   * Once, when the runs that a former process left have been looked at: its sessions go on here; agents that belong to
   * no open session are ended. Everything else waits for it.
   */
  async reconcileAtStartup(): Promise<StartupReconciliation> {
    const { supervisor } = this.#deps;
    const { instanceId: gatewayInstanceId } = supervisor;
    const counts = { resumed: 0, down: 0, reaped: 0 };
    try {
      for (const runner of await this.#resumeAll())
        counts[runner.writer.row.state === "ready" ? "resumed" : "down"]++;
    } finally {
      this.#startupDone.resolve();
    }
    const runs = await supervisor.listRuns({ ownerInstanceId: gatewayInstanceId, states: OPEN_RUN_STATES });
    for (const { runId, backendId, labels } of runs) {
      const agentRunId = backendId === TERMINAL_BACKEND ? (labels[AGENT_LABEL] ?? "") : runId;
      if (backendId !== ACP_BACKEND && agentRunId === runId) continue;
      if (await this.#isAgentOfOpenSession(agentRunId)) continue;
      await supervisor.stop(runId, { actor: "acp: its session is closed" });
      counts.reaped++;
    }
    return counts;
  }

  /** Runs that this supervisor has got since, and sessions of this gateway whose agents have ended since. */
  async resumeSessionsOf(runs: readonly Run[]): Promise<void> {
    const { store, supervisor } = this.#deps;
    const session = { gatewayInstanceId: supervisor.instanceId };
    for (const { runId } of runs) {
      const [row] = await store.listAcpSessions({ runId, open: true, limit: 1 });
      // Who has the agent's process has the session.
      if (row !== undefined && row.gatewayInstanceId !== supervisor.instanceId)
        await store.commitAcpChange(row.sessionId, row.gatewayInstanceId, { session });
    }
    await this.#resumeAll();
  }

  /** The open session of that key, with an agent that waits for a prompt; made if there is none. */
  async ensureSession(request: EnsureSessionRequest): Promise<EnsuredSession> {
    await this.#startupDone.promise;
    // Who asks for the same at the same time gets the same.
    const before = this.#ensureQueues.get(request.key) ?? Promise.resolve();
    const ensured = before.then(() => this.#ensure(request));
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

  async #ensure(request: EnsureSessionRequest): Promise<EnsuredSession> {
    const command = this.commands.resolve(request);
    const { store, sessions, supervisor } = this.#deps;
    const { agent = null, mode = "session" } = request;
    const options: SessionOptions = {
      ...request.session,
      backend: ACP_BACKEND,
      interactionMode: mode === "run" ? "run" : "interactive",
      ...(agent === null ? {} : { agentId: request.session?.agentId ?? agent }),
    };
    const { requester = null } = request;
    const { session: row } = await (requester === null
      ? sessions.open(request.key, options)
      : sessions.openFor(requester, request.key, options));
    const known = await store.getAcpSession(row.id);
    if (known !== null) return this.#reuseSession(row, known, command, request);
    const at = this.#clock.wall();
    const session: AcpSession = {
      sessionId: row.id,
      gatewayInstanceId: supervisor.instanceId,
      agent,
      argv: storableArgv(executedArgv(command), requester === null),
      command: displayCommand(command.argv),
      cwd: resolve(request.cwd),
      mode,
      rules: request.rules ?? DEFAULT_PERMISSION_RULES,
      reap: request.reap ?? "asked",
      state: "down",
      runId: null,
      tmpdir: null,
      agentSessionId: null,
      capabilities: null,
      end: 0,
      sending: null,
      pending: [],
      seq: 0,
      version: 0,
      problem: null,
      createdAt: at,
      updatedAt: at,
      closedAt: null,
    };
    // Another gateway of the same store was asked for it, too, and was faster.
    if (!(await store.insertAcpSession(session)))
      return this.#reuseSession(row, await this.#requireSession(row.id), command, request);
    this.commands.remember(row.id, command);
    const runner = await this.#createRunner(await this.#recordClientAccess(session, request));
    try {
      await runner.ensureAgent();
    } catch (error) {
      // Nobody could use it.
      await runner.close({ actor: "acp: its agent did not start" }).catch(() => undefined);
      throw error;
    }
    return { row, session: runner.writer.row, created: true };
  }

  /** Said before anything else: so it is found again. */
  async #recordClientAccess(
    session: AcpSession,
    { agent, client }: EnsureSessionRequest,
  ): Promise<AcpSession> {
    const access = resolveClientAccess(this.#deps.agents.get(agent ?? "")?.acp?.client, client);
    if (!grantsAnyAccess(access)) return session;
    const { sessionId, gatewayInstanceId } = session;
    const updates = [clientAccessUpdate(access, this.#clock.wall())];
    await this.#deps.store.commitAcpChange(sessionId, gatewayInstanceId, { updates });
    return this.#requireSession(sessionId);
  }

  /** Queued: one is in flight at a time. Resolves when it is kept, not when it has ended. */
  async prompt(sessionId: string, request: PromptRequest): Promise<AcpTurn> {
    const turnId = await (await this.#requireRunner(sessionId)).prompt(request);
    return this.#requireTurn(turnId);
  }

  /** A message has begun to wait for it. */
  onMessageWaiting(sessionId: string): void {
    this.#runners.get(sessionId)?.wake();
  }

  /** Look for messages that other gateways have taken in. */
  checkInboxes(): void {
    for (const runner of this.#runners.values()) runner.wake();
  }

  /** Null: there was none. A turn's cancel is no reap: the agent stays. */
  async cancelTurn(sessionId: string, request: CancelTurnOptions): Promise<AcpTurn | null> {
    const turnId = await (await this.#requireRunner(sessionId)).cancel(request);
    return turnId === null ? null : this.#requireTurn(turnId);
  }

  /**
   * Until every process of it is proven to be gone, or is known to survive its KILL. One of another gateway is not
   * touched; one that is lost is closed on record only.
   */
  async closeSession(sessionId: string, request: CloseSessionOptions): Promise<ClosedSession> {
    await this.#startupDone.promise;
    const row = await this.#requireSession(sessionId);
    if (row.state === "closed") return { session: row, survivors: [] };
    if (await this.isLost(row)) return { session: await this.#closeLost(row, request.actor), survivors: [] };
    const runner = await this.#requireRunner(sessionId);
    const survivors = await runner.close(request);
    return { session: runner.writer.row, survivors };
  }

  /** It is another gateway's, which is gone, and its agent's run has ended on record, by itself or on an operator's word. */
  async isLost({ gatewayInstanceId, runId }: AcpSession): Promise<boolean> {
    const { store, supervisor } = this.#deps;
    if (gatewayInstanceId === supervisor.instanceId) return false;
    const run = runId === null ? null : await supervisor.getRun(runId);
    if (run !== null && run.state !== "exited") return false;
    const gateway = await store.getGateway(gatewayInstanceId);
    if (gateway === null || gateway.stoppedAt !== null) return true;
    return (await store.now()) - gateway.heartbeatAt > defaults.leaseMs;
  }

  async #closeLost(row: AcpSession, actor: string): Promise<AcpSession> {
    const { store, supervisor, sessions } = this.#deps;
    const { sessionId } = row;
    const by = { gatewayInstanceId: supervisor.instanceId, actor, at: this.#clock.wall() };
    const change = await closeLostSessionChange(store, row, by);
    const written = await store.commitAcpChange(sessionId, row.gatewayInstanceId, change);
    if (written !== null) await sessions.close(sessionId, actor);
    const now = await this.#requireSession(sessionId);
    if (now.state !== "closed") throw new AcpNotHeld(now);
    this.updates.wake(sessionId);
    return now;
  }

  async verifyProcessTree(sessionId: string): Promise<VerifiedProcessTree> {
    const { runId } = await this.#requireSession(sessionId);
    return verifyProcessTree(this.#deps.supervisor, runId);
  }

  /** Of a session's agent, if one runs here. */
  stderrOf(sessionId: string): string {
    return this.#runners.get(sessionId)?.stderr ?? "";
  }

  /** What its agent is at in that turn, in a few words; empty: it has not said, or it is not at it here. */
  activityOf(sessionId: string, turnId: string): string {
    return this.#runners.get(sessionId)?.activity(turnId) ?? "";
  }

  /** Whether the run is the agent of a session that is held here, or belongs to one. */
  ownsRun(runId: string): boolean {
    return [...this.#runners.values()].some((runner) => runner.ownsRun(runId));
  }

  /** Resolves when no turn runs and none waits, or when `enough` aborts. */
  async waitUntilIdle(signal: AbortSignal): Promise<void> {
    const states = ["queued", "running"] as const;
    for (const sessionId of this.#runners.keys())
      await this.updates.waitFor(
        sessionId,
        async () =>
          (await this.#deps.store.listAcpTurns({ sessionId, states, limit: 1 })).length === 0 || null,
        signal,
      );
  }

  /** The whole of a waiting question. Null: it does not wait at this gateway. */
  async questionOf(permission: AcpPermissionRequest): Promise<ApprovalQuestion | null> {
    return (await this.#runners.get(permission.sessionId)?.questionOf(permission)) ?? null;
  }

  /** Null: no such question. Not decided: it was answered before, or its agent no longer waits. `digest`: of the question that was shown. */
  async answerPermission(
    id: string,
    verdict: "allow" | "deny",
    actor: string,
    digest?: string,
  ): Promise<{ readonly permission: AcpPermissionRequest; readonly decided: boolean } | null> {
    await this.#startupDone.promise;
    const { store } = this.#deps;
    const asked = await store.getAcpPermissionRequest(id);
    if (asked === null) return null;
    const question = await this.questionOf(asked);
    if (question !== null)
      assertAnswersQuestion(question, verdict, digest, `holdfast acp permissions show ${id}`);
    const permissionRequests = this.#runners.get(asked.sessionId)?.permissionRequests;
    const decided = (await permissionRequests?.decide(id, verdict, actor)) ?? false;
    return { permission: (await store.getAcpPermissionRequest(id)) ?? asked, decided };
  }

  /** Left to the next process, as they are. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    await Promise.all([...this.#runners.values()].map((runner) => runner.detach()));
    this.updates.close();
    // So that they can still say so to whoever listens.
    await setImmediate();
  }

  async #requireTurn(turnId: string): Promise<AcpTurn> {
    const turn = await this.#deps.store.getAcpTurn(turnId);
    if (turn === null) throw new NotFound(`turn ${turnId}`);
    return turn;
  }

  async #requireSession(sessionId: string): Promise<AcpSession> {
    const row = await this.#deps.store.getAcpSession(sessionId);
    if (row === null) throw new NotFound(`ACP session ${sessionId}`);
    return row;
  }

  async #requireRunner(sessionId: string): Promise<SessionRunner> {
    await this.#startupDone.promise;
    const runner = await this.#resume(sessionId);
    if (runner !== null) return runner;
    const row = await this.#requireSession(sessionId);
    const record = row.runId === null ? null : await this.#deps.supervisor.getRun(row.runId);
    const gatewayInstanceId = record?.ownerInstanceId ?? row.gatewayInstanceId;
    const gateway = await this.#deps.store.getGateway(gatewayInstanceId);
    throw new AcpNotHeld({ ...row, gatewayInstanceId }, { gateway });
  }

  /** Every open session of this gateway's; those that cannot be taken up are told of. */
  async #resumeAll(): Promise<readonly SessionRunner[]> {
    const { store, supervisor, onProblem } = this.#deps;
    const { instanceId: gatewayInstanceId } = supervisor;
    const arrived = [];
    for (const { sessionId } of await store.listAcpSessions({ open: true, gatewayInstanceId }))
      try {
        const runner = await this.#resume(sessionId);
        if (runner !== null) arrived.push(runner);
      } catch (cause) {
        if (!this.#disposed) onProblem(`the ACP session ${sessionId} could not be taken up`, cause);
      }
    return arrived;
  }

  /** One that is held, once it is as it was found. Null: its agent's process lives, and not here. */
  #resume(sessionId: string): Promise<SessionRunner | null> {
    const resuming = this.#resuming.get(sessionId);
    if (resuming !== undefined) return resuming;
    const runner = this.#runners.get(sessionId);
    if (runner !== undefined) return Promise.resolve(runner);
    const resumed = this.#resumeFromRecord(sessionId).finally(() => this.#resuming.delete(sessionId));
    this.#resuming.set(sessionId, resumed);
    return resumed;
  }

  async #resumeFromRecord(sessionId: string): Promise<SessionRunner | null> {
    const { supervisor } = this.#deps;
    const row = await this.#requireSession(sessionId);
    if (row.gatewayInstanceId !== supervisor.instanceId)
      throw new AcpNotHeld(row, { gateway: await this.#deps.store.getGateway(row.gatewayInstanceId) });
    if (row.state === "closed") throw new AcpSessionClosed(sessionId);
    const record = row.runId === null ? null : await supervisor.getRun(row.runId);
    const run = row.runId === null ? null : supervisor.run(row.runId);
    if (run === null && record !== null && record.state !== "exited") return null;
    const runner = await this.#createRunner(row);
    try {
      await (run === null ? runner.agentGone() : runner.resume(run));
    } catch (error) {
      this.#runners.delete(sessionId);
      throw error;
    }
    return runner;
  }

  async #createRunner(session: AcpSession): Promise<SessionRunner> {
    const { store, supervisor, sessions, onProblem } = this.#deps;
    const { sessionId } = session;
    const row = await sessions.get(sessionId);
    if (row === null) throw new NotFound(`session ${sessionId}`);
    const access = recordedClientAccess(await store.listAcpUpdates({ sessionId, limit: 1 }));
    const already = this.#runners.get(sessionId);
    if (already !== undefined) return already;
    if (this.#disposed)
      throw new SupervisorClosed(supervisor.instanceId, "its gateway stops; nothing was done");
    const clock = this.#clock;
    const onWritten = (id: string, { delivered }: AcpChange): void => {
      this.updates.wake(id);
      if (delivered !== undefined) this.#deps.onDelivered?.(id);
    };
    const writer = new SessionWriter(session, { store, clock, onWritten, onProblem });
    const runner: SessionRunner = new SessionRunner({
      supervisor,
      store,
      clock,
      limits: this.#limits,
      writer,
      messages: store,
      sessions,
      startMessageTurn: this.#deps.startMessageTurn ?? ((_message, _turnId, begin) => begin()),
      owner: { sessionKey: row.key, agentId: row.agentId },
      clientAccess: access,
      command: () => this.commands.forRestart(writer.row),
      bindToken: (command, runId) => this.commands.bindToken(command, runId),
      execRules: async () => (await sessions.get(sessionId))?.execRules ?? row.execRules,
      onClosed: async (actor) => {
        this.commands.forget(sessionId);
        await sessions.close(sessionId, actor);
        if (this.#runners.get(sessionId) === runner) this.#runners.delete(sessionId);
        this.updates.wake(sessionId);
      },
      onProblem,
      onDetached: () => {
        if (this.#runners.get(sessionId) === runner) this.#runners.delete(sessionId);
      },
    });
    this.#runners.set(sessionId, runner);
    return runner;
  }

  async #isAgentOfOpenSession(runId: string): Promise<boolean> {
    const [row] = await this.#deps.store.listAcpSessions({ runId, open: true, limit: 1 });
    return row !== undefined && row.state !== "down";
  }

  async #reuseSession(
    row: SessionRecord,
    known: AcpSession,
    command: AgentCommand,
    { rules = known.rules }: EnsureSessionRequest,
  ): Promise<EnsuredSession> {
    if (known.command !== displayCommand(command.argv))
      throw new SessionTaken(row.key, `its agent is another: ${known.command}`);
    if (JSON.stringify(known.rules) !== JSON.stringify(rules))
      throw new SessionTaken(row.key, "an open session has it, with other permissions");
    const runner = await this.#requireRunner(row.id);
    this.commands.remember(row.id, command);
    await runner.ensureAgent();
    return { row, session: runner.writer.row, created: false };
  }
}
