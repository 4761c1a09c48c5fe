import { BadInput, NotFound, RunNotFound } from "../errors.js";
import type { VisibilityDecision } from "./visibility.js";
import type { Sessions } from "./sessions.js";
import { CoalescedLookup } from "../async/coalesced-lookup.js";
import type { RunRecord } from "../model/run.js";
import type { SessionRecord, Visibility, SessionScope } from "../model/session.js";
import type { SessionFilter } from "../store/sessions/store.js";
import type { TaskRecord } from "../model/task.js";
import type { Supervisor } from "../supervisor/api.js";
import type { Requester } from "./requester.js";

/** For the operator's eyes: who was not shown what, and by which rule. */
export interface AccessDenial {
  readonly actor: string;
  /** What was asked for, as it was named. */
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
 * Who may see, and steer, what: asked here for everything that is done on somebody's behalf. The operator sees
 * everything; a session what canSeeSessionRow says of its row and the other's. What may not be seen answers like what
 * is not there.
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

  /** A session by its id, or by the key that an open one has; of a session that asks, no more than it asks to see. */
  async requireSession(requester: Requester, wanted: string, asked?: Visibility): Promise<SessionRecord> {
    rejectVisibilityForOperator(requester, asked);
    const row = await this.#sessions.find(wanted);
    if (row === null) throw new NotFound(`session ${wanted}`);
    const decision = this.#decide(requester, row, asked);
    if (decision.visible) return row;
    this.#onDenied({ actor: requester.actor, what: wanted, sessionId: row.id, rule: decision.rule });
    throw new NotFound(`session ${wanted}`);
  }

  /** The same for whoever only passes it on: null, and no word to anybody, where it may not be seen or is not there. */
  async findSession(requester: Requester, wanted: string): Promise<SessionRecord | null> {
    const row = await this.#sessions.find(wanted);
    return row !== null && this.#decide(requester, row).visible ? row : null;
  }

  /** Those that may be seen, newest first. */
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

  /** A run that others are to be told by: of one that may not be seen, a name that nobody has. */
  async maskRunId(
    supervisor: Pick<Supervisor, "getRun">,
    requester: Requester,
    runId: string,
  ): Promise<string> {
    const record = requester.kind === "operator" ? null : await supervisor.getRun(runId);
    if (record === null) return runId;
    return (await this.#decideForRuns(requester, record.sessionId)).visible ? runId : "";
  }

  /** For one look at the runs of many sessions (null: of none): each is asked about once. */
  canSeeRunsOf(requester: Requester): (sessionId: string | null) => Promise<boolean> {
    const known = new Map<string | null, Promise<AccessDecision>>();
    return async (sessionId) => {
      const decision = known.get(sessionId) ?? this.#decideForRuns(requester, sessionId);
      known.set(sessionId, decision);
      return (await decision).visible;
    };
  }

  /** The same for tasks: whoever sees the session that asked for one, or the one that does it, sees it. */
  canSeeTask(requester: Requester): (task: Pick<TaskRecord, TaskSessions>) => Promise<boolean> {
    const sees = this.canSeeRunsOf(requester);
    return async ({ ownerSessionId, childSessionId }) => (await sees(ownerSessionId)) || sees(childSessionId);
  }

  /** Of the tasks that a name may mean, those that may be seen; that there are others is told to the operator alone. */
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
   * Whether the requester may still act: its session may be closed, or its token end, while a stream is open. Streams
   * share the lookup.
   */
  async isStillAuthorized(requester: Requester): Promise<boolean> {
    if (requester.kind === "operator" || requester.isTokenValid === undefined)
      return this.isSessionOpen(requester);
    return requester.isTokenValid();
  }

  /** Whether the requester's session is still open. */
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

/** The operator is no session, and has no tree or agent of its own. */
function rejectVisibilityForOperator({ kind }: Requester, asked: Visibility | undefined): void {
  if (kind === "operator" && asked !== undefined && asked !== "all")
    throw new BadInput(
      "visibility",
      `${asked} is about what a session sees; the operator sees everything. Nothing was done`,
    );
}
