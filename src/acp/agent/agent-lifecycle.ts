import { AcpClosed, AcpNotRestartable, StdinClosed } from "../../errors.js";
import type { AcpTurn, StoredError } from "../../model/acp.js";
import type { AcpChange } from "../../store/acp/store.js";
import type { Run } from "../../supervisor/api.js";
import type { AdapterEnd } from "./adapter.js";
import { AgentProcess, type AgentProcessDeps } from "./agent-process.js";
import { removeAgentTmpdir } from "./agent-tmpdir.js";
import { toProblem } from "./exit-reason.js";

export interface AgentLifecycleDeps extends AgentProcessDeps {
  /** Its agent is another supervisor's now, or the next process's. */
  readonly onDetached: () => void;
  readonly onProblem: (message: string, cause: unknown) => void;
}

/** Where a session's agent process is, if there is one: it comes, it goes, and both are written down. */
export class AgentLifecycle {
  readonly #deps: AgentLifecycleDeps;
  readonly #exits = new WeakMap<AgentProcess, Promise<void>>();
  #agent: AgentProcess | null = null;
  #starting: Promise<AgentProcess> | null = null;
  #closed = false;
  #detached = false;
  /** The agent of the next turn knows nothing of those before. */
  contextLost = false;

  constructor(deps: AgentLifecycleDeps) {
    this.#deps = deps;
  }

  get agent(): AgentProcess | null {
    return this.#agent;
  }

  /** It was let go of, and lives on elsewhere. */
  get detached(): boolean {
    return this.#detached;
  }

  /** An agent that waits for a prompt, started if there is none. */
  async ensureStarted(): Promise<AgentProcess> {
    const agent = this.#agent;
    if (agent?.isUsable === true) return agent;
    this.#starting ??= this.#start(agent).finally(() => (this.#starting = null));
    return this.#starting;
  }

  /** The one that an earlier process has left. */
  async resume(run: Run, running: AcpTurn | null): Promise<AgentProcess> {
    const agent = new AgentProcess(this.#deps);
    await agent.resume(run, running);
    void this.#setAgent(agent);
    return agent;
  }

  /** Its agent ended while nobody listened: what it still said is heard, and its end written down. */
  async recordLost(): Promise<void> {
    const { writer, store } = this.#deps;
    const { sessionId, tmpdir, runId } = writer.row;
    this.#reportLeftoverTmpdir(tmpdir, await removeAgentTmpdir(tmpdir));
    const [running = null] = await store.listAcpTurns({ sessionId, states: ["running"] });
    const agent = new AgentProcess(this.#deps);
    await agent.readRemainingOutput(runId, running);
    const message = "the agent's process ended while no gateway was there";
    await this.#commitEnd(agent, { code: "ACP_CLOSED", message });
  }

  /** None is started from here on. Of one that is being started there is nothing to be kept. */
  async preventStart(): Promise<void> {
    this.#closed = true;
    if (this.#starting === null) return;
    this.#agent?.adapter.connection.close("closed", "its session is closed");
    await this.#starting.catch(() => undefined);
  }

  /** Resolves when its end is written down. */
  recordExit(agent: AgentProcess): Promise<void> {
    let exit = this.#exits.get(agent);
    if (exit === undefined) {
      exit = this.#awaitExit(agent);
      exit.catch(() => undefined);
      this.#exits.set(agent, exit);
    }
    return exit;
  }

  async #start(previous: AgentProcess | null): Promise<AgentProcess> {
    const { writer, clock } = this.#deps;
    if (previous !== null) {
      await previous.adapter.close("acp: another takes its place");
      await this.recordExit(previous);
    }
    const command = await this.#deps.command();
    if (command === null) throw new AcpNotRestartable(writer.row.sessionId);
    const agent = new AgentProcess(this.#deps);
    try {
      await agent.start(command);
      await this.#deps.bindToken?.(command, writer.row.runId);
    } catch (error) {
      await this.#deps.bindToken?.(command, null);
      const problem = toProblem(error);
      await writer.commit(() => ({
        session: { state: this.#stateUnlessClosing("down"), tmpdir: null, problem },
      }));
      throw error;
    }
    const gone = this.#setAgent(agent);
    if (this.#closed) agent.adapter.connection.close("closed", "its session is closed");
    try {
      const { contextLost } = await agent.openSession();
      const at = clock.wall();
      const lost = { turnId: null, at, type: "context-lost", data: {} } as const;
      await writer.commit(() => ({
        session: { state: this.#stateUnlessClosing("ready") },
        updates: contextLost ? [lost] : [],
      }));
      this.contextLost ||= contextLost;
      return agent;
    } catch (error) {
      await gone;
      throw preferExitReason(error, await agent.ended());
    }
  }

  #stateUnlessClosing<State extends "ready" | "down">(otherwise: State): State | "closing" {
    return this.#deps.writer.row.state === "closing" || this.#closed ? "closing" : otherwise;
  }

  #setAgent(agent: AgentProcess): Promise<void> {
    this.#agent = agent;
    return this.recordExit(agent);
  }

  async #awaitExit(agent: AgentProcess): Promise<void> {
    const end = await agent.ended();
    if (end !== null) {
      this.#reportLeftoverTmpdir(agent.adapter.tmpdir, end.leftover);
      const problem = toProblem(end.closed);
      return this.#commitEnd(agent, problem, end.closed.reason === "closed" ? null : problem);
    }
    this.#detached = true;
    this.#deps.onDetached();
  }

  #reportLeftoverTmpdir(path: string | null, why: unknown): void {
    if (why !== null)
      this.#deps.onProblem(`${path}, the TMPDIR of an agent that has ended, could not be removed`, why);
  }

  /** Of the turn, and of the session. */
  async #commitEnd(
    agent: AgentProcess,
    problem: StoredError,
    ofSession: StoredError | null = problem,
  ): Promise<void> {
    // Before it is written down: whoever finds it written need not look for them.
    await agent.terminals.stopAll("acp: its agent has ended");
    const { turn } = agent.recorder;
    const change = (): AcpChange => ({
      session: {
        state: this.#stateUnlessClosing("down"),
        tmpdir: null,
        sending: null,
        pending: [],
        problem: ofSession,
      },
      ...agent.permissionRequests.expireAllChange("the agent has ended"),
    });
    const outcome = turn === null || turn.cancel === null ? "interrupted" : "cancelled";
    if (turn === null || !(await agent.recorder.endTurn(turn, { outcome, problem }, change)))
      await this.#deps.writer.commit(change);
    agent.permissionRequests.clear();
    if (this.#agent === agent) this.#agent = null;
    turn?.audited.resolve();
  }
}

/** Where it ended by itself, that says more than what could not be asked any more. */
function preferExitReason(error: unknown, end: AdapterEnd | null): unknown {
  if (end === null || end.closed.reason === "closed") return error;
  const isWhy = error instanceof AcpClosed && error.reason === end.closed.reason;
  return isWhy || error instanceof StdinClosed ? end.closed : error;
}
