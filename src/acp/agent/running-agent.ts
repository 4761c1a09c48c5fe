import type { Clock } from "../../async/clock.js";
import { grantsAnyAccess, toClientCapabilities } from "../../config/client-access.js";
import { AcpSessionClosed, StdinClosed } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import { packageVersion } from "../../home/package.js";
import type { AcpTurn } from "../../model/acp/session-and-turn.js";
import type { AcpPermissionRequest } from "../../model/acp/permission-request.js";
import { newRunId } from "../../model/ids.js";
import type { AgentSettings } from "../../model/acp/agent-settings.js";
import type { Survivor } from "../../model/process.js";
import { type ApprovalQuestion, questionAskedBeforeRestart } from "../../sessions/approval-question.js";
import type { AcpSessionPatch, AcpStore } from "../../store/acp/contract.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import { ACP_BACKEND } from "../../model/enums.js";
import { type AgentCommand, executedArgv } from "../agent-command.js";
import { ClientRequests } from "../client/client-requests.js";
import type { OperationDeps } from "../client/operations.js";
import { Terminals } from "../client/terminals.js";
import type { AcpLimits } from "../limits.js";
import { ELICITATION_KIND } from "../permissions/elicitation.js";
import { PermissionRequests } from "../permissions/permission-requests.js";
import type { RuleLayers } from "../permissions/rule-layers.js";
import { ReplayFilter } from "../turn/replay-filter.js";
import { toAuthRequired } from "../wire/auth-required.js";
import { AcpConnection } from "../wire/connection.js";
import { AgentRun, type AgentEnd, agentTmpdirPath, readOutputToEnd, startAgent } from "./agent-run.js";
import { applySettings, applyStoredSettings, type SettingsTarget } from "./apply-settings.js";
import { initialize, openAgentSession } from "./open-agent-session.js";
import { auditIfClean } from "./turn-process-audit.js";
import { ConversationRecorder } from "./conversation-recorder.js";

export interface RunningAgentDeps extends Omit<OperationDeps, "terminals"> {
  readonly supervisor: Supervisor;
  readonly store: AcpStore;
  readonly clock: Clock;
  readonly limits: AcpLimits;
  /** Rules for permission requests beside those of the session. */
  readonly ruleLayers: () => Promise<RuleLayers>;
  /** Called once for each permission request that waits for an operator. */
  readonly onPermissionWaiting: (permission: AcpPermissionRequest) => void;
  readonly onProblem: (message: string, cause: unknown) => void;
}

interface OpenedSession {
  /** True if the agent does not know the earlier turns. */
  readonly contextLost: boolean;
  /** Why stored settings could not be applied again. */
  readonly refusedSettings: readonly string[];
}

/** The process of an agent, its connection, and the requests and terminals that belong to it. */
export class RunningAgent {
  readonly #deps: RunningAgentDeps;
  readonly permissionRequests: PermissionRequests;
  readonly clientRequests: ClientRequests;
  readonly terminals: Terminals;
  readonly recorder: ConversationRecorder;
  /** Why the agent did not get ready; null: it did, or its session was closed before. */
  startError: unknown = null;
  #agentRun: AgentRun | null = null;
  #connection: AcpConnection | null = null;

  constructor(deps: RunningAgentDeps) {
    this.#deps = deps;
    const { writer, clock, limits, supervisor, onProblem } = deps;
    const connection = (): AcpConnection => this.#connection ?? this.agentRun.connection;
    const isAlive = (): boolean => this.#agentRun?.run.state === "running";
    this.terminals = new Terminals(supervisor, limits.graceMs);
    this.permissionRequests = new PermissionRequests({
      writer,
      clock,
      waitMs: limits.permissionMs,
      maxPerTurn: limits.permissionRequestsPerTurn,
      ruleLayers: deps.ruleLayers,
      connection,
      turn: () => this.#turnOfPermission(),
      executeDecided: (permission, decision) => this.clientRequests.onDecided(permission, decision),
      onWaiting: deps.onPermissionWaiting,
    });
    const { permissionRequests, terminals } = this;
    this.clientRequests = new ClientRequests({ ...deps, permissionRequests, terminals, connection, isAlive });
    this.recorder = new ConversationRecorder({
      writer,
      clock,
      permissionRequests,
      clientRequests: this.clientRequests,
      isAlive,
      isPermissionDenied: (turnId) => this.#isPermissionDenied(turnId),
      auditIfClean: async (turn) => (this.#agentRun === null ? null : auditIfClean(deps, this, turn)),
      stdinAccepted: () => this.#agentRun?.run.stdinAccepted ?? 0,
      onMalformed: (why, excerpt) =>
        onProblem(
          `the agent of ACP session ${writer.row.sessionId} wrote a line that is not a frame (${why}): ${excerpt}`,
          null,
        ),
    });
  }

  get agentRun(): AgentRun {
    if (this.#agentRun === null) throw new Error("the agent has not been started");
    return this.#agentRun;
  }

  get run(): Run {
    return this.agentRun.run;
  }

  /** Processes of the agent or its terminals that survived their KILL. */
  get survivors(): readonly Survivor[] {
    return [...this.run.survivors, ...this.terminals.survivors];
  }

  /** The agent never answered a cancelled prompt, so another prompt would meet the one before. */
  get isStuck(): boolean {
    return (
      this.recorder.turn === null &&
      this.agentRun.connection.state.pending.some(({ method }) => method === "session/prompt")
    );
  }

  /** True if a prompt would be written at once. */
  get isIdle(): boolean {
    return this.isUsable && this.recorder.turn === null && !this.agentRun.connection.isWriting;
  }

  /** True if the agent can take a prompt. */
  get isUsable(): boolean {
    return !this.isStuck && !this.agentRun.connection.isClosed && this.run.state === "running";
  }

  /** The whole question of a pending permission request. */
  async questionOf(permission: AcpPermissionRequest): Promise<ApprovalQuestion> {
    const known = this.permissionRequests.questionOf(permission.id);
    if (known !== null) return known;
    const question =
      this.permissionRequests.elicitations.questionOf(permission.id) ??
      (await this.clientRequests.questionOf(permission)) ??
      questionAskedBeforeRestart(permission.title ?? "");
    this.permissionRequests.setQuestion(permission.id, question);
    return question;
  }

  /** The run id is stored before the spawn, so the next gateway process finds the run, or that it was never created. */
  async start(command: AgentCommand): Promise<void> {
    const { supervisor, writer, limits, owner } = this.#deps;
    const { sessionKey, agentId } = owner;
    const { cwd, sessionId } = writer.row;
    const runId = newRunId();
    const session: AcpSessionPatch = {
      ...{ state: "starting", runId, tmpdir: agentTmpdirPath(runId), problem: null },
      ...{ end: 0, sending: null, pending: [] },
    };
    const mayStart = await writer.commit(() => (writer.row.state === "closing" ? null : { session }));
    if (!mayStart) throw new AcpSessionClosed(sessionId);
    const { env, inherit } = command;
    const { graceMs, ownExitMs } = limits;
    this.#agentRun = await startAgent(supervisor, {
      ...{ argv: executedArgv(command), env, inherit, cwd, runId, sessionId, sessionKey, graceMs, ownExitMs },
      // The operator wrote the catalogue, so its variables are trusted.
      allowEnv: Object.keys(env),
      ...(agentId === null ? {} : { agentId }),
      backendId: ACP_BACKEND,
      handlers: this.recorder,
    });
  }

  /**
   * Resolves when the agent is ready for a prompt. Closes the connection and rejects if that fails. `deadline`: on the
   * clock; null: only the limits of the requests.
   */
  async openSession(deadline: number | null): Promise<OpenedSession> {
    const { writer, clock, limits, clientAccess } = this.#deps;
    const { recorder } = this;
    const { connection } = this.agentRun;
    const { agentSessionId: previousSessionId, cwd, mcpServers, settings } = writer.row;
    const { resume, directories = [] } = settings ?? {};
    const within = (ms: number): number =>
      deadline === null ? ms : Math.max(0, Math.min(ms, deadline - clock.now()));
    try {
      const capabilities = await initialize(
        connection,
        { name: "holdfast", version: packageVersion() },
        { clientCapabilities: toClientCapabilities(clientAccess), deadlineMs: within(limits.initializeMs) },
      );
      const deadlineMs = within(limits.newSessionMs);
      const { contextLost } = await openAgentSession({
        ...{ connection, recorder, capabilities, cwd, mcpServers, deadlineMs },
        ...{ previousSessionId, resume, directories },
      });
      // The answers to session/resume and session/load do not contain the id.
      if (writer.row.agentSessionId === null && resume !== undefined)
        await writer.commit(() => ({ session: { agentSessionId: resume.sessionId } }));
      return {
        contextLost,
        refusedSettings: await applyStoredSettings(this.#settingsTarget, previousSessionId === null),
      };
    } catch (caught) {
      const error = toAuthRequired(caught, writer.row);
      // The agent has exited: its output may contain the reason, so it is read to the end.
      if (error instanceof StdinClosed) await clock.sleep(limits.ownExitMs, connection.closed);
      if (!connection.isClosed) this.startError = error;
      connection.close("closed", errorMessage(error));
      throw error;
    }
  }

  /** Applies settings to the agent's session. */
  applySettings(settings: AgentSettings): Promise<void> {
    return applySettings(this.#settingsTarget, settings);
  }

  get #settingsTarget(): SettingsTarget {
    const { writer, limits } = this.#deps;
    return { connection: this.agentRun.connection, writer, deadlineMs: limits.newSessionMs };
  }

  /** Continues with the agent of an earlier gateway process, from its stored state. */
  async resume(run: Run, running: AcpTurn | null): Promise<void> {
    const { writer, limits } = this.#deps;
    const { end, tmpdir: tmp } = writer.row;
    const { state, open } = await this.#restoreState(running);
    const deps = { handlers: this.recorder, ownExitMs: limits.ownExitMs };
    this.#agentRun = new AgentRun(run, tmp ?? "", deps, { state, startAt: end });
    this.#connection = this.#agentRun.connection;
    this.permissionRequests.restore(open);
    this.clientRequests.resume();
  }

  /** Stores the rest of the output of an agent that ended while no gateway ran. */
  async readRemainingOutput(runId: string | null, running: AcpTurn | null): Promise<void> {
    const { writer, supervisor } = this.#deps;
    const { state, open } = await this.#restoreState(running);
    this.permissionRequests.restoreUnanswerable(open);
    if (runId === null || (await supervisor.getRun(runId)) === null) return;
    this.#connection = new AcpConnection({
      source: () => readOutputToEnd(supervisor, runId, writer.row.end),
      startAt: writer.row.end,
      write: () => Promise.reject(new StdinClosed(runId, "it has ended")),
      ack: () => undefined,
      handlers: this.recorder,
      restored: { ...state, outgoing: null },
    });
    await this.#connection.closed;
  }

  async #restoreState(running: AcpTurn | null) {
    const { store, writer, clientAccess } = this.#deps;
    const { sessionId, agentSessionId, sending, pending, runId } = writer.row;
    const open = await store.listAcpPermissionRequests({ sessionId, answered: false });
    this.recorder.replayFilter = new ReplayFilter(agentSessionId ?? "");
    if (running !== null) {
      const updates = await store.listAcpUpdates({ sessionId, turnId: running.turnId, type: "update" });
      this.recorder.restoreTurn(running, updates);
    }
    if (grantsAnyAccess(clientAccess)) {
      const log = await store.listAcpUpdates({ sessionId, type: "client" });
      await this.clientRequests.restore(log, runId ?? "");
    }
    if (open.some(({ kind }) => kind === ELICITATION_KIND)) {
      const log = await store.listAcpUpdates({ sessionId, type: "elicitation" });
      this.permissionRequests.elicitations.restore(log, (id) => open.some((each) => each.id === id));
    }
    const { waiting } = this.clientRequests;
    const permissions = open.filter(({ rpcId }) => !waiting.some((each) => each.rpcId === rpcId));
    const openRequests = [
      ...permissions.map(({ rpcId }) => ({ id: rpcId, method: "session/request_permission" })),
      ...waiting.map(({ rpcId, method }) => ({ id: rpcId, method })),
    ];
    return { open, state: { pending, openRequests, outgoing: sending } };
  }

  /** Resolves when the processes are gone; null: the run was detached and continues elsewhere. */
  async ended(): Promise<AgentEnd | null> {
    return this.agentRun.ended.catch(() => null);
  }

  async #isPermissionDenied(turnId: string): Promise<boolean> {
    const { store, writer } = this.#deps;
    const asked = await store.listAcpPermissionRequests({ sessionId: writer.row.sessionId, pending: false });
    return asked.some((each) => each.turnId === turnId && each.decision?.verdict !== "allow");
  }

  #turnOfPermission() {
    const { turn } = this.recorder;
    if (turn === null) return null;
    return {
      turnId: turn.turnId,
      cancelled: turn.cancel !== null,
      tool: (id: string) => turn.summary.tool(id),
    };
  }
}
