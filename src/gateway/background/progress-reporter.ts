import { setTimeout } from "node:timers/promises";
import type { AcpController } from "../../acp/controller.js";
import type { TurnActivity } from "../../acp/turn/turn-summary.js";
import { linkAbort } from "../../async/abort.js";
import { systemClock } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import type { TaskRecord } from "../../model/task.js";
import type { AcpStore } from "../../store/acp/contract.js";
import type { TaskStore } from "../../store/tasks/contract.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import type { TaskInputEvent } from "../../tasks/transition.js";
import { redactText } from "../../text/redact.js";
import { newestWords } from "../../text/truncate.js";
import type { TypingIndicator } from "./typing-indicator.js";
import { readNewestLine, type StreamOffsets } from "./newest-output.js";

export interface ProgressReporterDeps {
  readonly store: Pick<TaskStore, "getTask" | "listTaskEvents"> &
    Pick<AcpStore, "getAcpTurn" | "getAcpSession">;
  readonly supervisor: Supervisor;
  readonly acp: Pick<AcpController, "updates" | "activityOf">;
}

/** The change that a followed run or turn makes to its task. */
interface TaskUpdates {
  apply(taskId: string, event: TaskInputEvent): Promise<unknown>;
  refreshTask(taskId: string): Promise<void>;
}

/** Poll interval of a running turn; bounds the delay of the notification of its end. */
const TURN_POLL_MS = 250;

const AGENT_END_WAIT_MS = 10_000;

/** Follows runs and turns of this gateway to their ends and records start, progress and heartbeats. */
export class ProgressReporter {
  readonly #deps: ProgressReporterDeps;
  readonly #background: TaskUpdates;
  readonly #typing: TypingIndicator;
  readonly #closing: AbortSignal;

  constructor(
    deps: ProgressReporterDeps,
    background: TaskUpdates,
    typing: TypingIndicator,
    closing: AbortSignal,
  ) {
    this.#deps = deps;
    this.#background = background;
    this.#typing = typing;
    this.#closing = closing;
  }

  async followRun(taskId: string): Promise<void> {
    const { store, supervisor } = this.#deps;
    const task = await store.getTask(taskId);
    const run = supervisor.run(task?.runId ?? "");
    // The run has ended, or another gateway owns it.
    if (task === null || run === null) return this.#background.refreshTask(taskId);
    if (task.status === "cancelled") return run.cancel({ actor: await this.#cancelledBy(taskId) });
    // The record may be written a moment later.
    if (run.state === "running") await this.#recordStart(taskId);
    this.#typing.start(taskId, this.#closing);
    const over = new AbortController();
    // A failed progress report must not prevent the report of the end.
    const reporting = this.#reportOutput(task, run, linkAbort(over, this.#closing)).catch(() => undefined);
    try {
      await run.wait();
    } finally {
      over.abort();
      await reporting;
    }
    await this.#background.refreshTask(taskId);
  }

  async #recordStart(taskId: string): Promise<void> {
    await this.#background.apply(taskId, { type: "start", at: Date.now(), observed: true });
  }

  /** The actor of a cancellation through another gateway while the work was starting here. */
  async #cancelledBy(taskId: string): Promise<string> {
    const events = await this.#deps.store.listTaskEvents(taskId);
    const actor = events.findLast(({ type }) => type === "ended")?.data["actor"];
    return typeof actor === "string" ? actor : "";
  }

  /** Records output lines as progress. For a one-shot agent only heartbeats: its output belongs to its session. */
  async #reportOutput({ taskId, runtime }: TaskRecord, run: Run, over: AbortSignal): Promise<void> {
    let from: StreamOffsets = { stdout: 0, stderr: 0 };
    for (;;) {
      await run.changed(from, over);
      if (over.aborted) return;
      const { line, offsets: ends } = await readNewestLine(this.#deps.supervisor, run.runId, from);
      if (line !== "") {
        await this.#recordStart(taskId);
        await this.#recordProgress(taskId, runtime === "exec" ? line : "");
      }
      from = ends;
      await sleep(defaults.taskProgressMs, over);
    }
  }

  async followTurn(taskId: string, turnId: string): Promise<void> {
    const { acp, store, supervisor } = this.#deps;
    const sessionId = (await store.getAcpTurn(turnId))?.sessionId ?? "";
    const session = await store.getAcpSession(sessionId);
    if (session?.gatewayInstanceId !== supervisor.instanceId) return;
    let begun = false;
    let reportedAt = 0;
    let stalled = false;
    const isOver = async (): Promise<true | null> => {
      const now = await store.getAcpTurn(turnId);
      if (now === null || now.state === "ended") return true;
      if (now.state === "running" && !begun) {
        begun = true;
        await this.#linkRun(taskId, sessionId);
        await this.#background.refreshTask(taskId);
        this.#typing.start(taskId, this.#closing);
      }
      if (begun && now.stalledAt !== null) {
        if (!stalled) await this.#recordStall(taskId, now.stalledAt);
        stalled = true;
      } else if (begun && (stalled || Date.now() - reportedAt >= defaults.taskProgressMs)) {
        stalled = false;
        reportedAt = Date.now();
        await this.#recordProgress(taskId, progressText(acp.activityOf(sessionId, turnId)));
      }
      await sleep(TURN_POLL_MS, this.#closing);
      return null;
    };
    if ((await acp.updates.waitFor(sessionId, isOver, this.#closing)) === null) return;
    await this.#waitForAgentEnd(taskId, turnId);
    await this.#background.refreshTask(taskId);
  }

  /** The end of an interrupted turn's agent is recorded a moment later. */
  async #waitForAgentEnd(taskId: string, turnId: string): Promise<void> {
    const { store, supervisor } = this.#deps;
    if ((await store.getAcpTurn(turnId))?.outcome !== "interrupted") return;
    const run = supervisor.run((await store.getTask(taskId))?.runId ?? "");
    if (run !== null) await systemClock.sleep(AGENT_END_WAIT_MS, run.wait());
  }

  /** Links the task to the agent's run, which is known when the turn starts. */
  async #linkRun(taskId: string, sessionId: string): Promise<void> {
    const { store } = this.#deps;
    const runId = (await store.getAcpSession(sessionId))?.runId ?? null;
    const task = await store.getTask(taskId);
    if (runId !== null && task !== null && task.runId !== runId)
      await this.#background.apply(taskId, { type: "link", at: Date.now(), to: { runId } });
  }

  async #recordStall(taskId: string, since: number): Promise<void> {
    const at = Date.now();
    await this.#background.apply(taskId, { type: "stall", at, silentMs: at - since });
  }

  /** An empty text is a heartbeat. */
  async #recordProgress(taskId: string, text: string): Promise<void> {
    const at = Date.now();
    await this.#background.apply(
      taskId,
      text === "" ? { type: "heartbeat", at } : { type: "progress", at, text, observed: true },
    );
  }
}

/** At most `taskProgressChars`: a step from its beginning, a text its newest words. Empty: unknown. */
export function progressText(activity: TurnActivity | null): string {
  if (activity === null) return "";
  const text = redactText(activity.text);
  return activity.kind === "step" ? text : newestWords(text, defaults.taskProgressChars);
}

async function sleep(ms: number, over: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, { signal: over }).catch(() => undefined);
}
