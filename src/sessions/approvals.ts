import { type Clock, systemClock, type Timer } from "../async/clock.js";
import { deferred, type Deferred } from "../async/deferred.js";
import { defaults } from "../defaults.js";
import { TooManyApprovals } from "../errors.js";
import { newApprovalId } from "../model/ids.js";
import type { Approval, ApprovalDecision, NewApproval } from "../model/exec/approval.js";
import type { SessionRecord } from "../model/session.js";
import type { SessionStore } from "../store/sessions/contract.js";
import { checkExecSize } from "../supervisor/spawn/plan.js";
import { maskWord, UNMASKED } from "../text/mask-arguments.js";
import { displayCommand, redactArguments } from "../text/redact.js";
import {
  type ApprovalQuestion,
  assertAnswersQuestion,
  type CommandToApprove,
  questionAboutCommand,
  questionHead,
  type QuestionHead,
} from "./approval-question.js";
import { NO_PAGE, pageOfQuestion, type QuestionPage } from "./paginate-question.js";

export interface ApprovalsDependencies {
  readonly store: SessionStore;
  readonly gatewayInstanceId: string;
  readonly clock?: Clock;
  /** How long a question waits for an answer. */
  readonly waitMs?: number;
  /** Called for every question and every end of one; only for the operator. */
  readonly onChange?: (approval: ApprovalView) => void;
  readonly onProblem: (message: string, cause: unknown) => void;
}

/** The command of a session, and the rule that asked. */
export interface ExecApprovalRequest extends CommandToApprove {
  readonly rule: number | null;
}

/** An approval for the operator. While it waits here, no code is cut out of its command. */
export interface ApprovalView extends Approval {
  /** Null: the question does not wait, or waits at another gateway. */
  readonly question: QuestionHead | null;
}

interface PendingApproval {
  readonly sessionId: string;
  readonly question: ApprovalQuestion;
  readonly display: Pick<Approval, "executable" | "command" | "cwd">;
  readonly answer: Deferred<ApprovalDecision>;
  timer: Timer | null;
}

/**
 * Questions to the operator, and the callers that wait for the answers.
 *
 *     ask ──▶ pending ──decide──▶ allow | deny
 *                └──time, caller gone, session closed, gateway stopped──▶ expired
 *
 * The stored row decides: a caller gets the decision of the row. The time limit is on this process's monotonic clock; a
 * question of an ended process has no caller and expires at the next start.
 */
export class Approvals implements AsyncDisposable {
  readonly #store: SessionStore;
  readonly #gatewayInstanceId: string;
  readonly #clock: Clock;
  readonly #waitMs: number;
  readonly #onChange: (approval: ApprovalView) => void;
  readonly #onProblem: (message: string, cause: unknown) => void;
  readonly #waiting = new Map<string, PendingApproval>();
  readonly #followers = new Set<(approval: ApprovalView) => void>();

  /** Use `openApprovals`: the questions of an earlier process must expire first. */
  constructor(dependencies: ApprovalsDependencies) {
    this.#store = dependencies.store;
    this.#gatewayInstanceId = dependencies.gatewayInstanceId;
    this.#clock = dependencies.clock ?? systemClock;
    this.#waitMs = dependencies.waitMs ?? defaults.approvalMs;
    this.#onChange = (approval) => {
      dependencies.onChange?.(approval);
      for (const listener of this.#followers) listener(approval);
    };
    this.#onProblem = dependencies.onProblem;
  }

  /** Resolves with the decision; `expired`: there was none in time. Aborting the signal ends the question. */
  async ask(
    { id: sessionId }: Pick<SessionRecord, "id">,
    request: ExecApprovalRequest,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<ApprovalDecision> {
    const waitingToo = [...this.#waiting.values()].filter((each) => each.sessionId === sessionId);
    if (waitingToo.length >= defaults.approvalsPending)
      throw new TooManyApprovals(sessionId, defaults.approvalsPending);
    // The operator is not asked about a command that cannot be executed; this also limits the size of the question.
    checkExecSize(request.argv, request.env.set);
    const approval = this.#describe(sessionId, request);
    const waiting: PendingApproval = { sessionId, ...buildPending(request), answer: deferred(), timer: null };
    // Registered before the row is written: an answer may arrive at once.
    this.#waiting.set(approval.id, waiting);
    const gone = (): void => void this.#expire([approval.id], "caller gone");
    try {
      if (!(await this.#store.insertApproval(approval)))
        return { verdict: "expired", actor: "session closed", at: approval.askedAt };
      waiting.timer = this.#clock.setTimer(
        this.#waitMs,
        () => void this.#expire([approval.id], "nobody answered in time"),
      );
      signal?.addEventListener("abort", gone, { once: true });
      this.#onChange(this.#view({ ...approval, decision: null }));
      if (signal?.aborted === true) gone();
      return await waiting.answer.promise;
    } finally {
      signal?.removeEventListener("abort", gone);
      waiting.timer?.cancel();
      this.#waiting.delete(approval.id);
    }
  }

  /**
   * Null: no such question. Not decided: the answer came too late, or the question waits at another gateway; the approval
   * says which. `digest`: of the question that was shown; needed to allow a question that the list does not show whole.
   */
  async decide(
    id: string,
    verdict: "allow" | "deny",
    actor: string,
    digest?: string,
  ): Promise<{ readonly approval: ApprovalView; readonly decided: boolean } | null> {
    const asked = this.#waiting.get(id)?.question;
    if (asked !== undefined) assertAnswersQuestion(asked, verdict, digest, `holdfast approvals show ${id}`);
    const waiting = asked !== undefined;
    const decided =
      waiting && (await this.#store.decideApproval(id, { verdict, actor, at: this.#clock.wall() }));
    // Without a waiting caller, nothing would be executed, so the row must not say `allow`.
    if (!waiting) await this.#expireUnattended(id);
    const approval = await this.#store.getApproval(id);
    if (approval === null) return null;
    this.#notify(approval);
    return { approval: this.#view(approval), decided };
  }

  async listPending(): Promise<readonly ApprovalView[]> {
    return (await this.#store.listApprovals({ pending: true })).map((approval) => this.#view(approval));
  }

  /** The decided questions, the newest first. */
  async listDecided(limit: number): Promise<readonly ApprovalView[]> {
    const found = await this.#store.listApprovals({ pending: false, newestFirst: true, limit });
    return found.map((approval) => this.#view(approval));
  }

  /** A page of a waiting question. Null: no such approval; without pages: it does not wait at this gateway. */
  async page(
    id: string,
    page: number,
    reveal: boolean,
  ): Promise<(QuestionPage & { readonly approval: ApprovalView }) | null> {
    const approval = await this.get(id);
    if (approval === null) return null;
    const question = this.#waiting.get(id)?.question;
    if (question === undefined) return { approval, ...NO_PAGE };
    return { approval, ...(await pageOfQuestion(question, page, reveal)) };
  }

  /** Yields the waiting questions, then every new question and every end of one, until `gone` aborts. */
  async *follow(gone: AbortSignal): AsyncGenerator<ApprovalView, void, undefined> {
    const news: ApprovalView[] = [];
    const asked = new Set<string>();
    let wake = (): void => undefined;
    let late = false;
    const leave = (): void => wake();
    // Subscribed before the waiting questions are read, so that none is missed or repeated.
    const listener = (approval: ApprovalView): void => {
      if (news.length < defaults.approvalsUnread) news.push(approval);
      else late = true;
      wake();
    };
    this.#followers.add(listener);
    gone.addEventListener("abort", leave);
    try {
      news.unshift(...(await this.listPending()));
      // For a reader that does not keep up, the stream ends.
      while (!gone.aborted && !late) {
        for (let next = news.shift(); next !== undefined && !late; next = news.shift()) {
          if (next.decision !== null) asked.delete(next.id);
          else if (asked.has(next.id)) continue;
          else asked.add(next.id);
          yield next;
        }
        if (!gone.aborted && news.length === 0) await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      this.#followers.delete(listener);
      gone.removeEventListener("abort", leave);
    }
  }

  async get(id: string): Promise<ApprovalView | null> {
    const approval = await this.#store.getApproval(id);
    return approval === null ? null : this.#view(approval);
  }

  #view(approval: Approval): ApprovalView {
    const waiting = approval.decision === null ? this.#waiting.get(approval.id) : undefined;
    if (waiting === undefined) return { ...approval, question: null };
    return { ...approval, ...waiting.display, question: questionHead(waiting.question) };
  }

  /** The session's rows have expired with it; ends the waiting calls. */
  async sessionClosed(sessionId: string): Promise<void> {
    const ids = [...this.#waiting].filter(([, each]) => each.sessionId === sessionId).map(([id]) => id);
    await this.#expire(ids, "session closed");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#expire([...this.#waiting.keys()], "gateway stopped");
  }

  /** Expires the questions of an earlier process of this gateway. Resolves with their number. */
  async expireFromEarlierProcess(): Promise<number> {
    const left = await this.#store.listApprovals({
      pending: true,
      gatewayInstanceId: this.#gatewayInstanceId,
    });
    const ids = left.map(({ id }) => id).filter((id) => !this.#waiting.has(id));
    return (await this.#store.expireApprovals(ids, "gateway restarted", this.#clock.wall())).length;
  }

  async #expireUnattended(id: string): Promise<void> {
    const approval = await this.#store.getApproval(id);
    if (approval?.decision !== null || approval.gatewayInstanceId !== this.#gatewayInstanceId) return;
    await this.#store.expireApprovals([id], "nobody waits for it", this.#clock.wall());
  }

  /** Never rejects: a caller gets its answer even if it cannot be recorded. The row then expires at the next start. */
  async #expire(ids: readonly string[], actor: string): Promise<void> {
    if (ids.length === 0) return;
    const at = this.#clock.wall();
    try {
      await this.#store.expireApprovals(ids, actor, at);
      for (const id of ids) {
        const approval = await this.#store.getApproval(id);
        if (approval !== null) this.#notify(approval);
      }
    } catch (cause) {
      this.#onProblem(
        `approvals ${ids.join(", ")} expired (${actor}), but that could not be recorded; nothing is executed`,
        cause,
      );
    }
    for (const id of ids) this.#answer(id, { verdict: "expired", actor, at });
  }

  #notify(approval: Approval): void {
    const { id, decision } = approval;
    if (decision !== null && this.#answer(id, decision)) this.#onChange(this.#view(approval));
  }

  /** Ends the wait, once. */
  #answer(id: string, decision: ApprovalDecision): boolean {
    const waiting = this.#waiting.get(id);
    waiting?.answer.resolve(decision);
    return this.#waiting.delete(id);
  }

  /** The stored form, redacted: arguments and parts of paths may be secrets. */
  #describe(sessionId: string, { executable, argv, cwd, rule }: ExecApprovalRequest): NewApproval {
    const askedAt = this.#clock.wall();
    return {
      id: newApprovalId(),
      sessionId,
      gatewayInstanceId: this.#gatewayInstanceId,
      executable: redactArguments([executable]).join(""),
      command: displayCommand(argv),
      cwd: redactArguments([cwd]).join(""),
      rule,
      askedAt,
      expiresAt: askedAt + this.#waitMs,
    };
  }
}

function buildPending(request: ExecApprovalRequest): Pick<PendingApproval, "question" | "display"> {
  const question = questionAboutCommand(request);
  const { executable, cwd } = request;
  return {
    question,
    display: {
      executable: maskWord(executable, UNMASKED).text,
      command: question.summary,
      cwd: maskWord(cwd, UNMASKED).text,
    },
  };
}

/** Opens the approvals of a gateway that starts: the questions of its earlier process expire. */
export async function openApprovals(dependencies: ApprovalsDependencies): Promise<Approvals> {
  const approvals = new Approvals(dependencies);
  await approvals.expireFromEarlierProcess();
  return approvals;
}
