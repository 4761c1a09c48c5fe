import { AcpClosed, type AcpCloseReason, AcpNotRestartable, AcpTimeout, StdinClosed } from "../../errors.js";
import type { AcpTurn, StoredError } from "../../model/acp/session-and-turn.js";
import type { RunExit } from "../../model/run.js";
import type { AcpChange } from "../../store/acp/contract.js";
import type { Run } from "../../supervisor/api.js";
import { type AgentEnd, removeAgentTmpdir } from "./agent-run.js";
import { RunningAgent, type RunningAgentDeps } from "./running-agent.js";
import { outcomeWithoutAnswer, toProblem } from "./agent-exit.js";

export interface AgentLifecycleDeps extends RunningAgentDeps {
  /** Called when another supervisor, or the next gateway process, has the agent. */
  readonly onDetached: () => void;
}

/** Starts, resumes and ends the agent process of a session, and records its end. */
export class AgentLifecycle {
  readonly #deps: AgentLifecycleDeps;
  readonly #exits = new WeakMap<RunningAgent, Promise<void>>();
  #agent: RunningAgent | null = null;
  #starting: Promise<RunningAgent> | null = null;
  #closed = false;
  #detached = false;
  /** The agent has lost the context of earlier turns. */
  contextLost = false;

  constructor(deps: AgentLifecycleDeps) {
    this.#deps = deps;
  }

  get agent(): RunningAgent | null {
    return this.#agent;
  }

  /** The agent continues under another supervisor. */
  get detached(): boolean {
    return this.#detached;
  }

  /** Returns an agent that is ready for a prompt; starts one if there is none. `timeoutMs`: the limit for its start; null: the default limits. */
  async ensureStarted(timeoutMs: number | null = null): Promise<RunningAgent> {
    // First: an agent that is being started is alive, and has no session yet.
    if (this.#starting !== null) return this.#startedWithin(this.#starting, timeoutMs);
    const agent = this.#agent;
    if (agent?.isUsable === true) return agent;
    this.#starting = this.#start(agent, timeoutMs).finally(() => (this.#starting = null));
    return this.#starting;
  }

  /** The start that another request began, which continues after the timeout. */
  async #startedWithin(starting: Promise<RunningAgent>, timeoutMs: number | null): Promise<RunningAgent> {
    if (timeoutMs === null) return starting;
    const late = this.#deps.clock.sleep(timeoutMs, starting).then(() => null);
    const agent = await Promise.race([starting, late]);
    if (agent === null) throw new AcpTimeout("session/new", timeoutMs);
    return agent;
  }

  /** Continues with the agent that an earlier gateway process started. */
  async resume(run: Run, running: AcpTurn | null): Promise<RunningAgent> {
    const agent = new RunningAgent(this.#deps);
    await agent.resume(run, running);
    void this.#setAgent(agent);
    return agent;
  }

  /** The agent ended while no gateway ran: reads its remaining output, and records its end. */
  async recordLost(): Promise<void> {
    const { writer, store, supervisor } = this.#deps;
    const { sessionId, tmpdir, runId } = writer.row;
    this.#reportLeftoverTmpdir(tmpdir, await removeAgentTmpdir(tmpdir));
    const [running = null] = await store.listAcpTurns({ sessionId, states: ["running"] });
    const agent = new RunningAgent(this.#deps);
    await agent.readRemainingOutput(runId, running);
    const message = "the agent's process ended while no gateway was running";
    const run = runId === null ? null : await supervisor.getRun(runId);
    await this.#commitEnd(agent, { code: "ACP_CLOSED", message }, { reason: null, exit: run?.exit ?? null });
  }

  /** Starts no more agents, and ends one that is being started. */
  async preventStart(): Promise<void> {
    this.#closed = true;
    if (this.#starting === null) return;
    this.#agent?.agentRun.connection.close("closed", "its session is closed");
    await this.#starting.catch(() => undefined);
  }

  /** Resolves when the agent's end is stored. */
  recordExit(agent: RunningAgent): Promise<void> {
    let exit = this.#exits.get(agent);
    if (exit === undefined) {
      exit = this.#awaitExit(agent);
      exit.catch(() => undefined);
      this.#exits.set(agent, exit);
    }
    return exit;
  }

  async #start(previous: RunningAgent | null, timeoutMs: number | null): Promise<RunningAgent> {
    const { writer, clock } = this.#deps;
    const deadline = timeoutMs === null ? null : clock.now() + timeoutMs;
    if (previous !== null) {
      await previous.agentRun.close("acp: replaced by a new agent");
      await this.recordExit(previous);
    }
    const command = await this.#deps.command();
    if (command === null) throw new AcpNotRestartable(writer.row.sessionId);
    const agent = new RunningAgent(this.#deps);
    try {
      await agent.start(command);
      await this.#deps.bindToken(command, writer.row.runId);
    } catch (error) {
      await this.#deps.bindToken(command, null);
      const problem = toProblem(error);
      await writer.commit(() => ({
        session: { state: this.#stateUnlessClosing("down"), tmpdir: null, problem },
      }));
      throw error;
    }
    const exit = this.#setAgent(agent);
    if (this.#closed) agent.agentRun.connection.close("closed", "its session is closed");
    try {
      const { contextLost, refusedSettings: refused } = await agent.openSession(deadline);
      const at = clock.wall();
      const lost = { turnId: null, at, type: "context-lost", data: {} } as const;
      const refusals = { turnId: null, at, type: "settings", data: { refused } } as const;
      await writer.commit(() => ({
        session: { state: this.#stateUnlessClosing("ready") },
        updates: [...(contextLost ? [lost] : []), ...(refused.length > 0 ? [refusals] : [])],
      }));
      this.contextLost ||= contextLost;
      return agent;
    } catch (error) {
      await exit;
      throw preferExitReason(error, await agent.ended());
    }
  }

  #stateUnlessClosing<State extends "ready" | "down">(otherwise: State): State | "closing" {
    return this.#deps.writer.row.state === "closing" || this.#closed ? "closing" : otherwise;
  }

  #setAgent(agent: RunningAgent): Promise<void> {
    this.#agent = agent;
    return this.recordExit(agent);
  }

  async #awaitExit(agent: RunningAgent): Promise<void> {
    const end = await agent.ended();
    if (end !== null) {
      this.#reportLeftoverTmpdir(agent.agentRun.tmpdir, end.leftover);
      const problem = toProblem(agent.startError ?? end.closed);
      const { reason } = end.closed;
      const how = { reason, exit: end.record.exit };
      // The agent of a session that is being closed ends by itself, or is stopped.
      const isExpected =
        reason === "closed" || (reason === "ended" && this.#deps.writer.row.state === "closing");
      return this.#commitEnd(agent, problem, how, isExpected && agent.startError === null ? null : problem);
    }
    this.#detached = true;
    this.#deps.onDetached();
  }

  #reportLeftoverTmpdir(path: string | null, why: unknown): void {
    if (why !== null)
      this.#deps.onProblem(`TMPDIR ${path} of an agent that has ended could not be removed`, why);
  }

  /** Records the agent's end in its turn and its session. */
  async #commitEnd(
    agent: RunningAgent,
    problem: StoredError,
    { reason, exit }: { readonly reason: AcpCloseReason | null; readonly exit: RunExit | null },
    sessionProblem: StoredError | null = problem,
  ): Promise<void> {
    // Before the end is stored, so that a stored end means that no terminal is left.
    await agent.terminals.stopAll("acp: its agent has ended");
    const { turn } = agent.recorder;
    const change = (): AcpChange => ({
      session: {
        state: this.#stateUnlessClosing("down"),
        tmpdir: null,
        sending: null,
        pending: [],
        problem: sessionProblem,
      },
      ...agent.permissionRequests.expireAllChange("the agent has ended"),
    });
    const isCancelled = turn !== null && turn.cancel !== null;
    const outcome = outcomeWithoutAnswer(isCancelled, reason, exit);
    if (turn === null || !(await agent.recorder.endTurn(turn, { outcome, problem }, change)))
      await this.#deps.writer.commit(change);
    agent.permissionRequests.clear();
    if (this.#agent === agent) this.#agent = null;
    turn?.audited.resolve();
  }
}

/** The reason why the agent exited by itself says more than the failed request. */
function preferExitReason(error: unknown, end: AgentEnd | null): unknown {
  if (end === null || end.closed.reason === "closed") return error;
  const isSameReason = error instanceof AcpClosed && error.reason === end.closed.reason;
  return isSameReason || error instanceof StdinClosed ? end.closed : error;
}
