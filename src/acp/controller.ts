import { resolve } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { Survivor } from "../anchor/host.js";
import type { AgentEntry } from "../agents/entry.js";
import { defaults } from "../defaults.js";
import { AcpNotHeld, AcpSessionClosed, NotFound, SessionTaken, SupervisorClosed } from "../errors.js";
import { mustAnswer, type Question } from "../sessions/question.js";
import type { SessionOptions, Sessions } from "../sessions/sessions.js";
import type {
  AcpMode,
  AcpPermission,
  AcpSession,
  AcpTurn,
  PermissionRule,
  ReapPolicy,
} from "../store/acp-record.js";
import type { AcpChange, AcpStore } from "../store/acp-store.js";
import type { GatewayStore } from "../store/gateway-store.js";
import type { MessageStore } from "../store/message-store.js";
import { OPEN_STATES } from "../store/run-record.js";
import type { SessionRow } from "../store/session-record.js";
import type { ReadStore } from "../store/store.js";
import type { Run, Supervisor } from "../supervisor/api.js";
import type { Clock } from "../supervisor/clock.js";
import { deferred } from "../supervisor/deferred.js";
import { displayCommand } from "../supervisor/redact.js";
import { AgentCommands, keptArgv, type AskedCommand } from "./agent-commands.js";
import { ACP_BACKEND, executedArgv, type AgentCommand } from "./agent-process.js";
import { type AskedOffer, offerFrom, offerNews, offerOf, offersAnything } from "./client/offer.js";
import { AGENT_LABEL, TERMINAL_BACKEND } from "./client/terminals.js";
import { HeldSession, type CancelRequest, type CloseRequest, type HeldParts } from "./held-session.js";
import type { PromptRequest } from "./prompt-queue.js";
import { KeptSession } from "./kept-session.js";
import { acpLimits, type AcpLimits } from "./limits.js";
import { ownedTree, type OwnedTree } from "./owned-tree.js";
import { UpdateTail } from "./update-tail.js";
import { closedAsLost } from "./lost-session.js";
import { hostClock } from "./wire/host-clock.js";

export interface AcpControllerParts {
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
  readonly waking?: HeldParts["waking"];
}

export interface EnsureRequest extends AskedCommand {
  readonly key: string;
  readonly cwd: string;
  readonly mode?: AcpMode;
  readonly rules?: readonly PermissionRule[];
  readonly reap?: ReapPolicy;
  /** Beside what the catalogue says of the agent. */
  readonly client?: AskedOffer | undefined;
  /** The session on whose behalf: the new one is its child. */
  readonly requester?: SessionRow | null;
  readonly session?: SessionOptions;
}

export interface Ensured {
  readonly row: SessionRow;
  readonly session: AcpSession;
  readonly created: boolean;
}

export interface Closed {
  readonly session: AcpSession;
  readonly survivors: readonly Survivor[];
}

export interface StartupOrphans {
  /** Sessions whose agents go on. */
  readonly resumed: number;
  /** Sessions whose agents had ended. */
  readonly down: number;
  /** Agents of no open session, which were ended. */
  readonly reaped: number;
}

/** Reads and searches are let through, everything else is asked about. */
export const DEFAULT_RULES: readonly PermissionRule[] = [
  { effect: "allow", kind: "read" },
  { effect: "allow", kind: "search" },
  { effect: "ask" },
];

/** One owner of the life of every ACP session of a gateway. */
export class AcpController implements AsyncDisposable {
  readonly tail: UpdateTail;
  readonly commands: AgentCommands;
  readonly #parts: AcpControllerParts;
  readonly #clock: Clock = hostClock;
  readonly #limits: AcpLimits;
  readonly #held = new Map<string, HeldSession>();
  readonly #ensuring = new Map<string, Promise<void>>();
  readonly #arriving = new Map<string, Promise<HeldSession | null>>();
  readonly #begun = deferred<void>();
  #left = false;

  constructor(parts: AcpControllerParts) {
    this.#parts = parts;
    this.commands = new AgentCommands(parts.agents, parts.sessions, parts.passEnv ?? []);
    this.#limits = { ...acpLimits, ...parts.limits };
    this.tail = new UpdateTail(parts.store, (sessionId) => this.#held.has(sessionId));
  }

  /**
   * Once, when the runs that a former process left have been looked at: its sessions go on here; agents that belong to
   * no open session are ended. Everything else waits for it.
   */
  async reapStartupOrphans(): Promise<StartupOrphans> {
    const { supervisor } = this.#parts;
    const { instanceId: gatewayInstanceId } = supervisor;
    const counts = { resumed: 0, down: 0, reaped: 0 };
    try {
      for (const held of await this.#arriveAll())
        counts[held.kept.row.state === "ready" ? "resumed" : "down"]++;
    } finally {
      this.#begun.resolve();
    }
    const runs = await supervisor.listRuns({ ownerInstanceId: gatewayInstanceId, states: OPEN_STATES });
    for (const { runId, backendId, labels } of runs) {
      const agentRunId = backendId === TERMINAL_BACKEND ? (labels[AGENT_LABEL] ?? "") : runId;
      if (backendId !== ACP_BACKEND && agentRunId === runId) continue;
      if (await this.#belongs(agentRunId)) continue;
      await supervisor.stop(runId, { actor: "acp: its session is closed" });
      counts.reaped++;
    }
    return counts;
  }

  /** Runs that this supervisor has got since, and sessions of this gateway whose agents have ended since. */
  async takeUp(runs: readonly Run[]): Promise<void> {
    const { store, supervisor } = this.#parts;
    const session = { gatewayInstanceId: supervisor.instanceId };
    for (const { runId } of runs) {
      const [row] = await store.listAcpSessions({ runId, open: true, limit: 1 });
      // Who has the agent's process has the session.
      if (row !== undefined && row.gatewayInstanceId !== supervisor.instanceId)
        await store.commitAcp(row.sessionId, row.gatewayInstanceId, { session });
    }
    await this.#arriveAll();
  }

  /** The open session of that key, with an agent that waits for a prompt; made if there is none. */
  async ensureSession(request: EnsureRequest): Promise<Ensured> {
    await this.#begun.promise;
    // Who asks for the same at the same time gets the same.
    const before = this.#ensuring.get(request.key) ?? Promise.resolve();
    const ensured = before.then(() => this.#ensure(request));
    const done = ensured.then(
      () => undefined,
      () => undefined,
    );
    this.#ensuring.set(request.key, done);
    try {
      return await ensured;
    } finally {
      if (this.#ensuring.get(request.key) === done) this.#ensuring.delete(request.key);
    }
  }

  async #ensure(request: EnsureRequest): Promise<Ensured> {
    const command = this.commands.asked(request);
    const { store, sessions, supervisor } = this.#parts;
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
    if (known !== null) return this.#again(row, known, command, request);
    const at = this.#clock.wall();
    const session: AcpSession = {
      sessionId: row.id,
      gatewayInstanceId: supervisor.instanceId,
      agent,
      argv: keptArgv(executedArgv(command), requester === null),
      command: displayCommand(command.argv),
      cwd: resolve(request.cwd),
      mode,
      rules: request.rules ?? DEFAULT_RULES,
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
      return this.#again(row, await this.#get(row.id), command, request);
    this.commands.remember(row.id, command);
    const held = await this.#hold(await this.#offering(session, request));
    try {
      await held.up();
    } catch (error) {
      // Nobody could use it.
      await held.close({ actor: "acp: its agent did not start" }).catch(() => undefined);
      throw error;
    }
    return { row, session: held.kept.row, created: true };
  }

  /** Said before anything else: so it is found again. */
  async #offering(session: AcpSession, { agent, client }: EnsureRequest): Promise<AcpSession> {
    const offer = offerFrom(this.#parts.agents.get(agent ?? "")?.acp?.client, client);
    if (!offersAnything(offer)) return session;
    const { sessionId, gatewayInstanceId } = session;
    const updates = [offerNews(offer, this.#clock.wall())];
    await this.#parts.store.commitAcp(sessionId, gatewayInstanceId, { updates });
    return this.#get(sessionId);
  }

  /** Queued: one is in flight at a time. Resolves when it is kept, not when it has ended. */
  async prompt(sessionId: string, request: PromptRequest): Promise<AcpTurn> {
    const turnId = await (await this.#holding(sessionId)).prompt(request);
    return this.#turn(turnId);
  }

  /** A message has begun to wait for it. */
  heard(sessionId: string): void {
    this.#held.get(sessionId)?.kick();
  }

  /** Look for messages that other gateways have taken in. */
  look(): void {
    for (const held of this.#held.values()) held.kick();
  }

  /** Null: there was none. A turn's cancel is no reap: the agent stays. */
  async cancelTurn(sessionId: string, request: CancelRequest): Promise<AcpTurn | null> {
    const turnId = await (await this.#holding(sessionId)).cancel(request);
    return turnId === null ? null : this.#turn(turnId);
  }

  /**
   * Until every process of it is proven to be gone, or is known to survive its KILL. One of another gateway is not
   * touched; one that is lost is closed on record only.
   */
  async closeSession(sessionId: string, request: CloseRequest): Promise<Closed> {
    await this.#begun.promise;
    const row = await this.#get(sessionId);
    if (row.state === "closed") return { session: row, survivors: [] };
    if (await this.isLost(row)) return { session: await this.#closeLost(row, request.actor), survivors: [] };
    const held = await this.#holding(sessionId);
    const survivors = await held.close(request);
    return { session: held.kept.row, survivors };
  }

  /** It is another gateway's, which is gone, and its agent's run has ended on record, by itself or on an operator's word. */
  async isLost({ gatewayInstanceId, runId }: AcpSession): Promise<boolean> {
    const { store, supervisor } = this.#parts;
    if (gatewayInstanceId === supervisor.instanceId) return false;
    const run = runId === null ? null : await supervisor.getRun(runId);
    if (run !== null && run.state !== "exited") return false;
    const gateway = await store.getGateway(gatewayInstanceId);
    if (gateway === null || gateway.stoppedAt !== null) return true;
    return (await store.now()) - gateway.heartbeatAt > defaults.leaseMs;
  }

  async #closeLost(row: AcpSession, actor: string): Promise<AcpSession> {
    const { store, supervisor, sessions } = this.#parts;
    const { sessionId } = row;
    const by = { gatewayInstanceId: supervisor.instanceId, actor, at: this.#clock.wall() };
    const change = await closedAsLost(store, row, by);
    const written = await store.commitAcp(sessionId, row.gatewayInstanceId, change);
    if (written !== null) await sessions.close(sessionId, actor);
    const now = await this.#get(sessionId);
    if (now.state !== "closed") throw new AcpNotHeld(now);
    this.tail.wake(sessionId);
    return now;
  }

  async verifyOwnedTree(sessionId: string): Promise<OwnedTree> {
    const { runId } = await this.#get(sessionId);
    return ownedTree(this.#parts.supervisor, runId);
  }

  /** Of a session's agent, if one runs here. */
  stderrOf(sessionId: string): string {
    return this.#held.get(sessionId)?.stderr ?? "";
  }

  /** What its agent is at in that turn, in a few words; empty: it has not said, or it is not at it here. */
  doingOf(sessionId: string, turnId: string): string {
    return this.#held.get(sessionId)?.doing(turnId) ?? "";
  }

  /** Whether the run is the agent of a session that is held here, or belongs to one. */
  holds(runId: string): boolean {
    return [...this.#held.values()].some((held) => held.holds(runId));
  }

  /** Resolves when no turn runs and none waits, or when `enough` aborts. */
  async quiet(enough: AbortSignal): Promise<void> {
    const states = ["queued", "running"] as const;
    for (const sessionId of this.#held.keys())
      await this.tail.until(
        sessionId,
        async () =>
          (await this.#parts.store.listAcpTurns({ sessionId, states, limit: 1 })).length === 0 || null,
        enough,
      );
  }

  /** The whole of a waiting question. Null: it does not wait at this gateway. */
  async questionOf(permission: AcpPermission): Promise<Question | null> {
    return (await this.#held.get(permission.sessionId)?.questionOf(permission)) ?? null;
  }

  /** Null: no such question. Not decided: it was answered before, or its agent no longer waits. `digest`: of the question that was shown. */
  async answerPermission(
    id: string,
    verdict: "allow" | "deny",
    actor: string,
    digest?: string,
  ): Promise<{ readonly permission: AcpPermission; readonly decided: boolean } | null> {
    await this.#begun.promise;
    const { store } = this.#parts;
    const asked = await store.getAcpPermission(id);
    if (asked === null) return null;
    const question = await this.questionOf(asked);
    if (question !== null) mustAnswer(question, verdict, digest, `holdfast acp permissions show ${id}`);
    const questions = this.#held.get(asked.sessionId)?.questions;
    const decided = (await questions?.decide(id, verdict, actor)) ?? false;
    return { permission: (await store.getAcpPermission(id)) ?? asked, decided };
  }

  /** Left to the next process, as they are. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#left = true;
    await Promise.all([...this.#held.values()].map((held) => held.leave()));
    this.tail.end();
    // So that they can still say so to whoever listens.
    await setImmediate();
  }

  async #turn(turnId: string): Promise<AcpTurn> {
    const turn = await this.#parts.store.getAcpTurn(turnId);
    if (turn === null) throw new NotFound(`turn ${turnId}`);
    return turn;
  }

  async #get(sessionId: string): Promise<AcpSession> {
    const row = await this.#parts.store.getAcpSession(sessionId);
    if (row === null) throw new NotFound(`ACP session ${sessionId}`);
    return row;
  }

  async #holding(sessionId: string): Promise<HeldSession> {
    await this.#begun.promise;
    const held = await this.#arrive(sessionId);
    if (held !== null) return held;
    const row = await this.#get(sessionId);
    const record = row.runId === null ? null : await this.#parts.supervisor.getRun(row.runId);
    const gatewayInstanceId = record?.ownerInstanceId ?? row.gatewayInstanceId;
    const gateway = await this.#parts.store.getGateway(gatewayInstanceId);
    throw new AcpNotHeld({ ...row, gatewayInstanceId }, { gateway });
  }

  /** Every open session of this gateway's; those that cannot be taken up are told of. */
  async #arriveAll(): Promise<readonly HeldSession[]> {
    const { store, supervisor, onProblem } = this.#parts;
    const { instanceId: gatewayInstanceId } = supervisor;
    const arrived = [];
    for (const { sessionId } of await store.listAcpSessions({ open: true, gatewayInstanceId }))
      try {
        const held = await this.#arrive(sessionId);
        if (held !== null) arrived.push(held);
      } catch (cause) {
        if (!this.#left) onProblem(`the ACP session ${sessionId} could not be taken up`, cause);
      }
    return arrived;
  }

  /** One that is held, once it is as it was found. Null: its agent's process lives, and not here. */
  #arrive(sessionId: string): Promise<HeldSession | null> {
    const arriving = this.#arriving.get(sessionId);
    if (arriving !== undefined) return arriving;
    const held = this.#held.get(sessionId);
    if (held !== undefined) return Promise.resolve(held);
    const found = this.#find(sessionId).finally(() => this.#arriving.delete(sessionId));
    this.#arriving.set(sessionId, found);
    return found;
  }

  async #find(sessionId: string): Promise<HeldSession | null> {
    const { supervisor } = this.#parts;
    const row = await this.#get(sessionId);
    if (row.gatewayInstanceId !== supervisor.instanceId)
      throw new AcpNotHeld(row, { gateway: await this.#parts.store.getGateway(row.gatewayInstanceId) });
    if (row.state === "closed") throw new AcpSessionClosed(sessionId);
    const record = row.runId === null ? null : await supervisor.getRun(row.runId);
    const run = row.runId === null ? null : supervisor.run(row.runId);
    if (run === null && record !== null && record.state !== "exited") return null;
    const held = await this.#hold(row);
    try {
      await (run === null ? held.found() : held.takeUp(run));
    } catch (error) {
      this.#held.delete(sessionId);
      throw error;
    }
    return held;
  }

  async #hold(session: AcpSession): Promise<HeldSession> {
    const { store, supervisor, sessions, onProblem } = this.#parts;
    const { sessionId } = session;
    const row = await sessions.get(sessionId);
    if (row === null) throw new NotFound(`session ${sessionId}`);
    const offer = offerOf(await store.listAcpUpdates({ sessionId, limit: 1 }));
    const already = this.#held.get(sessionId);
    if (already !== undefined) return already;
    if (this.#left) throw new SupervisorClosed(supervisor.instanceId, "its gateway stops; nothing was done");
    const clock = this.#clock;
    const onWritten = (id: string, { delivered }: AcpChange): void => {
      this.tail.wake(id);
      if (delivered !== undefined) this.#parts.onDelivered?.(id);
    };
    const kept = new KeptSession(session, { store, clock, onWritten, onProblem });
    const held: HeldSession = new HeldSession({
      supervisor,
      store,
      clock,
      limits: this.#limits,
      kept,
      messages: store,
      sessions,
      waking: this.#parts.waking ?? ((_message, _turnId, begin) => begin()),
      owner: { sessionKey: row.key, agentId: row.agentId },
      offer,
      command: () => this.commands.again(kept.row),
      bindToken: (command, runId) => this.commands.bindToken(command, runId),
      execRules: async () => (await sessions.get(sessionId))?.execRules ?? row.execRules,
      onClosed: async (actor) => {
        this.commands.forget(sessionId);
        await sessions.close(sessionId, actor);
        if (this.#held.get(sessionId) === held) this.#held.delete(sessionId);
        this.tail.wake(sessionId);
      },
      onProblem,
      onLeft: () => {
        if (this.#held.get(sessionId) === held) this.#held.delete(sessionId);
      },
    });
    this.#held.set(sessionId, held);
    return held;
  }

  async #belongs(runId: string): Promise<boolean> {
    const [row] = await this.#parts.store.listAcpSessions({ runId, open: true, limit: 1 });
    return row !== undefined && row.state !== "down";
  }

  async #again(
    row: SessionRow,
    known: AcpSession,
    command: AgentCommand,
    { rules = known.rules }: EnsureRequest,
  ): Promise<Ensured> {
    if (known.command !== displayCommand(command.argv))
      throw new SessionTaken(row.key, `its agent is another: ${known.command}`);
    if (JSON.stringify(known.rules) !== JSON.stringify(rules))
      throw new SessionTaken(row.key, "an open session has it, with other permissions");
    const held = await this.#holding(row.id);
    this.commands.remember(row.id, command);
    await held.up();
    return { row, session: held.kept.row, created: false };
  }
}
