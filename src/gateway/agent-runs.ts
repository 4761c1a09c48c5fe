import type { AgentEntry } from "../agents/entry.js";
import { runResult, type RunResult } from "../agents/run-result.js";
import { defaults } from "../defaults.js";
import { RunExists, SessionBusy, SessionClosed, SupervisorClosed } from "../errors.js";
import { carriedBy, carry } from "../sessions/carried.js";
import type { History } from "../sessions/history.js";
import type { Sessions } from "../sessions/sessions.js";
import type { SessionMessage } from "../store/message-record.js";
import type { MessageStore } from "../store/message-store.js";
import { OPEN_STATES, type RunRecord } from "../store/run-record.js";
import type { SessionRow } from "../store/session-record.js";
import type { Problem, Supervisor } from "../supervisor/api.js";
import { failureOf } from "./handlers/exec.js";
import { textFrom } from "./handlers/text-output.js";

/** The backend of sessions whose agent is a command for one prompt at a time. */
export const CLI_BACKEND = "cli";

/** Looked at in one round: more than ever run at a time. */
const UNANSWERED = 1_000;

export interface AgentRunsParts {
  readonly supervisor: Supervisor;
  readonly sessions: Sessions;
  readonly history: History;
  readonly store: Pick<MessageStore, "listUnanswered">;
  readonly agents: ReadonlyMap<string, AgentEntry>;
  readonly problem: (problem: Problem) => void;
  /** Its agent has had what waited for it. */
  readonly onDelivered: (sessionId: string) => void;
}

type Asked = Pick<SessionMessage, "sessionId"> & { readonly runId: string };

/**
 * Prompts that were given to agents' commands, and what came of them. A prompt is recorded before its run is started,
 * and its answer when that has ended: whoever restarts in between finds a prompt without an answer, and its run.
 */
export class AgentRuns implements AsyncDisposable {
  readonly #parts: AgentRunsParts;
  /** By session: one at a time. */
  readonly #starting = new Map<string, string>();
  readonly #watched = new Set<string>();
  readonly #settling = new Set<Promise<unknown>>();

  constructor(parts: AgentRunsParts) {
    this.#parts = parts;
  }

  /** Record a prompt and start its run. What keeps it from starting is the session's answer, too. */
  async give<Started>(
    session: SessionRow,
    runId: string,
    prompt: { readonly text: string; readonly actor: string; readonly fromSessionId?: string },
    start: () => Promise<Started>,
  ): Promise<Started> {
    const { id: sessionId } = session;
    const other = this.#starting.get(sessionId);
    if (other !== undefined) throw new SessionBusy(sessionId, other);
    this.#starting.set(sessionId, runId);
    try {
      await this.#mustBeFree(sessionId, runId);
      const cause = `${runId}:prompt`;
      await this.#parts.history.record(sessionId, "user", { ...prompt, runId, cause });
      return await this.#start({ sessionId, runId }, start);
    } finally {
      this.#starting.delete(sessionId);
    }
  }

  /** What waits for a session, before a prompt: its command is told with that. */
  async waiting(session: SessionRow): Promise<string> {
    const { history, sessions } = this.#parts;
    return (await carry(await history.waiting(session.id), sessions, defaults.agentCarriedChars)).text;
  }

  /** What a session's command at work was told with its prompt, and has not answered yet. */
  async told({ id: sessionId, backend }: SessionRow): Promise<ReadonlySet<string>> {
    if (backend !== CLI_BACKEND) return new Set();
    const [prompt] = await this.#parts.store.listUnanswered({ sessionId }, 1);
    return new Set(prompt === undefined ? [] : await this.#toldWith(prompt));
  }

  /** What came of a run that has ended; recorded, if it was not. Null: it goes on, or was given no prompt. */
  async result(session: SessionRow, runId: string): Promise<RunResult | null> {
    const said = await this.#parts.history.list(session.id, { runId, limit: 2 });
    const answer = said.find(({ role }) => role !== "user");
    const { agentSessionId } = (await this.#parts.sessions.get(session.id)) ?? session;
    if (answer !== undefined) return shown(answer, agentSessionId);
    return said.length === 0 ? null : this.#settle({ sessionId: session.id, runId });
  }

  /** What former gateways began: see to it that it is answered. */
  async look(): Promise<void> {
    const { store, supervisor } = this.#parts;
    const unanswered = await store.listUnanswered({ gatewayInstanceId: supervisor.instanceId }, UNANSWERED);
    for (const { sessionId, runId, at, text } of unanswered) {
      if (runId === null || this.#starting.get(sessionId) === runId || this.#watched.has(runId)) continue;
      this.#giveRest(runId, text);
      // Who asked a gateway that is gone asks the next one again, for as long as this.
      const late = Date.now() - at > defaults.callerOwnerLossMs;
      if (late || (await supervisor.getRun(runId)) !== null) this.#watch({ sessionId, runId });
    }
  }

  /** A former gateway may have gone before the command had all of its prompt. What it has is not given twice. */
  #giveRest(runId: string, prompt: string): void {
    const run = this.#parts.supervisor.run(runId);
    // Refused by one that was told it on its command line, or does not listen any more.
    run
      ?.write(prompt, 0)
      .then(() => run.closeStdin())
      .catch(() => undefined);
  }

  async #mustBeFree(sessionId: string, runId: string): Promise<void> {
    const { supervisor } = this.#parts;
    const known = await supervisor.getRun(runId);
    // Another's: what it says, and when it ends, is no answer here.
    if (known !== null && known.sessionId !== sessionId) throw new RunExists(runId);
    const open = await supervisor.listRuns({ sessionId, states: OPEN_STATES, withoutLabels: true });
    const other = open.find((run) => run.backendId === CLI_BACKEND && run.runId !== runId);
    if (other !== undefined) throw new SessionBusy(sessionId, other.runId);
  }

  async #start<Started>(asked: Asked, start: () => Promise<Started>): Promise<Started> {
    try {
      return await start();
    } catch (error) {
      // Asked for again: the one that was started answers.
      if (!(error instanceof RunExists)) await this.#answer(asked, failed((error as Error).message));
      throw error;
    } finally {
      this.#watch(asked);
    }
  }

  #watch(asked: Asked): void {
    const { runId } = asked;
    if (this.#watched.has(runId)) return;
    this.#watched.add(runId);
    const ended = this.#parts.supervisor.run(runId)?.wait() ?? Promise.resolve();
    ended
      .then(() => this.#settle(asked))
      .catch((cause: unknown) => {
        // Left to the next gateway.
        if (cause instanceof SupervisorClosed) return;
        // The next round tries again.
        this.#parts.problem({ runId, message: "the agent's answer could not be recorded", cause });
      })
      .finally(() => this.#watched.delete(runId));
  }

  /** What has ended is answered. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#settling);
  }

  #settle(asked: Asked): Promise<RunResult | null> {
    const settling = this.#conclude(asked);
    this.#settling.add(settling);
    return settling.finally(() => this.#settling.delete(settling));
  }

  async #conclude(asked: Asked): Promise<RunResult | null> {
    const record = await this.#parts.supervisor.getRun(asked.runId);
    if (record !== null && record.state !== "exited") return null;
    return this.#answer(
      asked,
      record === null ? failed("it was never started") : await this.#read(asked, record),
    );
  }

  async #acknowledge(sessionId: string, runId: string): Promise<void> {
    const { history } = this.#parts;
    const said = await history.list(sessionId, { runId, limit: 2 });
    const prompt = said.find(({ role }) => role === "user");
    const messages = prompt === undefined ? [] : await this.#toldWith(prompt);
    if (messages.length === 0) return;
    await history.acknowledge(sessionId, messages);
    this.#parts.onDelivered(sessionId);
  }

  /** Of what waits, what a prompt says: others may have had some of it since. */
  async #toldWith({ sessionId, seq, text }: SessionMessage): Promise<readonly string[]> {
    const { history, sessions } = this.#parts;
    const waiting = await history.waiting(sessionId);
    return carriedBy(
      text,
      waiting.filter((message) => message.seq < seq),
      sessions,
    );
  }

  async #read({ sessionId, runId }: Asked, record: RunRecord): Promise<RunResult> {
    const { supervisor, sessions, agents } = this.#parts;
    const text = async (stream: "stdout" | "stderr", maxChars: number): Promise<string> =>
      (
        await textFrom(
          (name, options) => supervisor.readOutput(runId, name, options),
          stream,
          0,
          maxChars,
          true,
        )
      ).text;
    const agentId = (await sessions.get(sessionId))?.agentId ?? "";
    return runResult(agents.get(agentId)?.cli?.output ?? "text", {
      stdout: await text("stdout", defaults.agentSpoolBytes),
      stderr: await text("stderr", 2 * defaults.agentComplaintChars),
      failure: why(record),
    });
  }

  /** Once: whoever comes later gets what was recorded first. */
  async #answer({ sessionId, runId }: Asked, result: RunResult): Promise<RunResult> {
    const { sessions, history } = this.#parts;
    const { text, error, agentSessionId } = result;
    if (agentSessionId !== null) await sessions.setAgentSession(sessionId, agentSessionId);
    if (error === null) await this.#acknowledge(sessionId, runId);
    const actor = `run:${runId}`;
    const saying = { actor, runId, cause: `${runId}:answer` };
    const recorded =
      error === null
        ? history.record(sessionId, "agent", { ...saying, text })
        : history.record(sessionId, "system", { ...saying, text: failureText(error, text) });
    return recorded.then(
      (message) => shown(message, agentSessionId),
      (cause: unknown) => {
        // Its session was ended meanwhile: there is nobody to answer.
        if (cause instanceof SessionClosed) return result;
        throw cause;
      },
    );
  }
}

function failed(error: string): RunResult {
  return { text: "", error, agentSessionId: null };
}

const BEFORE = "\n\nBefore, it said:\n\n";

function failureText(error: string, text: string): string {
  return text === "" ? error : `${error}${BEFORE}${text}`.slice(0, defaults.messageChars);
}

function shown({ role, text: said }: SessionMessage, agentSessionId: string | null): RunResult {
  if (role === "agent") return { text: said, error: null, agentSessionId };
  const [error = "", ...before] = said.split(BEFORE);
  return { text: before.join(BEFORE), error, agentSessionId };
}

/** Null: nothing. */
function why(record: RunRecord): string | null {
  const failure = failureOf(record);
  const { exit } = record;
  if (failure === null || exit === null) return null;
  if (failure === "exit-code") return `it ended with code ${exit.code ?? "?"}`;
  if (failure === "signal") return `it was ended by ${exit.signal ?? "a signal"}`;
  return exit.detail === null ? failure : `${failure} (${exit.detail})`;
}
