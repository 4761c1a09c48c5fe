import { type Clock, systemClock, type Timer } from "../async/clock.js";
import { deferred, type Deferred } from "../async/deferred.js";
import { defaults } from "../defaults.js";
import { TooManyApprovals } from "../errors.js";
import type { Approval, ApprovalDecision, NewApproval, SessionRecord } from "../model/session.js";
import { newApprovalId } from "../model/ids.js";
import type { SessionStore } from "../store/sessions/store.js";
import { checkExecSize } from "../supervisor/spawn/command.js";
import { maskWord, UNMASKED } from "../text/mask.js";
import { displayCommand, redactArguments } from "../text/redact.js";
import {
  type ApprovalQuestion,
  assertAnswersQuestion,
  type CommandToApprove,
  questionAboutCommand,
  questionHead,
  type QuestionHead,
} from "./approval-question.js";
import { NO_PAGE, pageOfQuestion, type QuestionPage } from "./question-pages.js";

export interface ApprovalsDependencies {
  readonly store: SessionStore;
  readonly gatewayInstanceId: string;
  readonly clock?: Clock;
  /** How long a question waits for an answer. */
  readonly waitMs?: number;
  /** Told of every question and every end of one, for the operator's eyes. */
  readonly onChange?: (approval: ApprovalView) => void;
  readonly onProblem: (message: string, cause: unknown) => void;
}

/** What a session wants to execute, and which of its rules asked. */
export interface ExecApprovalRequest extends CommandToApprove {
  readonly rule: number | null;
}

/** An approval as the operator sees it. While it waits here, its command is shown without cutting code out of it. */
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
 * Questions to the operator, and those who wait for the answers.
 *
 *     ask ──▶ pending ──decide──▶ allow | deny
 *                └──time, caller gone, session closed, gateway stopped──▶ expired
 *
 * The row comes first and is written once: whoever waits is told what the row says. Time is this process's monotonic
 * clock; a question that outlives the process has nobody waiting for it, and expires at the next start.
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

  /** Use `openApprovals`: what an earlier process left must expire first. */
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

  /** Resolves with the decision, which is `expired` when nobody decided. A caller that is gone ends its question by the signal. */
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
    // Before the row can be seen: an answer may come as soon as it is.
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
    // A row without anybody waiting must not say that something was allowed: nothing would be executed.
    if (!waiting) await this.#expireUnattended(id);
    const approval = await this.#store.getApproval(id);
    if (approval === null) return null;
    this.#notify(approval);
    return { approval: this.#view(approval), decided };
  }

  async listPending(): Promise<readonly ApprovalView[]> {
    return (await this.#store.listApprovals({ pending: true })).map((approval) => this.#view(approval));
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

  /** Those that wait, then every question and every end of one, until `gone` aborts. */
  async *follow(gone: AbortSignal): AsyncGenerator<ApprovalView, void, undefined> {
    const news: ApprovalView[] = [];
    const asked = new Set<string>();
    let wake = (): void => undefined;
    let late = false;
    const leave = (): void => wake();
    // Heard before those that wait are read: what comes in between is told, and told once.
    const listener = (approval: ApprovalView): void => {
      if (news.length < defaults.approvalsUnread) news.push(approval);
      else late = true;
      wake();
    };
    this.#followers.add(listener);
    gone.addEventListener("abort", leave);
    try {
      news.unshift(...(await this.listPending()));
      // Who does not read must neither make it pile up nor miss some of it: the end tells.
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

  /** Its rows have expired with it; those who wait are told. */
  async sessionClosed(sessionId: string): Promise<void> {
    const ids = [...this.#waiting].filter(([, each]) => each.sessionId === sessionId).map(([id]) => id);
    await this.#expire(ids, "session closed");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#expire([...this.#waiting.keys()], "gateway stopped");
  }

  /** What a former process of this gateway left. Returns how many. */
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

  /** Never rejects: whoever waits gets an answer also when it cannot be recorded. The row then expires at the next start. */
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
        `approvals ${ids.join(", ")} expired (${actor}), which could not be recorded; nothing is executed`,
        cause,
      );
    }
    for (const id of ids) this.#answer(id, { verdict: "expired", actor, at });
  }

  #notify(approval: Approval): void {
    const { id, decision } = approval;
    if (decision !== null && this.#answer(id, decision)) this.#onChange(this.#view(approval));
  }

  /** Once. Nobody waits from here on, not only when the one who did has woken up. */
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

/** For a gateway that starts: nobody waits any more for what its former process asked. */
export async function openApprovals(dependencies: ApprovalsDependencies): Promise<Approvals> {
  const approvals = new Approvals(dependencies);
  await approvals.expireFromEarlierProcess();
  return approvals;
}
