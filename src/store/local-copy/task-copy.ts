import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { defaults } from "../../defaults.js";
import { errnoCode } from "../../home/errno.js";
import { readOwnFile, writeOwnFile } from "../../home/own-file.js";
import { renameFile } from "../../home/rename-file.js";
import type { OutboxEntry } from "../../model/outbox.js";
import type { SessionRecord } from "../../model/session.js";
import { isTaskEnded, type TaskEvent, type TaskRecord } from "../../model/task.js";
import { AppendLog } from "./append-log.js";

/** A task as it was last written to a shared store, with its history and its messages. */
export interface CopiedTask {
  /** Null: the task belongs to another gateway, and only its messages were sent from here. */
  readonly task: TaskRecord | null;
  readonly events: readonly TaskEvent[];
  readonly entries: readonly OutboxEntry[];
}

/** A change of a task. Partial entries are merged with the known entries by their key. */
export interface CopiedTaskChange {
  readonly taskId: string;
  readonly task?: TaskRecord;
  readonly events?: readonly TaskEvent[];
  readonly entries?: readonly (Partial<OutboxEntry> & Pick<OutboxEntry, "key">)[];
  /** Keys of messages that were replaced before they were sent. */
  readonly dropped?: readonly string[];
}

/** One line of the file. */
type LogLine =
  | {
      readonly about: "task";
      readonly taskId: string;
      readonly set?: object;
      readonly news: Omit<CopiedTaskChange, "taskId" | "task">;
    }
  | { readonly about: "gone"; readonly taskId: string }
  | { readonly about: "session"; readonly session: SessionRecord };

interface CopiedTaskState {
  task: TaskRecord | null;
  events: TaskEvent[];
  entries: Map<string, OutboxEntry>;
}

/** Tasks recorded between two removals of old records. */
const PRUNE_EVERY = 100;

/**
 * Local copy of the tasks, messages and sessions that this state directory wrote to a shared store: open tasks,
 * undelivered messages, open sessions, and recent ends and deliveries. Only the gateway writes its file.
 */
export class TaskCopy implements AsyncDisposable {
  readonly #tasks = new Map<string, CopiedTaskState>();
  readonly #sessions = new Map<string, SessionRecord>();
  #log!: AppendLog;
  #ends = 0;
  /** The task that was last recorded with a step of its own: a store that has it has all earlier records. */
  newest: string | null = null;

  private constructor() {}

  /** Damaged lines are skipped, as if they had never been written. */
  static async open(directory: string): Promise<TaskCopy> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const path = join(directory, "tasks.log");
    const text = await readOwnFile(path).catch((error: unknown) => {
      if (errnoCode(error) === "ENOENT") return "";
      throw error;
    });
    const localCopy = new TaskCopy();
    for (const line of text.split("\n"))
      try {
        if (line !== "") localCopy.#apply(JSON.parse(line) as LogLine);
      } catch {
        // The last line of a process that was killed while it wrote.
      }
    localCopy.#dropPartial();
    localCopy.#log = await AppendLog.open(path, () => localCopy.#snapshot());
    return localCopy;
  }

  get(taskId: string): CopiedTask | null {
    const kept = this.#tasks.get(taskId);
    return kept === undefined ? null : { ...kept, entries: [...kept.entries.values()] };
  }

  entry(taskId: string, key: string): OutboxEntry | null {
    return this.#tasks.get(taskId)?.entries.get(key) ?? null;
  }

  taskIds(): readonly string[] {
    return [...this.#tasks.keys()];
  }

  /** Tasks that are open, or have a message to be delivered. */
  unfinishedTaskIds(): readonly string[] {
    return [...this.#tasks].flatMap(([taskId, kept]) => (doneSince(kept) === null ? [taskId] : []));
  }

  session(id: string): SessionRecord | null {
    return this.#sessions.get(id) ?? null;
  }

  sessions(): readonly SessionRecord[] {
    return [...this.#sessions.values()];
  }

  /** Changes only the memory of this process: not worth a write. */
  keepInMemory(task: TaskRecord): void {
    const kept = this.#tasks.get(task.taskId);
    if (kept !== undefined) kept.task = task;
  }

  /** Resolves like `AppendLog.append`. */
  async record(news: CopiedTaskChange, durable: boolean): Promise<void> {
    const { taskId, task, ...rest } = news;
    const before = this.#tasks.get(taskId)?.task ?? null;
    const set = task === undefined ? {} : { set: changedFields(before, task) };
    const line: LogLine = { about: "task", taskId, ...set, news: rest };
    this.#apply(line);
    if (task !== undefined) this.newest = taskId;
    if (task !== undefined && isTaskEnded(task.status) && this.#ends++ % PRUNE_EVERY === 0) this.prune();
    await this.#log.append(line, durable);
  }

  async recordSession(session: SessionRecord): Promise<void> {
    const line: LogLine = { about: "session", session };
    this.#apply(line);
    await this.#log.append(line, false);
  }

  async delete(taskIds: readonly string[]): Promise<void> {
    const known = taskIds.filter((taskId) => this.#tasks.has(taskId));
    await Promise.all(
      known.map((taskId) => {
        const line: LogLine = { about: "gone", taskId };
        this.#apply(line);
        if (this.newest === taskId) this.newest = null;
        return this.#log.append(line, false);
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#log[Symbol.asyncDispose]();
  }

  #apply(line: LogLine): void {
    if (line.about === "gone") {
      this.#tasks.delete(line.taskId);
      return;
    }
    if (line.about === "session") {
      this.#sessions.set(line.session.id, line.session);
      return;
    }
    const { taskId, set, news } = line;
    const kept: CopiedTaskState = this.#tasks.get(taskId) ?? { task: null, events: [], entries: new Map() };
    this.#tasks.set(taskId, kept);
    if (set !== undefined) kept.task = { ...kept.task, ...set } as TaskRecord;
    const { events = [], entries = [], dropped = [] } = news;
    kept.events.push(...events);
    if (kept.events.length > defaults.ledgerTaskEventsKept)
      kept.events = kept.events.filter(
        ({ type }, at) =>
          at >= kept.events.length - defaults.ledgerTaskEventsKept ||
          ["created", "started", "ended"].includes(type),
      );
    for (const key of dropped) kept.entries.delete(key);
    for (const entry of entries)
      kept.entries.set(entry.key, { ...kept.entries.get(entry.key), ...entry } as OutboxEntry);
    if (kept.entries.size > 2 * defaults.ledgerTaskEventsKept) dropOldStateEntries(kept.entries);
  }

  /** Drops records whose first line is damaged: later lines have only a part of them. */
  #dropPartial(): void {
    for (const [taskId, kept] of this.#tasks) {
      for (const [key, { notification, target, taskId: of }] of kept.entries as Map<
        string,
        Partial<OutboxEntry>
      >)
        if (notification === undefined || target === undefined || of !== taskId) kept.entries.delete(key);
      const { createdAt, targets } = (kept.task ?? {}) as Partial<TaskRecord>;
      if (createdAt === undefined || targets === undefined) kept.task = null;
      if (kept.task === null && kept.entries.size === 0) this.#tasks.delete(taskId);
    }
  }

  /** Removes ended tasks without waiting messages that are too old or too many. */
  prune(): void {
    const since = Date.now() - defaults.ledgerEndsKeptMs;
    const over = [...this.#tasks].flatMap(([taskId, kept]) => {
      const at = doneSince(kept);
      return at === null ? [] : [{ taskId, at }];
    });
    const newestFirst = over.toSorted((one, other) => other.at - one.at);
    for (const [rank, { taskId, at }] of newestFirst.entries())
      if (rank >= defaults.ledgerTasksKept || at < since) this.#tasks.delete(taskId);
    for (const { id, closedAt } of this.#sessions.values())
      if (closedAt !== null && closedAt < since) this.#sessions.delete(id);
  }

  /** All records, without those that are too old. */
  #snapshot(): readonly LogLine[] {
    this.prune();
    return [
      ...[...this.#sessions.values()].map((session): LogLine => ({ about: "session", session })),
      ...[...this.#tasks].map(([taskId, { task, events, entries }]): LogLine => {
        const news = { events, entries: [...entries.values()] };
        return { about: "task", taskId, ...(task === null ? {} : { set: task }), news };
      }),
    ];
  }
}

/** When the task was done; null: it is open, or a message about it is still to be sent. */
function doneSince({ task, entries }: CopiedTaskState): number | null {
  const all = [...entries.values()];
  if (all.some(({ status }) => status === "pending" || status === "session_queued")) return null;
  if (task !== null && !isTaskEnded(task.status)) return null;
  return Math.max(task?.endedAt ?? 0, ...all.map(({ settledAt }) => settledAt ?? 0));
}

/** A long task has a message for each change. Of the settled ones, only the newest are kept. */
function dropOldStateEntries(entries: Map<string, OutboxEntry>): void {
  const settled = [...entries.values()].filter(
    ({ notification, status }) => notification?.kind === "state" && status !== "pending",
  );
  const newestFirst = settled.toSorted((one, other) => other.createdAt - one.createdAt);
  for (const { key } of newestFirst.slice(defaults.ledgerTaskEventsKept)) entries.delete(key);
}

/** The fields that differ: most fields stay the same from one change to the next. */
function changedFields(before: TaskRecord | null, after: TaskRecord): object {
  if (before === null) return after;
  const fields = Object.entries(after).filter(
    ([field, value]) => JSON.stringify(value) !== JSON.stringify(before[field as keyof TaskRecord]),
  );
  return Object.fromEntries(fields);
}

/** A record that a store has lost and that could not be put back. */
export interface UnrestoredRecord {
  /** Empty: the record is not about a task. */
  readonly taskId: string;
  /** One sentence for a person. */
  readonly detail: string;
  readonly at: number;
}

/** How many are kept: more would not help the reader. */
const MAX_KEPT = 1_000;

/** The records of the last day. A damaged file counts as missing. */
export async function readUnrestored(
  directory: string,
  now = Date.now(),
): Promise<readonly UnrestoredRecord[]> {
  try {
    const kept = JSON.parse(await readOwnFile(listPath(directory))) as readonly UnrestoredRecord[];
    return kept.filter(({ at }) => at >= now - defaults.ledgerEndsKeptMs);
  } catch {
    return [];
  }
}

export async function recordUnrestored(directory: string, found: readonly UnrestoredRecord[]): Promise<void> {
  if (found.length === 0) return;
  const same = (one: UnrestoredRecord, other: UnrestoredRecord): boolean =>
    one.taskId === other.taskId && one.detail === other.detail;
  const before = (await readUnrestored(directory)).filter((each) => !found.some((one) => same(one, each)));
  const draft = `${listPath(directory)}.${process.pid}`;
  writeOwnFile(draft, JSON.stringify([...before, ...found].slice(-MAX_KEPT)));
  await renameFile(draft, listPath(directory));
}

function listPath(directory: string): string {
  return join(directory, "not-restored.list");
}
