import { BadInput, NotFound, RunNotFound } from "../errors.js";
import type { Sight } from "../sessions/can-see.js";
import type { Sessions } from "../sessions/sessions.js";
import { SharedLookups } from "../sessions/shared-lookups.js";
import type { RunRecord } from "../store/run-record.js";
import type { SessionRow, Visibility } from "../store/session-record.js";
import type { SessionFilter, SessionScope } from "../store/session-store.js";
import type { TaskRecord } from "../store/task-record.js";
import type { Supervisor } from "../supervisor/api.js";
import type { Requester } from "./server/requester.js";

/** For the operator's eyes: who was not shown what, and by which rule. */
export interface Denial {
  readonly actor: string;
  /** What was asked for, as it was named. */
  readonly what: string;
  readonly sessionId: string | null;
  readonly rule: Extract<Sight, { readonly visible: false }>["rule"] | "of-no-session";
}

type Ruling = { readonly visible: true } | { readonly visible: false; readonly rule: Denial["rule"] };

type TaskSessions = "ownerSessionId" | "childSessionId";

const SEEN: Ruling = { visible: true };

/**
 * Who may see, and steer, what: asked here for everything that is done on somebody's behalf. The operator sees
 * everything; a session what canSeeSessionRow says of its row and the other's. What may not be seen answers like what
 * is not there.
 */
export class Sights {
  readonly #sessions: Sessions;
  readonly #denied: (denial: Denial) => void;
  readonly #acting: SharedLookups<SessionRow | null>;

  constructor(sessions: Sessions, denied: (denial: Denial) => void) {
    this.#sessions = sessions;
    this.#denied = denied;
    this.#acting = new SharedLookups((id) => this.#sessions.get(id));
  }

  /** A session by its id, or by the key that an open one has; of a session that asks, no more than it asks to see. */
  async session(requester: Requester, wanted: string, asked?: Visibility): Promise<SessionRow> {
    mustBeMeant(requester, asked);
    const row = await this.#sessions.find(wanted);
    if (row === null) throw new NotFound(`session ${wanted}`);
    const ruling = this.#ruling(requester, row, asked);
    if (ruling.visible) return row;
    this.#denied({ actor: requester.actor, what: wanted, sessionId: row.id, rule: ruling.rule });
    throw new NotFound(`session ${wanted}`);
  }

  /** The same for whoever only passes it on: null, and no word to anybody, where it may not be seen or is not there. */
  async perhaps(requester: Requester, wanted: string): Promise<SessionRow | null> {
    const row = await this.#sessions.find(wanted);
    return row !== null && this.#ruling(requester, row).visible ? row : null;
  }

  /** Those that may be seen, newest first. */
  async sessions(
    requester: Requester,
    { limit, ...filter }: SessionFilter & { readonly limit: number },
    asked?: Visibility,
  ): Promise<readonly SessionRow[]> {
    mustBeMeant(requester, asked);
    const scope = this.scopeOf(requester, asked);
    return this.#sessions.list({ ...filter, limit, ...(scope === null ? {} : { seenBy: scope }) });
  }

  /** The sessions that the requester may see, as a filter for the store. Null: all sessions. */
  scopeOf(requester: Requester, asked?: Visibility): SessionScope | null {
    return requester.kind === "operator" ? null : this.#sessions.scopeOf(requester.session, asked);
  }

  async run(supervisor: Pick<Supervisor, "getRun">, requester: Requester, runId: string): Promise<RunRecord> {
    const record = await supervisor.getRun(runId);
    if (record === null) throw new RunNotFound(runId);
    const { sessionId } = record;
    const ruling = await this.#ofRuns(requester, sessionId);
    if (ruling.visible) return record;
    this.#denied({ actor: requester.actor, what: runId, sessionId, rule: ruling.rule });
    throw new RunNotFound(runId);
  }

  /** A run that others are to be told by: of one that may not be seen, a name that nobody has. */
  async sought(supervisor: Pick<Supervisor, "getRun">, requester: Requester, runId: string): Promise<string> {
    const record = requester.kind === "operator" ? null : await supervisor.getRun(runId);
    if (record === null) return runId;
    return (await this.#ofRuns(requester, record.sessionId)).visible ? runId : "";
  }

  /** For one look at the runs of many sessions (null: of none): each is asked about once. */
  runsOf(requester: Requester): (sessionId: string | null) => Promise<boolean> {
    const known = new Map<string | null, Promise<Ruling>>();
    return async (sessionId) => {
      const ruling = known.get(sessionId) ?? this.#ofRuns(requester, sessionId);
      known.set(sessionId, ruling);
      return (await ruling).visible;
    };
  }

  /** The same for tasks: whoever sees the session that asked for one, or the one that does it, sees it. */
  tasksOf(requester: Requester): (task: Pick<TaskRecord, TaskSessions>) => Promise<boolean> {
    const sees = this.runsOf(requester);
    return async ({ ownerSessionId, childSessionId }) => (await sees(ownerSessionId)) || sees(childSessionId);
  }

  /** Of the tasks that a name may mean, those that may be seen; that there are others is told to the operator alone. */
  async tasks(
    requester: Requester,
    wanted: string,
    found: readonly TaskRecord[],
  ): Promise<readonly TaskRecord[]> {
    const sees = this.tasksOf(requester);
    const seen: TaskRecord[] = [];
    for (const task of found) if (await sees(task)) seen.push(task);
    const [hidden] = found;
    if (seen.length > 0 || hidden === undefined) return seen;
    const sessionId = hidden.ownerSessionId ?? hidden.childSessionId;
    const ruling = await this.#ofRuns(requester, sessionId);
    if (!ruling.visible) this.#denied({ actor: requester.actor, what: wanted, sessionId, rule: ruling.rule });
    return [];
  }

  /**
   * Whether the requester may still act: its session may be closed, or its token end, while a stream is open. Streams
   * share the lookup.
   */
  async acts(requester: Requester): Promise<boolean> {
    if (requester.kind === "operator" || requester.tokenIsGood === undefined) return this.isOpen(requester);
    return requester.tokenIsGood();
  }

  /** Whether the requester's session is still open. */
  async isOpen(requester: Requester): Promise<boolean> {
    if (requester.kind === "operator") return true;
    return (await this.#acting.find(requester.session.id))?.closedAt === null;
  }

  async #ofRuns(requester: Requester, sessionId: string | null): Promise<Ruling> {
    if (requester.kind === "operator") return SEEN;
    const row = sessionId === null ? null : await this.#sessions.get(sessionId);
    return row === null ? { visible: false, rule: "of-no-session" } : this.#ruling(requester, row);
  }

  #ruling(requester: Requester, row: SessionRow, asked?: Visibility): Ruling {
    return requester.kind === "operator" ? SEEN : this.#sessions.requesterSees(requester.session, row, asked);
  }
}

/** The operator is no session, and has no tree or agent of its own. */
function mustBeMeant({ kind }: Requester, asked: Visibility | undefined): void {
  if (kind === "operator" && asked !== undefined && asked !== "all")
    throw new BadInput(
      "visibility",
      `${asked} is about what a session sees; the operator sees everything. Nothing was done`,
    );
}
