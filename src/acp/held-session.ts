import { defaults } from "../defaults.js";
import {
  AcpClosed,
  AcpNotRestartable,
  AcpTimeout,
  AcpQueueFull,
  AcpSessionClosed,
  HoldfastError,
  type AcpCloseReason,
} from "../errors.js";
import type { Survivor } from "../anchor/host.js";
import type { AcpTurn, KeptProblem, TurnAudit } from "../store/acp-record.js";
import type { AcpChange, AcpStore } from "../store/acp-store.js";
import type { Run, Supervisor } from "../supervisor/api.js";
import type { Clock } from "../supervisor/clock.js";
import { AgentProcess, removeTmpdir, type AgentCommand, type AgentOwner } from "./agent-process.js";
import { isOffered } from "./begin-session.js";
import type { RunningTurn } from "./exchange.js";
import { newTurnId } from "./ids.js";
import type { KeptSession } from "./kept-session.js";
import type { AcpLimits } from "./limits.js";
import { bornSince, endBornSince, whoLives } from "./turn-tree.js";
import { excerpt } from "./wire/excerpt.js";

export interface HeldParts {
  readonly supervisor: Supervisor;
  readonly store: AcpStore;
  readonly clock: Clock;
  readonly limits: AcpLimits;
  readonly kept: KeptSession;
  readonly owner: AgentOwner;
  /** How to start its agent now; null: that is not known any more. */
  readonly command: () => Promise<AgentCommand | null>;
  /** Closed for good: its tokens, its row. */
  readonly onClosed: (actor: string) => Promise<void>;
  /** Its agent is another supervisor's now, or the next process's. */
  readonly onLeft: () => void;
  readonly onProblem: (message: string, cause: unknown) => void;
}

export interface CancelRequest {
  readonly actor: string;
  readonly reapTools?: boolean;
  /** Left out: the one that runs, or else the next. */
  readonly turnId?: string;
}

export interface CloseRequest {
  readonly actor: string;
  /** Also what the agent keeps of it, where the agent offers that. */
  readonly discardPersistentState?: boolean;
}

export interface PromptRequest {
  readonly text: string;
  readonly askedBy: string;
  /** Left out: a new one. */
  readonly turnId?: string;
  /** The agent is ended when it has not answered by then. */
  readonly timeoutMs?: number;
}

/** A store that could not be read is asked again. */
const AGAIN_MS = 1_000;
/** Survivors of a KILL are no event of a run. */
const LOOK_MS = 500;

/** An ACP session that this gateway has: its queue of prompts, and the agent's process for as long as there is one. */
export class HeldSession {
  readonly #parts: HeldParts;
  #agent: AgentProcess | null = null;
  /** Deadlines of queued prompts. Kept in memory only: after a restart they have none. */
  readonly #timeouts = new Map<string, number>();
  #contextLost = false;
  #starting: Promise<AgentProcess> | null = null;
  #busy = false;
  #kicked = false;
  #closing: Promise<void> | null = null;
  #left = false;

  constructor(parts: HeldParts) {
    this.#parts = parts;
  }

  get kept(): KeptSession {
    return this.#parts.kept;
  }

  get run(): Run | null {
    return this.#agent?.run ?? null;
  }

  /** Of its agent's stderr, the newest, secrets hidden. */
  get stderr(): string {
    return this.#agent?.adapter.stderr.text ?? "";
  }

  /** Null: it has none now. */
  get questions() {
    return this.#agent?.questions ?? null;
  }

  /** There is an agent that waits for a prompt. */
  async up(): Promise<void> {
    this.#mustBeOpen();
    await this.#ready();
  }

  async prompt({ text, askedBy, turnId = newTurnId(), timeoutMs }: PromptRequest): Promise<string> {
    this.#mustBeOpen();
    const { store, kept, clock } = this.#parts;
    const { sessionId } = kept.row;
    const queued = await store.listAcpTurns({ sessionId, states: ["queued"], limit: defaults.acpQueued });
    if (queued.length >= defaults.acpQueued) throw new AcpQueueFull(sessionId, defaults.acpQueued);
    if (timeoutMs !== undefined) this.#timeouts.set(turnId, timeoutMs);
    const at = clock.wall();
    const data = { turnId, state: "queued", prompt: text, askedBy };
    const taken = await kept.commit(() =>
      kept.row.state === "closing"
        ? null
        : {
            newTurn: { turnId, prompt: text, askedBy, createdAt: at },
            updates: [{ turnId, at, type: "turn", data }],
          },
    );
    if (!taken) throw new AcpSessionClosed(sessionId);
    this.kick();
    return turnId;
  }

  /** See whether there is something to be done. */
  kick(): void {
    this.#kicked = true;
    if (!this.#busy) this.#occupy(() => this.#pump());
  }

  /** The turn, when it is over and what it left has been seen to; null: there is none to cancel. */
  async cancel(request: CancelRequest): Promise<string | null> {
    const running = this.#agent?.exchange.turn ?? null;
    const { turnId } = request;
    if (running !== null && running.requestId !== null && (turnId ?? running.turnId) === running.turnId) {
      await this.#cancelRunning(running, request);
      return running.turnId;
    }
    return this.#cancelQueued(request);
  }

  /**
   * Idempotent. Resolves when every process is proven to be gone; or with those that survive their KILL: then the
   * session stays `closing`, and is closed when they are gone.
   */
  async close(request: CloseRequest): Promise<readonly Survivor[]> {
    this.#closing ??= this.#close(request).catch((error: unknown) => {
      this.#closing = null;
      throw error;
    });
    this.#closing.catch(() => undefined);
    return Promise.race([this.#closing.then(() => []), this.#survivors()]);
  }

  /** Never resolves while none are known. */
  async #survivors(): Promise<readonly Survivor[]> {
    for (;;) {
      await this.#parts.clock.pause(LOOK_MS, this.#closing ?? undefined);
      const survivors = this.#agent?.run.survivors ?? [];
      if (survivors.length > 0) return survivors;
      if (this.#agent === null) return new Promise(() => undefined);
    }
  }

  /** An earlier process's agent, found alive. */
  async takeUp(run: Run): Promise<void> {
    const { store, kept, supervisor } = this.#parts;
    const { state, sessionId } = kept.row;
    if (state === "closing") {
      await this.close({ actor: "gateway restarted" });
      return;
    }
    if (state !== "ready") {
      // It was just being started: what it knows of us is not known.
      await supervisor.stop(run.runId, { actor: "acp: its start was interrupted" });
      return this.found();
    }
    const [running = null] = await store.listAcpTurns({ sessionId, states: ["running"] });
    const agent = new AgentProcess(this.#parts);
    await agent.resume(run, running);
    void this.#adopt(agent);
    this.#kicked = true;
    const turn = agent.exchange.turn;
    if (turn === null || turn.requestId === null) return this.#occupy(() => this.#auditLast(agent));
    const answer = agent.adapter.connection.answerTo(turn.requestId);
    this.#occupy(() => this.#goOn(agent, turn, answer));
  }

  /** No agent of it lives. */
  async found(): Promise<void> {
    const { kept, store } = this.#parts;
    const { state, sessionId, tmpdir } = kept.row;
    await removeTmpdir(tmpdir);
    if (state === "closing") {
      await this.close({ actor: "gateway restarted" });
      return;
    }
    const problem = { code: "ACP_CLOSED", message: "the agent's process ended while no gateway was there" };
    const running = await store.listAcpTurns({ sessionId, states: ["running"] });
    const open = await store.listAcpPermissions({ sessionId, answered: false });
    const at = this.#parts.clock.wall();
    const decision = { verdict: "expired", optionId: null, actor: "the agent has ended", at } as const;
    await kept.commit(() => ({
      session: { state: "down", tmpdir: null, sending: null, pending: [], problem },
      turns: running.map(({ turnId }) => ({
        turnId,
        from: "running",
        set: { state: "ended", endedAt: at, outcome: "interrupted", problem },
      })),
      updates: running.map(({ turnId }) => ({
        turnId,
        at,
        type: "turn",
        data: { turnId, state: "ended", outcome: "interrupted", problem },
      })),
      decide: open.filter((each) => each.decision === null).map(({ id }) => ({ id, decision })),
      answered: open.map(({ id }) => id),
    }));
    this.kick();
  }

  /** The next process goes on with it. */
  async leave(): Promise<void> {
    this.#left = true;
    this.#agent?.questions.forget();
    await this.#parts.kept.leave();
  }

  #mustBeOpen(): void {
    const { state, sessionId } = this.#parts.kept.row;
    if (this.#closing !== null || state === "closing" || state === "closed")
      throw new AcpSessionClosed(sessionId);
  }

  /** One thing at a time; then whatever has come meanwhile. */
  #occupy(work: () => Promise<void>): void {
    const { clock, onProblem } = this.#parts;
    this.#busy = true;
    work().then(
      () => {
        this.#busy = false;
        if (this.#kicked && !this.#left) this.kick();
      },
      (cause: unknown) => {
        if (this.#left) return;
        onProblem("the next prompt could not be looked for; trying again", cause);
        clock.after(AGAIN_MS, () => {
          this.#busy = false;
          this.kick();
        });
      },
    );
  }

  async #pump(): Promise<void> {
    const { store, kept } = this.#parts;
    const { sessionId, mode } = kept.row;
    this.#kicked = false;
    for (;;) {
      const [next] = await store.listAcpTurns({ sessionId, states: ["queued"], limit: 1 });
      if (next === undefined || this.#left || this.#closing !== null) break;
      await this.#take(next);
    }
    if (mode === "run" && !this.#left && this.#closing === null && (await this.#hasEnded()))
      void this.close({ actor: "acp: its one run is over" }).catch(() => undefined);
  }

  async #hasEnded(): Promise<boolean> {
    const { store, kept } = this.#parts;
    const [last] = await store.listAcpTurns({
      sessionId: kept.row.sessionId,
      newestFirst: true,
      limit: 1,
    });
    return last?.state === "ended";
  }

  /** One prompt, from its queue to its end. Never rejects. */
  async #take(turn: AcpTurn): Promise<void> {
    let agent: AgentProcess;
    try {
      agent = await this.#ready();
    } catch (error) {
      await this.#neverSent(turn, problemOf(error));
      return;
    }
    const before = await whoLives(agent.run).catch(() => null);
    const running = agent.exchange.begin(turn, before, this.#contextLost);
    const deadlineMs = this.#timeouts.get(turn.turnId) ?? null;
    this.#timeouts.delete(turn.turnId);
    const sessionId = this.#parts.kept.row.agentSessionId ?? "";
    const prompt = [{ type: "text" as const, text: turn.prompt }];
    const answer = agent.adapter.connection.request(
      "session/prompt",
      { sessionId, prompt },
      { deadlineMs, fatal: true },
    );
    await this.#goOn(agent, running, answer);
  }

  /** A turn until its end is kept. */
  async #goOn(agent: AgentProcess, turn: RunningTurn, answer: Promise<unknown>): Promise<void> {
    const { connection } = agent.adapter;
    using _watch = connection.watchTurn(this.#parts.limits.noFramesMs);
    try {
      await Promise.race([answer, turn.over.promise]);
    } catch (error) {
      // The end of the connection is the end of the process, and that is where it is written down.
      if (error instanceof AcpTimeout)
        await agent.exchange.end(turn, { outcome: "failed", problem: problemOf(error) });
      else if (!(error instanceof AcpClosed) && agent.run.state === "running" && !turn.ended)
        await this.#unsent(agent, turn, error);
      if (error instanceof AcpTimeout || error instanceof AcpClosed) await this.#gone(agent);
    }
    if (this.#left) return;
    if (turn.requestId !== null) this.#contextLost = false;
    await this.#audit(agent, turn);
    turn.audited.resolve();
  }

  async #unsent(agent: AgentProcess, turn: RunningTurn, error: unknown): Promise<void> {
    await agent.exchange.unsent(turn);
    if (!(await agent.exchange.end(turn, { outcome: "failed", problem: problemOf(error) })))
      agent.exchange.drop(turn);
  }

  async #neverSent({ turnId }: AcpTurn, problem: KeptProblem): Promise<void> {
    await this.#endQueued(turnId, "failed", problem);
  }

  async #endQueued(
    turnId: string,
    outcome: "failed" | "cancelled",
    problem: KeptProblem | null,
  ): Promise<boolean> {
    const { kept, clock } = this.#parts;
    const at = clock.wall();
    this.#timeouts.delete(turnId);
    return kept.commit(() => ({
      turns: [{ turnId, from: "queued", set: { state: "ended", endedAt: at, outcome, problem } }],
      updates: [{ turnId, at, type: "turn", data: { turnId, state: "ended", outcome, problem } }],
    }));
  }

  async #cancelQueued({ turnId }: CancelRequest): Promise<string | null> {
    const { store, kept } = this.#parts;
    const queued = await store.listAcpTurns({ sessionId: kept.row.sessionId, states: ["queued"] });
    const turn = turnId === undefined ? queued[0] : queued.find((each) => each.turnId === turnId);
    if (turn === undefined) return null;
    return (await this.#endQueued(turn.turnId, "cancelled", null)) ? turn.turnId : null;
  }

  async #cancelRunning(turn: RunningTurn, { actor, reapTools = false }: CancelRequest): Promise<void> {
    const { kept, clock, limits } = this.#parts;
    const agent = this.#agent;
    if (agent === null) return;
    const { turnId } = turn;
    const cancel = { actor, at: clock.wall(), reapTools: reapTools || turn.cancel?.reapTools === true };
    await kept.commit(
      () => (turn.ended ? null : { turns: [{ turnId, from: "running", set: { cancel } }] }),
      () => (turn.cancel = cancel),
    );
    // Some never return while a question of theirs is open.
    await agent.questions.cancelAll(actor);
    const sessionId = kept.row.agentSessionId ?? "";
    agent.adapter.connection.notify("session/cancel", { sessionId }).catch(() => undefined);
    await clock.pause(limits.cancelMs, turn.over.promise);
    if (!turn.ended) await agent.exchange.end(turn, { outcome: "cancel-unconfirmed" });
    await turn.audited.promise;
  }

  /** Born in the turn and alive: reported; ended where that was asked for, or is the session's policy. */
  async #audit(agent: AgentProcess, turn: Pick<RunningTurn, "turnId" | "before" | "cancel">): Promise<void> {
    const { kept, clock, limits } = this.#parts;
    const { turnId, before, cancel } = turn;
    if (before === null || agent.run.state !== "running") return;
    const { reap } = kept.row;
    const reaped = reap === "always" || (cancel !== null && (cancel.reapTools || reap === "cancel"));
    try {
      const left = await bornSince(agent.run, before);
      const survivors = reaped ? await endBornSince(agent.run, before, clock, limits.toolGraceMs) : left;
      const at = clock.wall();
      const audit: TurnAudit = { at, left, reaped, survivors };
      await kept.commit(() => ({
        turns: [{ turnId, from: "ended", set: { audit } }],
        updates: [{ turnId, at, type: "audit", data: audit }],
      }));
    } catch {
      // The agent has ended meanwhile, and everybody with it.
    }
  }

  /** The former process may have died before it had seen to what the last turn left. */
  async #auditLast(agent: AgentProcess): Promise<void> {
    const { store, kept } = this.#parts;
    const [last] = await store.listAcpTurns({ sessionId: kept.row.sessionId, newestFirst: true, limit: 1 });
    if (last?.state === "ended" && last.audit === null) await this.#audit(agent, last);
  }

  async #ready(): Promise<AgentProcess> {
    const agent = this.#agent;
    if (agent !== null && !agent.stuck && agent.run.state === "running") return agent;
    this.#starting ??= this.#start(agent).finally(() => (this.#starting = null));
    return this.#starting;
  }

  async #start(former: AgentProcess | null): Promise<AgentProcess> {
    const { kept, owner, clock } = this.#parts;
    if (former !== null) {
      await former.adapter.close("acp: it did not stop when it was told to");
      await this.#gone(former);
    }
    const command = await this.#parts.command();
    if (command === null) throw new AcpNotRestartable(kept.row.sessionId);
    const agent = new AgentProcess(this.#parts);
    try {
      await agent.start(command, owner);
    } catch (error) {
      const problem = problemOf(error);
      await kept.commit(() => ({ session: { state: "down", tmpdir: null, problem } }));
      throw error;
    }
    const gone = this.#adopt(agent);
    try {
      const { contextLost } = await agent.greet();
      const at = clock.wall();
      const lost = { turnId: null, at, type: "context-lost", data: {} } as const;
      await kept.commit(() => ({
        session: { state: this.#closing === null ? "ready" : "closing" },
        updates: contextLost ? [lost] : [],
      }));
      this.#contextLost ||= contextLost;
      return agent;
    } catch (error) {
      await gone;
      throw error;
    }
  }

  #adopt(agent: AgentProcess): Promise<void> {
    this.#agent = agent;
    return this.#gone(agent);
  }

  readonly #goings = new WeakMap<AgentProcess, Promise<void>>();

  /** Resolves when its end is written down. */
  #gone(agent: AgentProcess): Promise<void> {
    let going = this.#goings.get(agent);
    if (going === undefined) {
      going = this.#noteGone(agent);
      going.catch(() => undefined);
      this.#goings.set(agent, going);
    }
    return going;
  }

  async #noteGone(agent: AgentProcess): Promise<void> {
    const end = await agent.ended();
    if (end === null) {
      // Let go of: it lives on, under another supervisor or for the next.
      this.#left = true;
      this.#parts.onLeft();
      return;
    }
    const { kept } = this.#parts;
    const { turn } = agent.exchange;
    const problem = wayOut(end.closed, agent.adapter.stderr.text);
    const down = this.#closing === null && kept.row.state !== "closing";
    const change = (): AcpChange => ({
      session: {
        ...(down ? { state: "down" as const } : {}),
        tmpdir: null,
        sending: null,
        pending: [],
        problem: end.closed.reason === "closed" ? null : problem,
      },
      ...agent.questions.gone("the agent has ended"),
    });
    const outcome = turn?.cancel === null || turn === null ? "interrupted" : "cancelled";
    if (turn === null || !(await agent.exchange.end(turn, { outcome, problem }, change)))
      await kept.commit(change);
    agent.questions.forget();
    if (this.#agent === agent) this.#agent = null;
    turn?.audited.resolve();
  }

  async #close({ actor, discardPersistentState = false }: CloseRequest): Promise<void> {
    const { kept, store, supervisor, clock } = this.#parts;
    const { sessionId, runId } = kept.row;
    if (kept.row.state === "closed") return;
    await kept.commit(() => ({ session: { state: "closing" } }));
    while ((await this.#cancelQueued({ actor })) !== null);
    // Of one that is being started there is nothing to be kept.
    if (this.#starting !== null) this.#agent?.adapter.connection.close("closed", "its session is closed");
    await this.#starting?.catch(() => undefined);
    const running = this.#agent?.exchange.turn ?? null;
    if (running !== null && running.requestId !== null) await this.#cancelRunning(running, { actor });
    const agent = this.#agent;
    if (agent !== null) {
      await this.#sayGoodbye(agent, discardPersistentState);
      await agent.adapter.close(actor);
      await this.#gone(agent);
    } else if (runId !== null && (await store.getAcpSession(sessionId)) !== null) {
      await supervisor.stop(runId, { actor }).catch(() => undefined);
      await removeTmpdir(kept.row.tmpdir);
    }
    const at = clock.wall();
    await kept.commit(() => ({
      session: { state: "closed", closedAt: at, tmpdir: null, sending: null, pending: [] },
      updates: [{ turnId: null, at, type: "session", data: { state: "closed", actor } }],
    }));
    await this.#parts.onClosed(actor);
  }

  /** A courtesy, where it is offered; one that does not answer is ended all the same. */
  async #sayGoodbye(agent: AgentProcess, discard: boolean): Promise<void> {
    const { kept, limits } = this.#parts;
    const { agentSessionId, capabilities } = kept.row;
    const offers = (capabilities as { agentCapabilities?: Offers } | null)?.agentCapabilities;
    if (agentSessionId === null || agent.stuck) return;
    const { connection } = agent.adapter;
    const say = { sessionId: agentSessionId };
    const options = { deadlineMs: limits.closeMs };
    if (isOffered(offers?.sessionCapabilities?.close))
      await connection.request("session/close", say, options).catch(() => undefined);
    if (discard && isOffered(offers?.sessionCapabilities?.delete))
      await connection.request("session/delete", say, options).catch(() => undefined);
  }
}

interface Offers {
  readonly sessionCapabilities?: { readonly close?: object | null; readonly delete?: object | null } | null;
}

/** In a few words what a caller would have been told. */
function problemOf(error: unknown): KeptProblem {
  const message = error instanceof Error ? error.message : String(error);
  return { code: error instanceof HoldfastError ? error.code : "INTERNAL", message };
}

function wayOut(closed: AcpClosed, stderr: string): KeptProblem {
  const last = excerpt(stderr.trimEnd().split("\n").at(-1) ?? "");
  const spoke: readonly AcpCloseReason[] = ["ended", "protocol-error"];
  const words = last !== "" && spoke.includes(closed.reason) ? `; its last words: ${last}` : "";
  return { code: closed.code, message: `${closed.message}${words}` };
}
