import type { Kysely } from "kysely";
import { hostMonotonicMs } from "../../async/host-clock.js";
import { StateUnusable } from "../../errors.js";
import type { AcpPermissionRequest, AcpSession, AcpTurn, AcpUpdate } from "../../model/acp.js";
import type { Approval, SessionMessage, SessionRecord } from "../../model/session.js";
import type { HostRecord, PublicGateway } from "../../model/gateway.js";
import type { RunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import type { TaskEvent, TaskRecord } from "../../model/task.js";
import type { OutboxEntry } from "../../model/outbox.js";
import * as readAcp from "../acp/queries.js";
import type {
  AcpPermissionRequestFilter,
  AcpSessionFilter,
  AcpTurnFilter,
  AcpUpdateFilter,
} from "../acp/store.js";
import * as readGateways from "../gateways/queries.js";
import type { GatewayFilter } from "../gateways/store.js";
import * as readMessages from "../messages/queries.js";
import type { MessageCount, MessageFilter } from "../messages/store.js";
import * as read from "../runs/queries.js";
import type { Schema } from "../schema.js";
import * as readSessions from "../sessions/queries.js";
import type { ApprovalFilter, SessionFilter } from "../sessions/store.js";
import type { ReadStore } from "../store.js";
import type { EventFilter, RunFilter } from "../runs/store.js";
import * as readTasks from "../tasks/queries.js";
import type { OutboxFilter, TaskFilter } from "../tasks/store.js";
import { sqliteDialect } from "./engine.js";
import {
  type FileFingerprint,
  isSameFingerprint,
  openReadOnlyView,
  readFingerprint,
  type ReadOnlyView,
} from "./read-only-view.js";

/** A writer would have to start and finish inside every one of these reads. */
const READ_ATTEMPTS = 20;

/** Open without changing anything, not even by creating a file. Null when nothing has been stored yet. */
export async function openSqliteStoreForReading(path: string): Promise<ReadStore | null> {
  const reader = new SqliteReader(path);
  try {
    return (await reader.hasSchema()) ? reader : null;
  } catch (error) {
    await reader[Symbol.asyncDispose]();
    throw error;
  }
}

class SqliteReader implements ReadStore {
  readonly shared = false;
  readonly #path: string;
  #view: ReadOnlyView | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  async hasSchema(): Promise<boolean> {
    return readFingerprint(this.#path) !== null && (await this.#read(async () => true, false));
  }

  getRun(runId: string): Promise<RunRecord | null> {
    return this.#read((db) => read.getRun(db, runId), null);
  }

  findRuns(prefix: string, limit: number): Promise<readonly RunRecord[]> {
    return this.#read((db) => read.findRuns(db, prefix, limit), []);
  }

  listRuns(filter: RunFilter): Promise<readonly RunRecord[]> {
    return this.#read((db) => read.listRuns(db, sqliteDialect, filter), []);
  }

  listEvents(filter: EventFilter): Promise<readonly RunEvent[]> {
    return this.#read((db) => read.listEvents(db, null, filter), []);
  }

  /** The file goes back with its state directory or not at all. */
  async eventsReach(): Promise<null> {
    return null;
  }

  getSession(id: string): Promise<SessionRecord | null> {
    return this.#read((db) => readSessions.getSession(db, id), null);
  }

  getSessionByKey(key: string): Promise<SessionRecord | null> {
    return this.#read((db) => readSessions.getSessionByKey(db, key), null);
  }

  listSessions(filter: SessionFilter): Promise<readonly SessionRecord[]> {
    return this.#read((db) => readSessions.listSessions(db, sqliteDialect, filter), []);
  }

  getApproval(id: string): Promise<Approval | null> {
    return this.#read((db) => readSessions.getApproval(db, id), null);
  }

  listApprovals(filter: ApprovalFilter): Promise<readonly Approval[]> {
    return this.#read((db) => readSessions.listApprovals(db, filter), []);
  }

  listGateways(filter?: GatewayFilter): Promise<readonly PublicGateway[]> {
    return this.#read((db) => readGateways.listGateways(db, filter), []);
  }

  listHosts(): Promise<readonly HostRecord[]> {
    return this.#read(readGateways.listHosts, []);
  }

  countOpenRunsByOwner(): Promise<ReadonlyMap<string, number>> {
    return this.#read(readGateways.countOpenRunsByOwner, new Map<string, number>());
  }

  listMessages(sessionId: string, filter: MessageFilter): Promise<readonly SessionMessage[]> {
    return this.#read((db) => readMessages.listMessages(db, sessionId, filter), []);
  }

  countMessages(sessionId: string): Promise<MessageCount> {
    const none = { total: 0, pending: 0, undelivered: 0, lastAt: null };
    return this.#read((db) => readMessages.countMessages(db, sessionId), none);
  }

  getAcpSession(sessionId: string): Promise<AcpSession | null> {
    return this.#read((db) => readAcp.getAcpSession(db, sessionId), null);
  }

  getAcpTurn(turnId: string): Promise<AcpTurn | null> {
    return this.#read((db) => readAcp.getAcpTurn(db, turnId), null);
  }

  listAcpSessions(filter: AcpSessionFilter): Promise<readonly AcpSession[]> {
    return this.#read((db) => readAcp.listAcpSessions(db, sqliteDialect, filter), []);
  }

  listAcpTurns(filter: AcpTurnFilter): Promise<readonly AcpTurn[]> {
    return this.#read((db) => readAcp.listAcpTurns(db, filter), []);
  }

  listAcpUpdates(filter: AcpUpdateFilter): Promise<readonly AcpUpdate[]> {
    return this.#read((db) => readAcp.listAcpUpdates(db, filter), []);
  }

  listAcpPermissionRequests(filter: AcpPermissionRequestFilter): Promise<readonly AcpPermissionRequest[]> {
    return this.#read((db) => readAcp.listAcpPermissionRequests(db, sqliteDialect, filter), []);
  }

  getTask(taskId: string): Promise<TaskRecord | null> {
    return this.#read((db) => readTasks.getTask(db, taskId), null);
  }

  getTaskByKey(key: string): Promise<TaskRecord | null> {
    return this.#read((db) => readTasks.getTaskByKey(db, key), null);
  }

  findTasks(prefix: string, limit: number): Promise<readonly TaskRecord[]> {
    return this.#read((db) => readTasks.findTasks(db, prefix, limit), []);
  }

  listTasks(filter: TaskFilter): Promise<readonly TaskRecord[]> {
    return this.#read((db) => readTasks.listTasks(db, filter), []);
  }

  listTaskEvents(taskId: string): Promise<readonly TaskEvent[]> {
    return this.#read((db) => readTasks.listTaskEvents(db, taskId), []);
  }

  listOutbox(filter: OutboxFilter): Promise<readonly OutboxEntry[]> {
    return this.#read((db) => readTasks.listOutbox(db, filter), []);
  }

  async now(): Promise<number> {
    return hostMonotonicMs();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const view = this.#view;
    this.#view = null;
    await view?.[Symbol.asyncDispose]();
  }

  async #read<Answer>(query: (db: Kysely<Schema>) => Promise<Answer>, nothing: Answer): Promise<Answer> {
    let trouble: unknown = null;
    for (let attempt = 0; attempt < READ_ATTEMPTS; attempt += 1) {
      const before = readFingerprint(this.#path);
      if (before === null) return nothing;
      try {
        const { db } = await this.#currentView(before);
        const answer = db === null ? nothing : await query(db);
        if (before.log || isSameFingerprint(before, readFingerprint(this.#path))) return answer;
      } catch (error) {
        if (isSameFingerprint(before, readFingerprint(this.#path))) throw error;
        trouble = error;
      }
    }
    throw new StateUnusable(
      this.#path,
      `${this.#path} changed during every attempt to read it; nothing was changed by reading. Try again.`,
      { cause: trouble },
    );
  }

  /** The open view if it still shows this file, else a new one. */
  async #currentView(at: FileFingerprint): Promise<ReadOnlyView> {
    if (this.#view?.isCurrent(at) === true) return this.#view;
    await this[Symbol.asyncDispose]();
    this.#view = await openReadOnlyView(this.#path, at);
    return this.#view;
  }
}
