import { CoalescedLookup } from "../async/concurrency.js";
import { BadInput, NotFound, RunNotFound } from "../errors.js";
import type { RunRecord } from "../model/run.js";
import type { SessionRecord, SessionScope, Visibility } from "../model/session.js";
import type { TaskRecord } from "../model/task.js";
import type { SessionFilter } from "../store/sessions/contract.js";
import type { Supervisor } from "../supervisor/api.js";
import type { Requester } from "./requester.js";
import type { Sessions } from "./sessions.js";
import type { VisibilityDecision } from "./visibility.js";

/** A denied request, for the operator's log. */
export interface AccessDenial {
  readonly actor: string;
  /** The requested name. */
  readonly what: string;
  readonly sessionId: string | null;
  readonly rule: Extract<VisibilityDecision, { readonly visible: false }>["rule"] | "of-no-session";
}

type AccessDecision =
  | { readonly visible: true }
  | { readonly visible: false; readonly rule: AccessDenial["rule"] };

type TaskSessions = "ownerSessionId" | "childSessionId";

const ALLOWED: AccessDecision = { visible: true };

/**
 * Decides what a requester may see and control. The operator may see everything; `canSeeSessionRow` decides for a session.
 * A forbidden object is answered like a missing one.
 */
export class Authorizer {
  readonly #sessions: Sessions;
  readonly #onDenied: (denial: AccessDenial) => void;
  readonly #openSessions: CoalescedLookup<SessionRecord | null>;

  constructor(sessions: Sessions, onDenied: (denial: AccessDenial) => void) {
    this.#sessions = sessions;
    this.#onDenied = onDenied;
    this.#openSessions = new CoalescedLookup((id) => this.#sessions.get(id));
  }

  /**
   * A session by its id, its key or an abbreviation (resolve-session.ts). `asked` limits the requester's visibility
   * further.
   */
  async requireSession(requester: Requester, wanted: string, asked?: Visibility): Promise<SessionRecord> {
    rejectVisibilityForOperator(requester, asked);
    const found = await this.#find(requester, wanted, asked);
    if (found !== null) return found;
    const hidden = await this.#sessions.find(wanted);
    const decision = hidden === null ? ALLOWED : this.#decide(requester, hidden, asked);
    if (hidden !== null && !decision.visible)
      this.#onDenied({ actor: requester.actor, what: wanted, sessionId: hidden.id, rule: decision.rule });
    throw NotFound.session(wanted);
  }

  /**
   * The same, but null for a missing or forbidden session, which is not reported. `abbreviated`: false for a whole id
   * or key only, true for an abbreviation only. Default: both.
   */
  findSession(requester: Requester, wanted: string, abbreviated?: boolean): Promise<SessionRecord | null> {
    return this.#find(requester, wanted, undefined, abbreviated);
  }

  async #find(
    requester: Requester,
    wanted: string,
    asked?: Visibility,
    abbreviated?: boolean,
  ): Promise<SessionRecord | null> {
    const lookup = {
      ownKey: requester.kind === "session" ? requester.session.key : null,
      scope: this.sessionScope(requester, asked),
      canSee: (row: SessionRecord) => this.#decide(requester, row, asked).visible,
    };
    const whole = abbreviated === true ? null : await this.#sessions.findByName(wanted, lookup);
    if (whole !== null || abbreviated === false) return whole;
    return this.#sessions.findByAbbreviation(wanted, lookup);
  }

  /** The visible sessions, newest first. */
  async listSessions(
    requester: Requester,
    { limit, ...filter }: SessionFilter & { readonly limit: number },
    asked?: Visibility,
  ): Promise<readonly SessionRecord[]> {
    rejectVisibilityForOperator(requester, asked);
    const scope = this.sessionScope(requester, asked);
    return this.#sessions.list({ ...filter, limit, ...(scope === null ? {} : { seenBy: scope }) });
  }

  /** The sessions that the requester may see, as a filter for the store. Null: all sessions. */
  sessionScope(requester: Requester, asked?: Visibility): SessionScope | null {
    return requester.kind === "operator" ? null : this.#sessions.visibleScope(requester.session, asked);
  }

  async requireRun(
    supervisor: Pick<Supervisor, "getRun">,
    requester: Requester,
    runId: string,
  ): Promise<RunRecord> {
    const record = await supervisor.getRun(runId);
    if (record === null) throw new RunNotFound(runId);
    const { sessionId } = record;
    const decision = await this.#decideForRuns(requester, sessionId);
    if (decision.visible) return record;
    this.#onDenied({ actor: requester.actor, what: runId, sessionId, rule: decision.rule });
    throw new RunNotFound(runId);
  }

  /** A run id for a filter; for a forbidden run, an id that matches nothing. */
  async maskRunId(
    supervisor: Pick<Supervisor, "getRun">,
    requester: Requester,
    runId: string,
  ): Promise<string> {
    const record = requester.kind === "operator" ? null : await supervisor.getRun(runId);
    if (record === null) return runId;
    return (await this.#decideForRuns(requester, record.sessionId)).visible ? runId : "";
  }

  /** Decides for runs of many sessions, once per session. `sessionId` null: a run without a session. */
  canSeeRunsOf(requester: Requester): (sessionId: string | null) => Promise<boolean> {
    const known = new Map<string | null, Promise<AccessDecision>>();
    return async (sessionId) => {
      const decision = known.get(sessionId) ?? this.#decideForRuns(requester, sessionId);
      known.set(sessionId, decision);
      return (await decision).visible;
    };
  }

  /** The same for tasks: visible with the session that requested the task or the session that does it. */
  canSeeTask(requester: Requester): (task: Pick<TaskRecord, TaskSessions>) => Promise<boolean> {
    const canSee = this.canSeeRunsOf(requester);
    return async ({ ownerSessionId, childSessionId }) =>
      (await canSee(ownerSessionId)) || canSee(childSessionId);
  }

  /** Filters the tasks that match a name. If none is visible, the denial is reported to the operator. */
  async filterVisibleTasks(
    requester: Requester,
    wanted: string,
    found: readonly TaskRecord[],
  ): Promise<readonly TaskRecord[]> {
    const sees = this.canSeeTask(requester);
    const seen: TaskRecord[] = [];
    for (const task of found) if (await sees(task)) seen.push(task);
    const [hidden] = found;
    if (seen.length > 0 || hidden === undefined) return seen;
    const sessionId = hidden.ownerSessionId ?? hidden.childSessionId;
    const decision = await this.#decideForRuns(requester, sessionId);
    if (!decision.visible)
      this.#onDenied({ actor: requester.actor, what: wanted, sessionId, rule: decision.rule });
    return [];
  }

  /**
   * True if the requester may still act: its session may be closed, or its token end, while a stream is open. Streams
   * share the lookup.
   */
  async isStillAuthorized(requester: Requester): Promise<boolean> {
    if (requester.kind === "operator" || requester.isTokenValid === undefined)
      return this.isSessionOpen(requester);
    return requester.isTokenValid();
  }

  /** True if the requester's session is still open. */
  async isSessionOpen(requester: Requester): Promise<boolean> {
    if (requester.kind === "operator") return true;
    return (await this.#openSessions.find(requester.session.id))?.closedAt === null;
  }

  async #decideForRuns(requester: Requester, sessionId: string | null): Promise<AccessDecision> {
    if (requester.kind === "operator") return ALLOWED;
    const row = sessionId === null ? null : await this.#sessions.get(sessionId);
    return row === null ? { visible: false, rule: "of-no-session" } : this.#decide(requester, row);
  }

  #decide(requester: Requester, row: SessionRecord, asked?: Visibility): AccessDecision {
    return requester.kind === "operator" ? ALLOWED : this.#sessions.canSee(requester.session, row, asked);
  }
}

/** The operator is no session, so it has no tree and no agent. */
function rejectVisibilityForOperator({ kind }: Requester, asked: Visibility | undefined): void {
  if (kind === "operator" && asked !== undefined && asked !== "all")
    throw new BadInput(
      "visibility",
      `visibility ${asked} is only for sessions; the operator sees everything. Nothing was done`,
    );
}
