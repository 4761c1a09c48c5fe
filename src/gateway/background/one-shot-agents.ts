import { newAgentSessionId, takesNewSessionId } from "../../agents/one-shot-command.js";
import { oneShotResult, type OneShotResult } from "../../agents/one-shot-result.js";
import { ThrottledCheck } from "../../async/throttled-check.js";
import type { AgentEntry } from "../../config/agents.js";
import { defaults } from "../../defaults.js";
import { formatExitCode } from "../../text/exit-code.js";
import { RunExists, SessionBusy, SessionClosed, SupervisorClosed } from "../../errors.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import { CLI_BACKEND } from "../../model/enums.js";
import type { SessionRecord } from "../../model/session.js";
import type { SessionMessage } from "../../model/session-message.js";
import { readOutputText } from "../../queries/output.js";
import { failureKindOf } from "../../queries/runs.js";
import type { SessionHistory } from "../../sessions/messages-and-inbox.js";
import { findDelivered, packMessages } from "../../sessions/pack-messages.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { MessageStore } from "../../store/messages/contract.js";
import type { Problem, Supervisor } from "../../supervisor/api.js";
import { firstChars } from "../../text/truncate.js";

/** The most prompts of one sweep, more than ever run at one time. */
const MAX_UNANSWERED = 1_000;

interface OneShotAgentsDeps {
  readonly supervisor: Supervisor;
  readonly sessions: Sessions;
  readonly history: SessionHistory;
  readonly store: Pick<MessageStore, "listUnansweredMessages">;
  readonly agents: ReadonlyMap<string, AgentEntry>;
  readonly onProblem: (problem: Problem) => void;
  /** The waiting messages of the session were delivered to its agent. */
  readonly onDelivered: (sessionId: string) => void;
}

type PromptRun = Pick<SessionMessage, "sessionId"> & { readonly runId: string };

/**
 * Runs prompts of one-shot agents and records their answers. A prompt is recorded before its run starts, the answer when
 * the run has ended; after a restart in between, the prompt without an answer names its run.
 */
export class OneShotAgents implements AsyncDisposable {
  readonly #deps: OneShotAgentsDeps;
  /** Run ids by session: one prompt at a time. */
  readonly #starting = new Map<string, string>();
  readonly #watched = new Set<string>();
  readonly #settling = new Set<Promise<unknown>>();
  /** Records the answers to prompts that former gateways started. */
  readonly unanswered = new ThrottledCheck(defaults.leftoverCheckMs, () => this.#settleUnanswered());

  constructor(deps: OneShotAgentsDeps) {
    this.#deps = deps;
  }

  /** Records a prompt and starts its run. A failed start is recorded as the answer. */
  async startPrompt<Started>(
    session: SessionRecord,
    runId: string,
    prompt: { readonly text: string; readonly actor: string; readonly fromSessionId?: string },
    start: () => Promise<Started>,
  ): Promise<Started> {
    const { id: sessionId } = session;
    const other = this.#starting.get(sessionId);
    if (other !== undefined) throw new SessionBusy(sessionId, other);
    this.#starting.set(sessionId, runId);
    try {
      await this.#assertIdle(sessionId, runId);
      const cause = `${runId}:prompt`;
      await this.#deps.history.record(sessionId, "user", { ...prompt, runId, cause });
      return await this.#start({ sessionId, runId }, start);
    } finally {
      this.#starting.delete(sessionId);
    }
  }

  /** The waiting messages of a session, as text to put before the prompt. */
  async pendingMessages(session: SessionRecord): Promise<string> {
    const { history, sessions } = this.#deps;
    return (await packMessages(await history.waiting(session.id), sessions, defaults.agentCarriedChars)).text;
  }

  /** Ids of the messages in the prompt that the session's agent works on. */
  async messagesInPrompt({ id: sessionId, backend }: SessionRecord): Promise<ReadonlySet<string>> {
    if (backend !== CLI_BACKEND) return new Set();
    const [prompt] = await this.#deps.store.listUnansweredMessages({ sessionId }, 1);
    return new Set(prompt === undefined ? [] : await this.#messagesCarriedBy(prompt));
  }

  /** The result of an ended run, recorded if it was not. Null: the run has not ended, or had no prompt. */
  async result(session: SessionRecord, runId: string): Promise<OneShotResult | null> {
    const said = await this.#deps.history.list(session.id, { runId, limit: 2 });
    const answer = said.find(({ role }) => role !== "user");
    const { agentSessionId } = (await this.#deps.sessions.get(session.id)) ?? session;
    if (answer !== undefined) return resultFromMessage(answer, agentSessionId);
    return said.length === 0 ? null : this.#settle({ sessionId: session.id, runId });
  }

  /** True: there are prompts without an answer. */
  async #settleUnanswered(): Promise<boolean> {
    const { store, supervisor } = this.#deps;
    const unanswered = await store.listUnansweredMessages(
      { gatewayInstanceId: supervisor.instanceId },
      MAX_UNANSWERED,
    );
    for (const { sessionId, runId, at, text } of unanswered) {
      if (runId === null || this.#starting.get(sessionId) === runId || this.#watched.has(runId)) continue;
      this.#resendPrompt(runId, text);
      // A caller of the former gateway retries for this long.
      const late = Date.now() - at > defaults.callerOwnerLossMs;
      if (late || (await supervisor.getRun(runId)) !== null) this.#watch({ sessionId, runId });
    }
    return unanswered.length > 0;
  }

  /** Sends the rest of a prompt that a former gateway did not write completely. */
  #resendPrompt(runId: string, prompt: string): void {
    const run = this.#deps.supervisor.run(runId);
    // Fails if the prompt was on the command line, or the input is closed.
    run
      ?.write(prompt, 0)
      .then(() => run.closeStdin())
      .catch(() => undefined);
  }

  async #assertIdle(sessionId: string, runId: string): Promise<void> {
    const { supervisor } = this.#deps;
    const known = await supervisor.getRun(runId);
    // A run of another session.
    if (known !== null && known.sessionId !== sessionId) throw new RunExists(runId);
    const open = await supervisor.listRuns({ sessionId, states: OPEN_RUN_STATES, withoutLabels: true });
    const other = open.find((run) => run.backendId === CLI_BACKEND && run.runId !== runId);
    if (other !== undefined) throw new SessionBusy(sessionId, other.runId);
  }

  async #start<Started>(promptRun: PromptRun, start: () => Promise<Started>): Promise<Started> {
    try {
      return await start();
    } catch (error) {
      // A repeated request: the first run gives the answer.
      if (!(error instanceof RunExists))
        await this.#recordAnswer(promptRun, failedResult((error as Error).message));
      throw error;
    } finally {
      this.#watch(promptRun);
    }
  }

  #watch(promptRun: PromptRun): void {
    const { runId } = promptRun;
    if (this.#watched.has(runId)) return;
    this.#watched.add(runId);
    const ended = this.#deps.supervisor.run(runId)?.wait() ?? Promise.resolve();
    ended
      .then(() => this.#settle(promptRun))
      .catch((cause: unknown) => {
        // The next gateway records the answer.
        if (cause instanceof SupervisorClosed) return;
        // The next sweep retries.
        this.unanswered.wake();
        this.#deps.onProblem({ runId, message: "the agent's answer could not be recorded", cause });
      })
      .finally(() => this.#watched.delete(runId));
  }

  /** Records the answer of an ended run. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#settling);
  }

  #settle(promptRun: PromptRun): Promise<OneShotResult | null> {
    const settling = this.#settleOnce(promptRun);
    this.#settling.add(settling);
    return settling.finally(() => this.#settling.delete(settling));
  }

  async #settleOnce(promptRun: PromptRun): Promise<OneShotResult | null> {
    const record = await this.#deps.supervisor.getRun(promptRun.runId);
    if (record !== null && record.state !== "exited") return null;
    return this.#recordAnswer(
      promptRun,
      record === null ? failedResult("it was never started") : await this.#readResult(promptRun, record),
    );
  }

  async #acknowledgeMessages(sessionId: string, runId: string): Promise<void> {
    const { history } = this.#deps;
    const said = await history.list(sessionId, { runId, limit: 2 });
    const prompt = said.find(({ role }) => role === "user");
    const messages = prompt === undefined ? [] : await this.#messagesCarriedBy(prompt);
    if (messages.length === 0) return;
    await history.acknowledge(sessionId, messages);
    this.#deps.onDelivered(sessionId);
  }

  /** The waiting messages that the prompt contains. */
  async #messagesCarriedBy({ sessionId, seq, text }: SessionMessage): Promise<readonly string[]> {
    const { history, sessions } = this.#deps;
    const waiting = await history.waiting(sessionId);
    return findDelivered(
      text,
      waiting.filter((message) => message.seq < seq),
      sessions,
    );
  }

  async #readResult({ sessionId, runId }: PromptRun, record: RunRecord): Promise<OneShotResult> {
    const { supervisor, sessions, agents } = this.#deps;
    const text = async (stream: "stdout" | "stderr", maxChars: number): Promise<string> =>
      (
        await readOutputText(
          (name, options) => supervisor.readOutput(runId, name, options),
          stream,
          0,
          maxChars,
          true,
        )
      ).text;
    const session = await sessions.get(sessionId);
    const form = agents.get(session?.agentId ?? "")?.cli;
    const result = oneShotResult(form?.output ?? "text", {
      stdout: await text("stdout", defaults.agentSpoolBytes),
      stderr: await text("stderr", 2 * defaults.agentComplaintChars),
      failure: describeFailure(record),
    });
    if (result.agentSessionId !== null || result.error !== null) return result;
    if (form === undefined || !takesNewSessionId(form)) return result;
    return { ...result, agentSessionId: session?.agentSessionId ?? newAgentSessionId(runId) };
  }

  /** Records an answer once; the first one counts. */
  async #recordAnswer({ sessionId, runId }: PromptRun, result: OneShotResult): Promise<OneShotResult> {
    const { sessions, history } = this.#deps;
    const { text, error, agentSessionId } = result;
    if (agentSessionId !== null) await sessions.setAgentSession(sessionId, agentSessionId);
    if (error === null) await this.#acknowledgeMessages(sessionId, runId);
    const actor = `run:${runId}`;
    const saying = { actor, runId, cause: `${runId}:answer` };
    const recorded =
      error === null
        ? history.record(sessionId, "agent", { ...saying, text })
        : history.record(sessionId, "system", { ...saying, text: failureText(error, text) });
    return recorded.then(
      (message) => resultFromMessage(message, agentSessionId),
      (cause: unknown) => {
        // The session was closed meanwhile.
        if (cause instanceof SessionClosed) return result;
        throw cause;
      },
    );
  }
}

function failedResult(error: string): OneShotResult {
  return { text: "", error, agentSessionId: null };
}

const PARTIAL_ANSWER_HEADING = "\n\nBefore, it said:\n\n";

function failureText(error: string, text: string): string {
  return text === "" ? error : firstChars(`${error}${PARTIAL_ANSWER_HEADING}${text}`, defaults.messageChars);
}

function resultFromMessage({ role, text }: SessionMessage, agentSessionId: string | null): OneShotResult {
  if (role === "agent") return { text, error: null, agentSessionId };
  const [error = "", ...before] = text.split(PARTIAL_ANSWER_HEADING);
  return { text: before.join(PARTIAL_ANSWER_HEADING), error, agentSessionId };
}

/** Null: nothing. */
function describeFailure(record: RunRecord): string | null {
  const failure = failureKindOf(record);
  const { exit } = record;
  if (failure === null || exit === null) return null;
  if (failure === "exit-code")
    return `it exited with code ${exit.code === null ? "?" : formatExitCode(exit.code)}`;
  if (failure === "signal") return `it was ended by ${exit.signal ?? "a signal"}`;
  return exit.detail === null ? failure : `${failure} (${exit.detail})`;
}
