import { setTimeout } from "node:timers/promises";
import type { Channel } from "../../channels/channel.js";
import { defaults } from "../../defaults.js";
import { targetKey, type TaskRecord } from "../../store/task-record.js";
import type { TaskStore } from "../../store/task-store.js";
import { DeliveryFailed } from "../../tasks/notification.js";
import { seesTyping, type UserTarget } from "../../tasks/routing.js";
import { endsWith } from "./ends-with.js";

export interface TypingParts {
  readonly store: Pick<TaskStore, "getTask">;
  readonly channels: ReadonlyMap<string, Channel>;
}

/** Commands and other programs do not type. */
const TYPES: readonly TaskRecord["runtime"][] = ["acp", "subagent"];

/**
 * Shows a user who waits for an agent that it is at work, where the channel can. Whether and where follows from the task's
 * record at every look, so the next gateway goes on with it. It is for looks: what fails is neither told nor made good.
 */
export class Typing {
  readonly #parts: TypingParts;
  readonly #everyMs: number;
  readonly #going = new Map<string, AbortController>();
  /** By target: several tasks show one sign, and one that did not arrive is not tried again at once. */
  readonly #notBefore = new Map<string, number>();

  constructor(parts: TypingParts, everyMs: number = defaults.typingEveryMs) {
    this.#parts = parts;
    this.#everyMs = everyMs;
  }

  /** From now until its end, or until whoever shows it leaves. */
  begin(taskId: string, left: AbortSignal): void {
    if (this.#going.has(taskId)) return;
    const own = new AbortController();
    this.#going.set(taskId, own);
    void this.#goOn(taskId, endsWith(own, left)).catch(() => undefined);
  }

  /** Before its end is told: nothing is shown after that. */
  end(taskId: string): void {
    this.#going.get(taskId)?.abort();
    this.#going.delete(taskId);
  }

  async #goOn(taskId: string, over: AbortSignal): Promise<void> {
    // A store that does not answer now says nothing about the task.
    while (await this.#look(taskId, over).catch(() => true))
      await setTimeout(this.#everyMs, undefined, { signal: over });
  }

  /** False: there is nothing to show any more, nor will there be. */
  async #look(taskId: string, over: AbortSignal): Promise<boolean> {
    const task = await this.#parts.store.getTask(taskId);
    if (task === null || task.endedAt !== null || !TYPES.includes(task.runtime)) return false;
    const users = task.targets.filter(seesTyping);
    // One that was not heard of for long may be stuck.
    const isSeen = task.status === "running" && task.policy !== "silent" && task.stalledAt === null;
    if (isSeen) await Promise.all(users.map((user) => this.#show(user, over)));
    return users.length > 0;
  }

  async #show(target: UserTarget, over: AbortSignal): Promise<void> {
    const channel = this.#parts.channels.get(target.channel);
    const key = targetKey(target);
    if (channel?.typing === undefined || over.aborted || !this.#isDue(key)) return;
    this.#wait(key, this.#everyMs / 2);
    const own = new AbortController();
    endsWith(own, AbortSignal.timeout(this.#everyMs));
    try {
      await channel.typing(target.address, endsWith(own, over));
    } catch (error) {
      if (over.aborted) return;
      const asked = error instanceof DeliveryFailed ? (error.retryAfterMs ?? 0) : 0;
      this.#wait(key, Math.max(asked, defaults.typingPauseMs));
    } finally {
      own.abort();
    }
  }

  #isDue(key: string): boolean {
    for (const [each, at] of this.#notBefore) if (at <= performance.now()) this.#notBefore.delete(each);
    return !this.#notBefore.has(key);
  }

  #wait(key: string, ms: number): void {
    this.#notBefore.set(key, performance.now() + ms);
  }
}
