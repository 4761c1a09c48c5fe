import { type Clock, hostClock } from "../async/clock.js";
import { deferred } from "../async/deferred.js";
import type { AgentEntry } from "../config/agents.js";
import { recordedClientAccess } from "../config/client-access.js";
import type { ConfiguredMcpServer } from "../config/mcp.js";
import type { ConfiguredPermissionRule } from "../config/permissions.js";
import { AcpNotHeld, AcpSessionClosed, NotFound, SupervisorClosed } from "../errors.js";
import type { AcpSession } from "../model/acp/session-and-turn.js";
import type { AcpPermissionRequest } from "../model/acp/permission-request.js";
import type { Sessions } from "../sessions/sessions.js";
import type { AcpChange, AcpStore } from "../store/acp/contract.js";
import type { GatewayStore } from "../store/gateways/contract.js";
import type { MessageStore } from "../store/messages/contract.js";
import type { ReadStore } from "../store/store.js";
import type { Supervisor } from "../supervisor/api.js";
import { AgentCommands } from "./agent-command.js";
import { type AcpLimits, defaultAcpLimits } from "./limits.js";
import { configuredRules, ruleLayers } from "./permissions/rule-layers.js";
import { SessionWriter } from "./session-writer.js";
import { SessionRunner, type SessionRunnerDeps } from "./session/session-runner.js";
import { UpdateFollower } from "./turn/update-follower.js";

export interface SessionRegistryDeps {
  readonly supervisor: Supervisor;
  readonly store: AcpStore &
    Pick<MessageStore, "listMessages"> &
    Pick<GatewayStore, "getGateway"> &
    Pick<ReadStore, "now">;
  readonly sessions: Pick<
    Sessions,
    "open" | "openFor" | "close" | "recordClosing" | "get" | "getByKey" | "issueRunToken" | "bindToken"
  >;
  readonly agents: ReadonlyMap<string, AgentEntry>;
  /** Variables that the config passes to runs of sessions. */
  readonly passEnv?: readonly string[];
  /** Rules of the config for permission requests. */
  readonly permissionRules?: readonly ConfiguredPermissionRule[];
  /** MCP servers of the config, by name. */
  readonly mcpServers?: Readonly<Record<string, ConfiguredMcpServer>>;
  readonly limits?: Partial<AcpLimits>;
  readonly onProblem: (message: string, cause: unknown) => void;
  /** Called once for each permission request that waits for an operator. */
  readonly onPermissionWaiting?: (permission: AcpPermissionRequest) => void;
  /** The agent completed a turn, so the messages sent with the turn are delivered. */
  readonly onDelivered?: (sessionId: string) => void;
  /** Default: starts the turn. */
  readonly startMessageTurn?: SessionRunnerDeps["startMessageTurn"];
}

/** The runners of the ACP sessions that belong to this gateway, by session id. */
export class SessionRegistry {
  readonly deps: SessionRegistryDeps;
  readonly clock: Clock = hostClock;
  readonly commands: AgentCommands;
  readonly updates: UpdateFollower;
  /** Resolved once the sessions of the previous gateway process are resumed. */
  readonly startupDone = deferred<void>();
  readonly limits: AcpLimits;
  readonly #runners = new Map<string, SessionRunner>();
  readonly #resuming = new Map<string, Promise<SessionRunner | null>>();
  #disposed = false;

  constructor(deps: SessionRegistryDeps) {
    this.deps = deps;
    this.commands = new AgentCommands(deps.agents, deps.sessions, deps.passEnv ?? []);
    this.limits = { ...defaultAcpLimits, ...deps.limits };
    this.updates = new UpdateFollower(deps.store, (sessionId) => this.#runners.has(sessionId));
  }

  get runners(): readonly SessionRunner[] {
    return [...this.#runners.values()];
  }

  /** Live: sessions added during an iteration are visited too. */
  get sessionIds(): Iterable<string> {
    return this.#runners.keys();
  }

  get(sessionId: string): SessionRunner | undefined {
    return this.#runners.get(sessionId);
  }

  /** Leaves the agents running for the next gateway process. */
  async detachAll(): Promise<void> {
    this.#disposed = true;
    await Promise.all(this.runners.map((runner) => runner.detach()));
  }

  async requireSession(sessionId: string): Promise<AcpSession> {
    const row = await this.deps.store.getAcpSession(sessionId);
    if (row === null) throw new NotFound(`ACP session ${sessionId}`);
    return row;
  }

  async requireRunner(sessionId: string): Promise<SessionRunner> {
    await this.startupDone.promise;
    const runner = await this.#resume(sessionId);
    if (runner !== null) return runner;
    const row = await this.requireSession(sessionId);
    const record = row.runId === null ? null : await this.deps.supervisor.getRun(row.runId);
    const gatewayInstanceId = record?.ownerInstanceId ?? row.gatewayInstanceId;
    const gateway = await this.deps.store.getGateway(gatewayInstanceId);
    throw new AcpNotHeld({ ...row, gatewayInstanceId }, { gateway });
  }

  /** Resumes every open session of this gateway. A session that cannot be resumed is reported, and counted in `left`. */
  async resumeAll(): Promise<{ readonly resumed: readonly SessionRunner[]; readonly left: number }> {
    const { store, supervisor, onProblem } = this.deps;
    const { instanceId: gatewayInstanceId } = supervisor;
    const resumed: SessionRunner[] = [];
    const open = await store.listAcpSessions({ open: true, gatewayInstanceId });
    for (const { sessionId } of open)
      try {
        const runner = await this.#resume(sessionId);
        if (runner !== null) resumed.push(runner);
      } catch (cause) {
        if (!this.#disposed) onProblem(`ACP session ${sessionId} could not be resumed`, cause);
      }
    return { resumed, left: open.length - resumed.length };
  }

  /** Null: the agent's process is alive, but another supervisor owns it. */
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
    const { supervisor, store } = this.deps;
    const row = await this.requireSession(sessionId);
    if (row.gatewayInstanceId !== supervisor.instanceId)
      throw new AcpNotHeld(row, { gateway: await store.getGateway(row.gatewayInstanceId) });
    if (row.state === "closed") throw new AcpSessionClosed(sessionId);
    const record = row.runId === null ? null : await supervisor.getRun(row.runId);
    const run = row.runId === null ? null : supervisor.run(row.runId);
    if (run === null && record !== null && record.state !== "exited") return null;
    const runner = await this.createRunner(row);
    try {
      await (run === null ? runner.agentGone() : runner.resume(run));
    } catch (error) {
      this.#runners.delete(sessionId);
      throw error;
    }
    return runner;
  }

  /**
   * Creates the runner of a session that `insert` stores. Requests for the session wait for it meanwhile, because they
   * would take it for one whose agent has ended. Null: the session exists already.
   */
  async createSession(
    sessionId: string,
    insert: () => Promise<AcpSession | null>,
  ): Promise<SessionRunner | null> {
    const creating = insert()
      .then((session) => (session === null ? null : this.createRunner(session)))
      .finally(() => this.#resuming.delete(sessionId));
    this.#resuming.set(sessionId, creating);
    return creating;
  }

  async createRunner(session: AcpSession): Promise<SessionRunner> {
    const { store, supervisor, sessions, onProblem } = this.deps;
    const { sessionId } = session;
    const row = await sessions.get(sessionId);
    if (row === null) throw new NotFound(`session ${sessionId}`);
    const clientAccess = recordedClientAccess(await store.listAcpUpdates({ sessionId, limit: 1 }));
    const existing = this.#runners.get(sessionId);
    if (existing !== undefined) return existing;
    if (this.#disposed)
      throw new SupervisorClosed(supervisor.instanceId, "its gateway is stopping; nothing was done");
    const { clock } = this;
    const onWritten = (id: string, change: AcpChange): void => {
      const { delivered } = change;
      this.updates.wake(id, change);
      if (delivered !== undefined) this.deps.onDelivered?.(id);
    };
    const remove = (): void => {
      if (this.#runners.get(sessionId) === runner) this.#runners.delete(sessionId);
    };
    const writer = new SessionWriter(session, { store, clock, onWritten, onProblem });
    const runner: SessionRunner = new SessionRunner({
      supervisor,
      store,
      clock,
      limits: this.limits,
      writer,
      messages: store,
      noOutputTimeoutMs: this.deps.agents.get(session.agent ?? "")?.acp?.noOutputTimeoutMs ?? null,
      sessions,
      startMessageTurn: this.deps.startMessageTurn ?? ((_message, _turnId, begin) => begin()),
      owner: { sessionKey: row.key, agentId: row.agentId },
      clientAccess,
      command: () => this.commands.forRestart(writer.row),
      bindToken: (command, runId) => this.commands.bindToken(command, runId),
      execRules: async () => (await sessions.get(sessionId))?.execRules ?? row.execRules,
      onClosing: (actor, reason) => sessions.recordClosing(sessionId, actor, reason),
      onClosed: async (actor, reason) => {
        this.commands.forget(sessionId);
        await sessions.close(sessionId, actor, reason);
        remove();
        this.updates.wake(sessionId);
      },
      ruleLayers: async () =>
        ruleLayers(
          await store.listRememberedRules({ appliesTo: { sessionId, agent: session.agent } }),
          configuredRules(this.deps.permissionRules ?? [], session.agent),
        ),
      onPermissionWaiting: this.deps.onPermissionWaiting ?? (() => undefined),
      onProblem,
      onDetached: remove,
    });
    this.#runners.set(sessionId, runner);
    return runner;
  }
}
