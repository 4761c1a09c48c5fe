import type {
  AcpPermission,
  AcpTurn,
  NewAcpUpdate,
  PermissionChoice,
  PermissionDecided,
  PermissionVerdict,
} from "../store/acp-record.js";
import { defaults } from "../defaults.js";
import { textQuestion, type LabelledText, type Question as WholeQuestion } from "../sessions/question.js";
import type { AcpChange } from "../store/acp-store.js";
import type { NewRunEvent } from "../store/run-event.js";
import type { Clock, Timer } from "../supervisor/clock.js";
import { firstOf } from "./cut.js";
import { newPermissionId } from "./ids.js";
import type { KeptSession } from "./kept-session.js";
import { type PermissionQuestion, readPermission } from "./permission-request.js";
import { decidePermission, type pick } from "./permission.js";
import type { Connection } from "./wire/connection.js";
import { excerpt } from "./wire/excerpt.js";
import type { Question } from "./wire/handlers.js";
import type { RpcId } from "./wire/message.js";

/** What a question is judged by, of the turn it belongs to. */
export interface AskingTurn extends Pick<AcpTurn, "turnId"> {
  readonly cancelled: boolean;
  /** What was said of the tool call before. */
  tool(id: string): { readonly kind: string; readonly title: string } | null;
}

export interface QuestionsParts {
  readonly kept: KeptSession;
  readonly clock: Clock;
  readonly waitMs: number;
  /** In one turn. */
  readonly most: number;
  readonly connection: () => Connection;
  /** Null: there is none under way. */
  readonly turn: () => AskingTurn | null;
  /** What was asked of us ourselves is carried out now, and answered with what came of it. Null: it was not. */
  readonly carryOut: (permission: AcpPermission, decision: PermissionDecided) => Promise<void> | null;
}

type News = Required<Pick<AcpChange, "updates" | "events">>;

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
export class Questions {
  readonly #parts: QuestionsParts;
  /** Not answered yet. */
  readonly #open = new Map<RpcId, AcpPermission>();
  readonly #timers = new Map<string, Timer>();
  /** Whole questions by the permission's id. In memory only, because they may contain secrets. */
  readonly #whole = new Map<string, WholeQuestion>();

  #count: { readonly turnId: string | null; readonly asked: number } = { turnId: null, asked: 0 };

  constructor(parts: QuestionsParts) {
    this.#parts = parts;
  }

  /** Null: the question was asked before this process started, or is answered. */
  questionOf(id: string): WholeQuestion | null {
    return this.#whole.get(id) ?? null;
  }

  /** Adds a question that an earlier process received, as it is known now. */
  setQuestion(id: string, question: WholeQuestion): void {
    if (this.unanswered.some((each) => each.id === id)) this.#whole.set(id, question);
  }

  get unanswered(): readonly AcpPermission[] {
    return [...this.#open.values()];
  }

  /** Those that an earlier process was asked. */
  restore(permissions: readonly AcpPermission[]): void {
    this.remember(permissions);
    for (const permission of permissions) {
      if (permission.decision === null) this.#expireLater(permission);
      else void this.#answer(permission, permission.decision);
    }
  }

  /** The same of an agent that has ended: nobody is there to be answered. */
  remember(permissions: readonly AcpPermission[]): void {
    for (const permission of permissions) this.#open.set(permission.rpcId, permission);
  }

  async asked({ id, params, end }: Question): Promise<void> {
    const { kept, connection } = this.#parts;
    const asked = readPermission(params);
    if (asked === null) {
      await kept.commit(() => ({ session: { end } }));
      const error = { code: INVALID_PARAMS, message: "Not a request for permission" };
      await this.#unlessClosed(connection().answer(id, { error }));
      return;
    }
    if (this.tooMany()) return;
    await this.keep(
      id,
      end,
      () => this.judge(id, asked),
      ({ title }) => textQuestion(["title", asked.title ?? title ?? ""], this.#bounded(asked.details)),
    );
  }

  /** Kept with the offset after it, and with what else is to be known of it; then decided, now or later. */
  async keep(
    id: RpcId,
    end: number,
    judge: () => AcpPermission,
    question: (permission: AcpPermission) => WholeQuestion,
    more: readonly NewAcpUpdate[] = [],
  ): Promise<void> {
    let permission: AcpPermission | null = null;
    await this.#parts.kept.commit(
      () => {
        // Only now: a cancel that comes before this is written must find it cancelled, one that comes after, open.
        permission = judge();
        const { updates, events } = this.news(permission, permission.decision);
        return { session: { end }, newPermission: permission, updates: [...updates, ...more], events };
      },
      () => {
        if (permission === null) return;
        this.#open.set(id, permission);
        this.#whole.set(permission.id, question(permission));
      },
    );
    const open = this.#open.get(id);
    if (open === undefined) return;
    if (open.decision === null) this.#expireLater(open);
    else await this.#answer(open, open.decision);
  }

  /** Details of a question, or a note if the details of all waiting questions would take too much memory. */
  #bounded(details: readonly LabelledText[]): readonly LabelledText[] {
    const chars = details.reduce((sum, [label, text]) => sum + label.length + text.length, 0);
    const held = [...this.#whole.values()].reduce((sum, question) => sum + question.chars, 0);
    if (held + chars <= defaults.acpDetailChars) return details;
    return [
      [
        "note",
        `${chars} characters of details were dropped, because too many details are waiting in memory. Deny this question, or answer others first`,
      ],
    ];
  }

  /** One more in this turn. True: the agent is left, and what it asked unanswered. */
  tooMany(): boolean {
    const { most, connection } = this.#parts;
    const { turnId } = this;
    this.#count = { turnId, asked: turnId === this.#count.turnId ? this.#count.asked + 1 : 1 };
    if (this.#count.asked <= most) return false;
    connection().close("protocol-error", `it asked more than ${most} times in one turn`);
    return true;
  }

  /** Of the turn that is under way. */
  get turnId(): string | null {
    return this.#parts.turn()?.turnId ?? null;
  }

  /** By the session's rules; with no decision: somebody is to be asked. */
  judge(id: RpcId, asked: PermissionQuestion): AcpPermission {
    const { kept, clock, waitMs } = this.#parts;
    const turn = this.#parts.turn();
    const known = turn?.tool(asked.toolCallId) ?? null;
    const tool = { kind: asked.kind ?? known?.kind ?? null, title: asked.title ?? known?.title ?? null };
    const options = asked.options.map(({ optionId, name, kind }) => ({ optionId, name, kind }));
    const judged = decidePermission(kept.row.rules, tool, asked.options, { canAsk: true });
    const at = clock.wall();
    const none = turn === null || turn.cancelled;
    const byRule = judged.type === "ask" ? null : decidedBy(judged.outcome, judged.rule, options, at);
    return {
      id: newPermissionId(),
      sessionId: kept.row.sessionId,
      turnId: turn?.turnId ?? null,
      rpcId: id,
      toolCallId: asked.toolCallId,
      kind: tool.kind,
      title: tool.title === null ? null : shortened(tool.title),
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
    const option = optionId ?? chosen(verdict, permission.options);
    // The agent is told that its question was cancelled, and so is everybody else.
    const given = verdict === "allow" && option === null ? "cancelled" : verdict;
    const decision = { verdict: given, optionId: option, actor, at: this.#parts.clock.wall() };
    const decided = await this.#parts.kept.commit(
      () => ({ decide: [{ id, decision }], ...this.news(permission, decision) }),
      () => {
        this.#open.set(permission.rpcId, { ...permission, decision });
        this.#forgetTimer(id);
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
  answering(id: RpcId): readonly string[] {
    const permission = this.#open.get(id);
    return permission === undefined ? [] : [permission.id];
  }

  /** Its answer is on its way. */
  close(ids: readonly string[]): void {
    for (const { id, rpcId } of this.unanswered) if (ids.includes(id)) this.#open.delete(rpcId);
    for (const id of ids) this.#whole.delete(id);
  }

  /** Nobody is there to be answered any more: what goes into the commit that says so. */
  gone(actor: string): Pick<AcpChange, "decide" | "answered" | "updates" | "events"> {
    const all = this.unanswered;
    const pending = all.filter(({ decision }) => decision === null);
    const decision = { verdict: "expired", optionId: null, actor, at: this.#parts.clock.wall() } as const;
    const news = pending.map((permission) => this.news(permission, decision));
    return {
      decide: pending.map(({ id }) => ({ id, decision })),
      answered: all.map(({ id }) => id),
      updates: news.flatMap(({ updates }) => updates),
      events: news.flatMap(({ events }) => events),
    };
  }

  forget(): void {
    for (const id of this.#timers.keys()) this.#forgetTimer(id);
    this.#open.clear();
    this.#whole.clear();
  }

  /** What is to be said of it. */
  news(permission: AcpPermission, decision: PermissionDecided | null): News {
    const { runId } = this.#parts.kept.row;
    const at = this.#parts.clock.wall();
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
        title: excerpt(permission.title ?? ""),
        kind: excerpt(permission.kind ?? "other"),
        verdict: decision.verdict,
        actor: decision.actor,
      },
    };
    return { updates, events: [event] };
  }

  /** What fails here is answered by the next process, or by nobody when the agent is gone. */
  async #answer(permission: AcpPermission, decision: PermissionDecided): Promise<void> {
    const carriedOut = this.#parts.carryOut(permission, decision);
    if (carriedOut !== null) return carriedOut;
    const { optionId } = decision;
    const outcome =
      optionId === null ? { outcome: "cancelled" as const } : { outcome: "selected" as const, optionId };
    await this.#unlessClosed(this.#parts.connection().answer(permission.rpcId, { result: { outcome } }));
  }

  async #unlessClosed(written: Promise<unknown>): Promise<void> {
    await Promise.race([written.catch(() => undefined), this.#parts.connection().closed]);
  }

  #expireLater({ id, expiresAt }: AcpPermission): void {
    const { clock } = this.#parts;
    const timer = clock.after(Math.max(0, expiresAt - clock.wall()), () => {
      this.decide(id, "expired", "nobody answered in time").catch(() => undefined);
    });
    this.#timers.set(id, timer);
  }

  #forgetTimer(id: string): void {
    this.#timers.get(id)?.cancel();
    this.#timers.delete(id);
  }
}

function shortened(title: string): string {
  const most = defaults.acpAskedChars;
  return title.length > most ? `${firstOf(title, most)}…` : title;
}

function decidedBy(
  outcome: ReturnType<typeof pick>,
  rule: number | null,
  options: readonly PermissionChoice[],
  at: number,
): PermissionDecided {
  const actor = rule === null ? "no rule allows it" : `rule ${rule + 1}`;
  if (outcome.outcome === "cancelled") return { verdict: "cancelled", optionId: null, actor, at };
  const { optionId } = outcome;
  const kind = options.find((each) => each.optionId === optionId)?.kind;
  return { verdict: kind === "allow_once" ? "allow" : "deny", optionId, actor, at };
}

function chosen(verdict: PermissionVerdict, options: readonly PermissionChoice[]): string | null {
  if (verdict === "cancelled") return null;
  const kind = verdict === "allow" ? "allow_once" : "reject_once";
  return options.find((each) => each.kind === kind)?.optionId ?? null;
}
