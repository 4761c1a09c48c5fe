import type { Clock, Timer } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import type {
  AcpPermissionRequest,
  AcpTurn,
  NewAcpUpdate,
  PermissionDecision,
  PermissionOption,
  PermissionVerdict,
} from "../../model/acp.js";
import { newPermissionId } from "../../model/ids.js";
import type { NewRunEvent } from "../../model/run-event.js";
import {
  type ApprovalQuestion as WholeQuestion,
  type LabelledText,
  questionAboutText,
} from "../../sessions/approval-question.js";
import type { AcpChange } from "../../store/acp/store.js";
import { firstChars, redactedExcerpt } from "../../text/truncate.js";
import type { SessionWriter } from "../session-writer.js";
import type { AcpConnection } from "../wire/connection.js";
import type { AgentRpcRequest } from "../wire/handlers.js";
import type { RpcId } from "../wire/message.js";
import { type ParsedPermissionRequest, parsePermissionRequest } from "./parse-permission.js";
import { decidePermission, type selectOption } from "./permission-policy.js";

/** What a question is judged by, of the turn it belongs to. */
export interface PermissionTurn extends Pick<AcpTurn, "turnId"> {
  readonly cancelled: boolean;
  /** What was said of the tool call before. */
  tool(id: string): { readonly kind: string; readonly title: string } | null;
}

export interface PermissionRequestsDeps {
  readonly writer: SessionWriter;
  readonly clock: Clock;
  readonly waitMs: number;
  /** In one turn. */
  readonly maxPerTurn: number;
  readonly connection: () => AcpConnection;
  /** Null: there is none under way. */
  readonly turn: () => PermissionTurn | null;
  /** What was asked of us ourselves is carried out now, and answered with what came of it. Null: it was not. */
  readonly executeDecided: (
    permission: AcpPermissionRequest,
    decision: PermissionDecision,
  ) => Promise<void> | null;
}

type PermissionUpdates = Required<Pick<AcpChange, "updates" | "events">>;

const INVALID_PARAMS = -32_602;

/**
 * What an agent asks leave for.
 *
 *     asked ──rule──▶ decided ──▶ answered
 *       └──▶ pending ──operator, time, cancel──▶ decided ──▶ answered
 *
 * Each step is kept before the next: a question outlives the gateway, and one that was decided is answered by whichever
 * process comes next. The agent is never answered twice.
 */
export class PermissionRequests {
  readonly #deps: PermissionRequestsDeps;
  /** Not answered yet. */
  readonly #open = new Map<RpcId, AcpPermissionRequest>();
  readonly #timers = new Map<string, Timer>();
  /** Whole questions by the permission's id. In memory only, because they may contain secrets. */
  readonly #questions = new Map<string, WholeQuestion>();

  #count: { readonly turnId: string | null; readonly requests: number } = { turnId: null, requests: 0 };

  constructor(deps: PermissionRequestsDeps) {
    this.#deps = deps;
  }

  /** Null: the question was asked before this process started, or is answered. */
  questionOf(id: string): WholeQuestion | null {
    return this.#questions.get(id) ?? null;
  }

  /** Adds a question that an earlier process received, as it is known now. */
  setQuestion(id: string, question: WholeQuestion): void {
    if (this.unanswered.some((each) => each.id === id)) this.#questions.set(id, question);
  }

  get unanswered(): readonly AcpPermissionRequest[] {
    return [...this.#open.values()];
  }

  /** Those that an earlier process was asked. */
  restore(permissions: readonly AcpPermissionRequest[]): void {
    this.restoreUnanswerable(permissions);
    for (const permission of permissions) {
      if (permission.decision === null) this.#expireLater(permission);
      else void this.#answer(permission, permission.decision);
    }
  }

  /** The same of an agent that has ended: nobody is there to be answered. */
  restoreUnanswerable(permissions: readonly AcpPermissionRequest[]): void {
    for (const permission of permissions) this.#open.set(permission.rpcId, permission);
  }

  async onRequest({ id, params, end }: AgentRpcRequest): Promise<void> {
    const { writer, connection } = this.#deps;
    const asked = parsePermissionRequest(params);
    if (asked === null) {
      await writer.commit(() => ({ session: { end } }));
      const error = { code: INVALID_PARAMS, message: "Not a request for permission" };
      await this.#writtenOrClosed(connection().answer(id, { error }));
      return;
    }
    if (this.countOrClose()) return;
    await this.record(
      id,
      end,
      () => this.judge(id, asked),
      ({ title }) =>
        questionAboutText(["title", asked.title ?? title ?? ""], this.#boundDetails(asked.details)),
    );
  }

  /** Kept with the offset after it, and with what else is to be known of it; then decided, now or later. */
  async record(
    id: RpcId,
    end: number,
    judge: () => AcpPermissionRequest,
    question: (permission: AcpPermissionRequest) => WholeQuestion,
    more: readonly NewAcpUpdate[] = [],
  ): Promise<void> {
    let permission: AcpPermissionRequest | null = null;
    await this.#deps.writer.commit(
      () => {
        // Only now: a cancel that comes before this is written must find it cancelled, one that comes after, open.
        permission = judge();
        const { updates, events } = this.updatesOf(permission, permission.decision);
        return { session: { end }, newPermission: permission, updates: [...updates, ...more], events };
      },
      () => {
        if (permission === null) return;
        this.#open.set(id, permission);
        this.#questions.set(permission.id, question(permission));
      },
    );
    const open = this.#open.get(id);
    if (open === undefined) return;
    if (open.decision === null) this.#expireLater(open);
    else await this.#answer(open, open.decision);
  }

  /** Details of a question, or a note if the details of all waiting questions would take too much memory. */
  #boundDetails(details: readonly LabelledText[]): readonly LabelledText[] {
    const chars = details.reduce((sum, [label, text]) => sum + label.length + text.length, 0);
    const held = [...this.#questions.values()].reduce((sum, question) => sum + question.chars, 0);
    if (held + chars <= defaults.acpDetailChars) return details;
    return [
      [
        "note",
        `${chars} characters of details were dropped, because too many details are waiting in memory. Deny this question, or answer others first`,
      ],
    ];
  }

  /** One more in this turn. True: the agent is left, and what it asked unanswered. */
  countOrClose(): boolean {
    const { maxPerTurn: most, connection } = this.#deps;
    const { turnId } = this;
    this.#count = { turnId, requests: turnId === this.#count.turnId ? this.#count.requests + 1 : 1 };
    if (this.#count.requests <= most) return false;
    connection().close("protocol-error", `it asked more than ${most} times in one turn`);
    return true;
  }

  /** Of the turn that is under way. */
  get turnId(): string | null {
    return this.#deps.turn()?.turnId ?? null;
  }

  /** By the session's rules; with no decision: somebody is to be asked. */
  judge(id: RpcId, asked: ParsedPermissionRequest): AcpPermissionRequest {
    const { writer, clock, waitMs } = this.#deps;
    const turn = this.#deps.turn();
    const known = turn?.tool(asked.toolCallId) ?? null;
    const tool = { kind: asked.kind ?? known?.kind ?? null, title: asked.title ?? known?.title ?? null };
    const options = asked.options.map(({ optionId, name, kind }) => ({ optionId, name, kind }));
    const judged = decidePermission(writer.row.rules, tool, asked.options, { canAsk: true });
    const at = clock.wall();
    const none = turn === null || turn.cancelled;
    const byRule = judged.type === "ask" ? null : decisionByRule(judged.outcome, judged.rule, options, at);
    return {
      id: newPermissionId(),
      sessionId: writer.row.sessionId,
      turnId: turn?.turnId ?? null,
      rpcId: id,
      toolCallId: asked.toolCallId,
      kind: tool.kind,
      title: tool.title === null ? null : truncateTitle(tool.title),
      options,
      rule: judged.rule,
      askedAt: at,
      expiresAt: at + waitMs,
      decision: none ? { verdict: "cancelled", optionId: null, actor: "no turn is under way", at } : byRule,
      answered: false,
    };
  }

  /** False: it is not pending any more. */
  async decide(
    id: string,
    verdict: PermissionVerdict,
    actor: string,
    optionId: string | null = null,
  ): Promise<boolean> {
    const permission = this.unanswered.find((each) => each.id === id);
    if (permission === undefined) return false;
    const option = optionId ?? optionForVerdict(verdict, permission.options);
    // The agent is told that its question was cancelled, and so is everybody else.
    const given = verdict === "allow" && option === null ? "cancelled" : verdict;
    const decision = { verdict: given, optionId: option, actor, at: this.#deps.clock.wall() };
    const decided = await this.#deps.writer.commit(
      () => ({ decide: [{ id, decision }], ...this.updatesOf(permission, decision) }),
      () => {
        this.#open.set(permission.rpcId, { ...permission, decision });
        this.#clearTimer(id);
      },
    );
    // Not waited for: an agent that does not read must not hold up who decides, or cancels.
    if (decided) void this.#answer(permission, decision);
    return decided;
  }

  async cancelAll(actor: string): Promise<void> {
    for (const { id, decision } of this.unanswered)
      if (decision === null) await this.decide(id, "cancelled", actor);
  }

  /** The question that is answered with the answer to this request. */
  idsAnsweredBy(id: RpcId): readonly string[] {
    const permission = this.#open.get(id);
    return permission === undefined ? [] : [permission.id];
  }

  /** Its answer is on its way. */
  markAnswered(ids: readonly string[]): void {
    for (const { id, rpcId } of this.unanswered) if (ids.includes(id)) this.#open.delete(rpcId);
    for (const id of ids) this.#questions.delete(id);
  }

  /** Nobody is there to be answered any more: what goes into the commit that says so. */
  expireAllChange(actor: string): Pick<AcpChange, "decide" | "answered" | "updates" | "events"> {
    const all = this.unanswered;
    const pending = all.filter(({ decision }) => decision === null);
    const decision = { verdict: "expired", optionId: null, actor, at: this.#deps.clock.wall() } as const;
    const news = pending.map((permission) => this.updatesOf(permission, decision));
    return {
      decide: pending.map(({ id }) => ({ id, decision })),
      answered: all.map(({ id }) => id),
      updates: news.flatMap(({ updates }) => updates),
      events: news.flatMap(({ events }) => events),
    };
  }

  clear(): void {
    for (const id of this.#timers.keys()) this.#clearTimer(id);
    this.#open.clear();
    this.#questions.clear();
  }

  /** What is to be said of it. */
  updatesOf(permission: AcpPermissionRequest, decision: PermissionDecision | null): PermissionUpdates {
    const { runId } = this.#deps.writer.row;
    const at = this.#deps.clock.wall();
    const data = { ...permission, decision };
    const updates = [{ turnId: permission.turnId, at, type: "permission", data }] as const;
    if (decision === null || runId === null) return { updates, events: [] };
    const event: NewRunEvent = {
      runId,
      at,
      rootPid: null,
      descendants: 0,
      type: "permission",
      data: {
        permissionId: permission.id,
        title: redactedExcerpt(permission.title ?? ""),
        kind: redactedExcerpt(permission.kind ?? "other"),
        verdict: decision.verdict,
        actor: decision.actor,
      },
    };
    return { updates, events: [event] };
  }

  /** What fails here is answered by the next process, or by nobody when the agent is gone. */
  async #answer(permission: AcpPermissionRequest, decision: PermissionDecision): Promise<void> {
    const carriedOut = this.#deps.executeDecided(permission, decision);
    if (carriedOut !== null) return carriedOut;
    const { optionId } = decision;
    const outcome =
      optionId === null ? { outcome: "cancelled" as const } : { outcome: "selected" as const, optionId };
    await this.#writtenOrClosed(this.#deps.connection().answer(permission.rpcId, { result: { outcome } }));
  }

  async #writtenOrClosed(written: Promise<unknown>): Promise<void> {
    await Promise.race([written.catch(() => undefined), this.#deps.connection().closed]);
  }

  #expireLater({ id, expiresAt }: AcpPermissionRequest): void {
    const { clock } = this.#deps;
    const timer = clock.setTimer(Math.max(0, expiresAt - clock.wall()), () => {
      this.decide(id, "expired", "nobody answered in time").catch(() => undefined);
    });
    this.#timers.set(id, timer);
  }

  #clearTimer(id: string): void {
    this.#timers.get(id)?.cancel();
    this.#timers.delete(id);
  }
}

function truncateTitle(title: string): string {
  const most = defaults.acpAskedChars;
  return title.length > most ? `${firstChars(title, most)}…` : title;
}

function decisionByRule(
  outcome: ReturnType<typeof selectOption>,
  rule: number | null,
  options: readonly PermissionOption[],
  at: number,
): PermissionDecision {
  const actor = rule === null ? "no rule allows it" : `rule ${rule + 1}`;
  if (outcome.outcome === "cancelled") return { verdict: "cancelled", optionId: null, actor, at };
  const { optionId } = outcome;
  const kind = options.find((each) => each.optionId === optionId)?.kind;
  return { verdict: kind === "allow_once" ? "allow" : "deny", optionId, actor, at };
}

function optionForVerdict(verdict: PermissionVerdict, options: readonly PermissionOption[]): string | null {
  if (verdict === "cancelled") return null;
  const kind = verdict === "allow" ? "allow_once" : "reject_once";
  return options.find((each) => each.kind === kind)?.optionId ?? null;
}
