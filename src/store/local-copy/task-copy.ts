import { mkdir, open, rename, type FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { defaults } from "../../defaults.js";
import { errnoOf } from "../../home/errno.js";
import { readOwnFile, WRITE_FLAGS } from "../../home/own-file.js";
import type { SessionRecord } from "../../model/session.js";
import { isTaskEnded, type TaskEvent, type TaskRecord } from "../../model/task.js";
import type { OutboxEntry } from "../../model/outbox.js";

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

interface QueuedLine {
  readonly text: string;
  readonly durable: boolean;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** The file is rewritten when it exceeds this size and twice the size of its live records. */
const COMPACT_BYTES = 4 * 1024 * 1024;

/** Tasks recorded between two removals of old records. */
const PRUNE_EVERY = 100;

/**
 * Local copy of the tasks, messages and sessions that this state directory wrote to a shared store: open tasks,
 * undelivered messages, open sessions, and recent ends and deliveries. It is one append-only file, which only the gateway
 * writes; concurrent writers share one fdatasync.
 */
export class TaskCopy implements AsyncDisposable {
  readonly #path: string;
  readonly #tasks = new Map<string, CopiedTaskState>();
  readonly #sessions = new Map<string, SessionRecord>();
  #file: FileHandle;
  #bytes = 0;
  #wholeBytes = 0;
  #ends = 0;
  #queue: QueuedLine[] = [];
  #writing: Promise<void> | null = null;
  /** A write failed: the file may end in an incomplete line, and lacks records that are in memory. */
  #torn = false;
  /** The task that was last recorded with a step of its own: a store that has it has all earlier records. */
  newest: string | null = null;

  private constructor(path: string, file: FileHandle) {
    this.#path = path;
    this.#file = file;
  }

  /** Damaged lines are skipped, as if they had never been written. */
  static async open(directory: string): Promise<TaskCopy> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const path = join(directory, "tasks.log");
    const text = await readOwnFile(path).catch((error: unknown) => {
      if (errnoOf(error) === "ENOENT") return "";
      throw error;
    });
    const localCopy = new TaskCopy(path, await open(path, WRITE_FLAGS.append, 0o600));
    for (const line of text.split("\n"))
      try {
        if (line !== "") localCopy.#apply(JSON.parse(line) as LogLine);
      } catch {
        // The last line of a process that was killed while it wrote.
      }
    localCopy.#dropPartial();
    localCopy.prune();
    // Rewritten, so that nothing is appended to an incomplete line.
    await localCopy.#compact();
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

  /** Tasks that go on, or of which somebody is still to be told. */
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

  /** Resolves when the change is in the file; if it is `durable`, when it survives power loss. */
  async record(news: CopiedTaskChange, durable: boolean): Promise<void> {
    const { taskId, task, ...rest } = news;
    const before = this.#tasks.get(taskId)?.task ?? null;
    const set = task === undefined ? {} : { set: changedFields(before, task) };
    const line: LogLine = { about: "task", taskId, ...set, news: rest };
    this.#apply(line);
    if (task !== undefined) this.newest = taskId;
    if (task !== undefined && isTaskEnded(task.status) && this.#ends++ % PRUNE_EVERY === 0) this.prune();
    await this.#append(line, durable);
  }

  async recordSession(session: SessionRecord): Promise<void> {
    const line: LogLine = { about: "session", session };
    this.#apply(line);
    await this.#append(line, false);
  }

  async delete(taskIds: readonly string[]): Promise<void> {
    const known = taskIds.filter((taskId) => this.#tasks.has(taskId));
    await Promise.all(
      known.map((taskId) => {
        const line: LogLine = { about: "gone", taskId };
        this.#apply(line);
        if (this.newest === taskId) this.newest = null;
        return this.#append(line, false);
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writing?.catch(() => undefined);
    await this.#file.close();
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

  #append(line: LogLine, durable: boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ text: `${JSON.stringify(line)}\n`, durable, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  /** Never rejects. Lines that arrive while a batch is written share the next batch and its sync. */
  async #write(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0);
      try {
        // Written anew from memory, which has this batch, too.
        if (this.#torn) await this.#compact();
        else await this.#appendBatch(batch);
        for (const { resolve } of batch) resolve();
        if (this.#bytes > Math.max(COMPACT_BYTES, 2 * this.#wholeBytes)) await this.#compact();
      } catch (error) {
        this.#torn = true;
        for (const { reject } of batch) reject(error);
      }
    }
    // In the same step as the last look at the queue: what is appended next begins anew.
    this.#writing = null;
  }

  async #appendBatch(batch: readonly QueuedLine[]): Promise<void> {
    const text = batch.map((each) => each.text).join("");
    await this.#file.appendFile(text);
    this.#bytes += Buffer.byteLength(text);
    for (const { durable, resolve } of batch) if (!durable) resolve();
    if (batch.some(({ durable }) => durable)) await this.#file.datasync();
  }

  async #compact(): Promise<void> {
    this.prune();
    const lines: LogLine[] = [
      ...[...this.#sessions.values()].map((session): LogLine => ({ about: "session", session })),
      ...[...this.#tasks].map(([taskId, { task, events, entries }]): LogLine => {
        const news = { events, entries: [...entries.values()] };
        return { about: "task", taskId, ...(task === null ? {} : { set: task }), news };
      }),
    ];
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
    const draft = `${this.#path}.new`;
    const file = await open(draft, WRITE_FLAGS.truncate, 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
      await rename(draft, this.#path);
    } catch (error) {
      await file.close();
      throw error;
    }
    const former = this.#file;
    // The file position is already at the end of the rewritten file.
    this.#file = file;
    this.#bytes = Buffer.byteLength(text);
    this.#wholeBytes = this.#bytes;
    await former.close();
    await syncDirectory(dirname(this.#path));
    this.#torn = false;
  }
}

/** Without this sync, power loss could undo the rename. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** When the task was done; null: it is open, or a message about it is still to be sent. */
function doneSince({ task, entries }: CopiedTaskState): number | null {
  const all = [...entries.values()];
  if (all.some(({ status }) => status === "pending" || status === "session_queued")) return null;
  if (task !== null && !isTaskEnded(task.status)) return null;
  return Math.max(task?.endedAt ?? 0, ...all.map(({ settledAt }) => settledAt ?? 0));
}

/** A task that goes on for long has a message for each change: of those that are settled, the newest are kept. */
function dropOldStateEntries(entries: Map<string, OutboxEntry>): void {
  const settled = [...entries.values()].filter(
    ({ notification, status }) => notification?.kind === "state" && status !== "pending",
  );
  const newestFirst = settled.toSorted((one, other) => other.createdAt - one.createdAt);
  for (const { key } of newestFirst.slice(defaults.ledgerTaskEventsKept)) entries.delete(key);
}

/** Of a record of which most stays the same from one step to the next. */
function changedFields(before: TaskRecord | null, after: TaskRecord): object {
  if (before === null) return after;
  const fields = Object.entries(after).filter(
    ([field, value]) => JSON.stringify(value) !== JSON.stringify(before[field as keyof TaskRecord]),
  );
  return Object.fromEntries(fields);
}
