import { AcpClosed, AcpNotRestartable, StdinClosed } from "../errors.js";
import type { AcpTurn, KeptProblem } from "../store/acp-record.js";
import type { AcpChange } from "../store/acp-store.js";
import type { Run } from "../supervisor/api.js";
import type { AdapterEnd } from "./adapter.js";
import { type AgentParts, AgentProcess } from "./agent-process.js";
import { removeTmpdir } from "./own-tmpdir.js";
import { problemOf } from "./problem.js";

export interface SeatParts extends AgentParts {
  /** Its agent is another supervisor's now, or the next process's. */
  readonly onLeft: () => void;
  readonly onProblem: (message: string, cause: unknown) => void;
}

/** Where a session's agent process is, if there is one: it comes, it goes, and both are written down. */
export class AgentSeat {
  readonly #parts: SeatParts;
  readonly #goings = new WeakMap<AgentProcess, Promise<void>>();
  #agent: AgentProcess | null = null;
  #starting: Promise<AgentProcess> | null = null;
  #closed = false;
  #left = false;
  /** The agent of the next turn knows nothing of those before. */
  contextLost = false;

  constructor(parts: SeatParts) {
    this.#parts = parts;
  }

  get agent(): AgentProcess | null {
    return this.#agent;
  }

  /** It was let go of, and lives on elsewhere. */
  get left(): boolean {
    return this.#left;
  }

  /** An agent that waits for a prompt, started if there is none. */
  async ready(): Promise<AgentProcess> {
    const agent = this.#agent;
    if (agent?.serves === true) return agent;
    this.#starting ??= this.#start(agent).finally(() => (this.#starting = null));
    return this.#starting;
  }

  /** The one that an earlier process has left. */
  async resume(run: Run, running: AcpTurn | null): Promise<AgentProcess> {
    const agent = new AgentProcess(this.#parts);
    await agent.resume(run, running);
    void this.#adopt(agent);
    return agent;
  }

  /** Its agent ended while nobody listened: what it still said is heard, and its end written down. */
  async lost(): Promise<void> {
    const { kept, store } = this.#parts;
    const { sessionId, tmpdir, runId } = kept.row;
    this.#tellLeftover(tmpdir, await removeTmpdir(tmpdir));
    const [running = null] = await store.listAcpTurns({ sessionId, states: ["running"] });
    const agent = new AgentProcess(this.#parts);
    await agent.hearOut(runId, running);
    const message = "the agent's process ended while no gateway was there";
    await this.#noteEnd(agent, { code: "ACP_CLOSED", message });
  }

  /** None is started from here on. Of one that is being started there is nothing to be kept. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#starting === null) return;
    this.#agent?.adapter.connection.close("closed", "its session is closed");
    await this.#starting.catch(() => undefined);
  }

  /** Resolves when its end is written down. */
  gone(agent: AgentProcess): Promise<void> {
    let going = this.#goings.get(agent);
    if (going === undefined) {
      going = this.#noteGone(agent);
      going.catch(() => undefined);
      this.#goings.set(agent, going);
    }
    return going;
  }

  async #start(former: AgentProcess | null): Promise<AgentProcess> {
    const { kept, clock } = this.#parts;
    if (former !== null) {
      await former.adapter.close("acp: another takes its place");
      await this.gone(former);
    }
    const command = await this.#parts.command();
    if (command === null) throw new AcpNotRestartable(kept.row.sessionId);
    const agent = new AgentProcess(this.#parts);
    try {
      await agent.start(command);
      await this.#parts.bindToken?.(command, kept.row.runId);
    } catch (error) {
      await this.#parts.bindToken?.(command, null);
      const problem = problemOf(error);
      await kept.commit(() => ({ session: { state: this.#state("down"), tmpdir: null, problem } }));
      throw error;
    }
    const gone = this.#adopt(agent);
    if (this.#closed) agent.adapter.connection.close("closed", "its session is closed");
    try {
      const { contextLost } = await agent.greet();
      const at = clock.wall();
      const lost = { turnId: null, at, type: "context-lost", data: {} } as const;
      await kept.commit(() => ({
        session: { state: this.#state("ready") },
        updates: contextLost ? [lost] : [],
      }));
      this.contextLost ||= contextLost;
      return agent;
    } catch (error) {
      await gone;
      throw asEnded(error, await agent.ended());
    }
  }

  #state<State extends "ready" | "down">(otherwise: State): State | "closing" {
    return this.#parts.kept.row.state === "closing" || this.#closed ? "closing" : otherwise;
  }

  #adopt(agent: AgentProcess): Promise<void> {
    this.#agent = agent;
    return this.gone(agent);
  }

  async #noteGone(agent: AgentProcess): Promise<void> {
    const end = await agent.ended();
    if (end !== null) {
      this.#tellLeftover(agent.adapter.tmpdir, end.leftover);
      const problem = problemOf(end.closed);
      return this.#noteEnd(agent, problem, end.closed.reason === "closed" ? null : problem);
    }
    this.#left = true;
    this.#parts.onLeft();
  }

  #tellLeftover(path: string | null, why: unknown): void {
    if (why !== null)
      this.#parts.onProblem(`${path}, the TMPDIR of an agent that has ended, could not be removed`, why);
  }

  /** Of the turn, and of the session. */
  async #noteEnd(
    agent: AgentProcess,
    problem: KeptProblem,
    ofSession: KeptProblem | null = problem,
  ): Promise<void> {
    // Before it is written down: whoever finds it written need not look for them.
    await agent.terminals.end("acp: its agent has ended");
    const { turn } = agent.exchange;
    const change = (): AcpChange => ({
      session: {
        state: this.#state("down"),
        tmpdir: null,
        sending: null,
        pending: [],
        problem: ofSession,
      },
      ...agent.questions.gone("the agent has ended"),
    });
    const outcome = turn === null || turn.cancel === null ? "interrupted" : "cancelled";
    if (turn === null || !(await agent.exchange.end(turn, { outcome, problem }, change)))
      await this.#parts.kept.commit(change);
    agent.questions.forget();
    if (this.#agent === agent) this.#agent = null;
    turn?.audited.resolve();
  }
}

/** Where it ended by itself, that says more than what could not be asked any more. */
function asEnded(error: unknown, end: AdapterEnd | null): unknown {
  if (end === null || end.closed.reason === "closed") return error;
  const isWhy = error instanceof AcpClosed && error.reason === end.closed.reason;
  return isWhy || error instanceof StdinClosed ? end.closed : error;
}
