import { setTimeout } from "node:timers/promises";
import { linkAbort } from "../../async/abort.js";
import type { Channel } from "../../channels/channel.js";
import { defaults } from "../../defaults.js";
import type { TaskRecord } from "../../model/task.js";
import { type ChannelTarget, targetKey } from "../../model/outbox.js";
import type { TaskStore } from "../../store/tasks/contract.js";
import { DeliveryFailed } from "../../tasks/delivery-attempt.js";
import { canShowTyping } from "../../tasks/notification-routing.js";

export interface TypingIndicatorDeps {
  readonly store: Pick<TaskStore, "getTask">;
  readonly channels: ReadonlyMap<string, Channel>;
}

/** Only agents have a typing indicator. */
const TYPING_RUNTIMES: readonly TaskRecord["runtime"][] = ["acp", "subagent"];

/**
 * Shows a typing indicator in the user's chat while an agent works, if the channel supports it. It is derived from the
 * task's record, so the next gateway continues it. Failures are ignored.
 */
export class TypingIndicator {
  readonly #deps: TypingIndicatorDeps;
  readonly #everyMs: number;
  readonly #active = new Map<string, AbortController>();
  /** When each target was last updated: tasks share a target, and failures are not retried at once. */
  readonly #notBefore = new Map<string, number>();

  constructor(deps: TypingIndicatorDeps, everyMs: number = defaults.typingEveryMs) {
    this.#deps = deps;
    this.#everyMs = everyMs;
  }

  /** Shows the indicator until the task ends or `closing` aborts. */
  start(taskId: string, left: AbortSignal): void {
    if (this.#active.has(taskId)) return;
    const own = new AbortController();
    this.#active.set(taskId, own);
    void this.#showUntilEnd(taskId, linkAbort(own, left)).catch(() => undefined);
  }

  /** Called before the end is notified, so that no indicator follows. */
  stop(taskId: string): void {
    this.#active.get(taskId)?.abort();
    this.#active.delete(taskId);
  }

  async #showUntilEnd(taskId: string, over: AbortSignal): Promise<void> {
    // An unreachable store says nothing about the task.
    while (await this.#showOnce(taskId, over).catch(() => true))
      await setTimeout(this.#everyMs, undefined, { signal: over });
  }

  /** False: the task needs no indicator any more. */
  async #showOnce(taskId: string, over: AbortSignal): Promise<boolean> {
    const task = await this.#deps.store.getTask(taskId);
    if (task === null || task.endedAt !== null || !TYPING_RUNTIMES.includes(task.runtime)) return false;
    const users = task.targets.filter(canShowTyping);
    // A task without events for long may be stuck.
    const isSeen = task.status === "running" && task.policy !== "silent" && task.stalledAt === null;
    if (isSeen) await Promise.all(users.map((user) => this.#show(user, over)));
    return users.length > 0;
  }

  async #show(target: ChannelTarget, over: AbortSignal): Promise<void> {
    const channel = this.#deps.channels.get(target.channel);
    const key = targetKey(target);
    if (channel?.typing === undefined || over.aborted || !this.#isDue(key)) return;
    this.#delay(key, this.#everyMs / 2);
    const own = new AbortController();
    linkAbort(own, AbortSignal.timeout(this.#everyMs));
    try {
      await channel.typing(target.address, linkAbort(own, over));
    } catch (error) {
      if (over.aborted) return;
      const asked = error instanceof DeliveryFailed ? (error.retryAfterMs ?? 0) : 0;
      this.#delay(key, Math.max(asked, defaults.typingPauseMs));
    } finally {
      own.abort();
    }
  }

  #isDue(key: string): boolean {
    for (const [each, at] of this.#notBefore) if (at <= performance.now()) this.#notBefore.delete(each);
    return !this.#notBefore.has(key);
  }

  #delay(key: string, ms: number): void {
    this.#notBefore.set(key, performance.now() + ms);
  }
}
