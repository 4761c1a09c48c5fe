import { setTimeout } from "node:timers/promises";
import type { AcpController } from "../../acp/controller.js";
import { defaults } from "../../defaults.js";
import type { AcpStore } from "../../store/acp-store.js";
import type { TaskRecord } from "../../store/task-record.js";
import type { TaskStore } from "../../store/task-store.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import { systemClock } from "../../supervisor/clock.js";
import { redactText } from "../../supervisor/redact.js";
import type { Background } from "./background.js";
import { endsWith } from "./ends-with.js";
import { lastLine, type Ends } from "./last-lines.js";
import type { Typing } from "./typing.js";

export interface FollowingParts {
  readonly store: Pick<TaskStore, "getTask" | "listTaskEvents"> &
    Pick<AcpStore, "getAcpTurn" | "getAcpSession">;
  readonly supervisor: Supervisor;
  readonly acp: Pick<AcpController, "tail" | "doingOf">;
}

/** Looks at a turn that goes on: a message about its end is not later by more than this. */
const TURN_LOOK_MS = 250;

const AGENT_ENDS_MS = 10_000;

/** What goes on here, to its end: that it has begun, how it is going, and that somebody is at it. */
export class Following {
  readonly #parts: FollowingParts;
  readonly #ledger: Pick<Background, "tell" | "look">;
  readonly #typing: Typing;
  readonly #left: AbortSignal;

  constructor(
    parts: FollowingParts,
    ledger: Pick<Background, "tell" | "look">,
    typing: Typing,
    left: AbortSignal,
  ) {
    this.#parts = parts;
    this.#ledger = ledger;
    this.#typing = typing;
    this.#left = left;
  }

  async run(taskId: string): Promise<void> {
    const { store, supervisor } = this.#parts;
    const task = await store.getTask(taskId);
    const run = supervisor.run(task?.runId ?? "");
    // It has ended meanwhile, or is elsewhere.
    if (task === null || run === null) return this.#ledger.look(taskId);
    if (task.status === "cancelled") return run.cancel({ actor: await this.#cancelledBy(taskId) });
    // Its record may say so a moment later.
    if (run.state === "running") await this.#started(taskId);
    this.#typing.begin(taskId, this.#left);
    const over = new AbortController();
    // What could not be told of it on the way is no reason not to tell its end.
    const reporting = this.#report(task, run, endsWith(over, this.#left)).catch(() => undefined);
    try {
      await run.wait();
    } finally {
      over.abort();
      await reporting;
    }
    await this.#ledger.look(taskId);
  }

  async #started(taskId: string): Promise<void> {
    await this.#ledger.tell(taskId, { type: "start", at: Date.now(), overheard: true });
  }

  /** Through another gateway, where nothing was known yet of what was being begun here. */
  async #cancelledBy(taskId: string): Promise<string> {
    const events = await this.#parts.store.listTaskEvents(taskId);
    const actor = events.findLast(({ type }) => type === "ended")?.data["actor"];
    return typeof actor === "string" ? actor : "";
  }

  /** What it says, as progress, now and then. Of an agent's command, that it says something: its words are for its session. */
  async #report({ taskId, runtime }: TaskRecord, run: Run, over: AbortSignal): Promise<void> {
    let from: Ends = { stdout: 0, stderr: 0 };
    for (;;) {
      await run.changed(from, over);
      if (over.aborted) return;
      const { line, ends } = await lastLine(this.#parts.supervisor, run.runId, from);
      if (line !== "") {
        await this.#started(taskId);
        await this.#progress(taskId, runtime === "exec" ? line : "");
      }
      from = ends;
      await pause(defaults.taskProgressMs, over);
    }
  }

  async turn(taskId: string, turnId: string): Promise<void> {
    const { acp, store, supervisor } = this.#parts;
    const sessionId = (await store.getAcpTurn(turnId))?.sessionId ?? "";
    const session = await store.getAcpSession(sessionId);
    if (session?.gatewayInstanceId !== supervisor.instanceId) return;
    let begun = false;
    let reportedAt = 0;
    const isOver = async (): Promise<true | null> => {
      const now = await store.getAcpTurn(turnId);
      if (now === null || now.state === "ended") return true;
      if (now.state === "running" && !begun) {
        begun = true;
        await this.#link(taskId, sessionId);
        await this.#ledger.look(taskId);
        this.#typing.begin(taskId, this.#left);
      }
      if (begun && Date.now() - reportedAt >= defaults.taskProgressMs) {
        reportedAt = Date.now();
        await this.#progress(taskId, redactText(acp.doingOf(sessionId, turnId)));
      }
      await pause(TURN_LOOK_MS, this.#left);
      return null;
    };
    if ((await acp.tail.until(sessionId, isOver, this.#left)) === null) return;
    await this.#agentGone(taskId, turnId);
    await this.#ledger.look(taskId);
  }

  /** How the agent of an interrupted turn ended is on record a moment later. */
  async #agentGone(taskId: string, turnId: string): Promise<void> {
    const { store, supervisor } = this.#parts;
    if ((await store.getAcpTurn(turnId))?.outcome !== "interrupted") return;
    const run = supervisor.run((await store.getTask(taskId))?.runId ?? "");
    if (run !== null) await systemClock.pause(AGENT_ENDS_MS, run.wait());
  }

  /** Which of its agent's processes does it is known when it begins. */
  async #link(taskId: string, sessionId: string): Promise<void> {
    const { store } = this.#parts;
    const runId = (await store.getAcpSession(sessionId))?.runId ?? null;
    const task = await store.getTask(taskId);
    if (runId !== null && task !== null && task.runId !== runId)
      await this.#ledger.tell(taskId, { type: "link", at: Date.now(), to: { runId } });
  }

  /** Without words: it is at work. */
  async #progress(taskId: string, text: string): Promise<void> {
    const at = Date.now();
    await this.#ledger.tell(
      taskId,
      text === "" ? { type: "heartbeat", at } : { type: "progress", at, text, overheard: true },
    );
  }
}

async function pause(ms: number, over: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, { signal: over }).catch(() => undefined);
}
