import type { Clock, Timer } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import type {
  AcpPermissionRequest,
  NewAcpUpdate,
  PermissionDecision,
  PermissionVerdict,
} from "../../model/acp/acp.js";
import type { RememberedRule } from "../../model/acp/permission-rule.js";
import {
  type ApprovalQuestion,
  type LabelledText,
  questionAboutText,
} from "../../sessions/approval-question.js";
import type { AcpChange } from "../../store/acp/contract.js";
import type { SessionWriter } from "../session-writer.js";
import type { AcpConnection } from "../wire/connection.js";
import type { AgentRpcRequest } from "../wire/connection-contract.js";
import { INVALID_PARAMS, type RpcId } from "../wire/message.js";
import { DECLINED_ELICITATION, elicitationUpdate } from "./elicitation.js";
import {
  type JudgedTurn,
  judgePermission,
  optionForVerdict,
  type ParsedPermissionRequest,
  parsePermissionRequest,
  permissionUpdates,
  type PermissionUpdates,
} from "./permission-policy.js";
import type { RuleLayers } from "./rule-layers.js";

export interface PermissionRequestsDeps {
  readonly writer: SessionWriter;
  readonly clock: Clock;
  readonly waitMs: number;
  readonly maxPerTurn: number;
  /** Rules beside those of the session. */
  readonly ruleLayers: () => Promise<RuleLayers>;
  readonly connection: () => AcpConnection;
  /** Null: no turn is running. */
  readonly turn: () => JudgedTurn | null;
  /** Carries out and answers a request that was for an operation of the client itself. Null: it was not. */
  readonly executeDecided: (
    permission: AcpPermissionRequest,
    decision: PermissionDecision,
  ) => Promise<void> | null;
}

export interface DecideOptions {
  /** Null: the first option that answers once. */
  readonly optionId?: string | null;
  /** Stored with the decision: it answers later requests. */
  readonly rule?: RememberedRule | null;
}

/**
 * The permission requests of one agent process.
 *
 *     asked ──rule──▶ decided ──▶ answered
 *       └──▶ pending ──operator, time, cancel──▶ decided ──▶ answered
 *
 * Each step is stored before the next: a request outlives the gateway process, and the next process answers a request
 * that was decided. The agent is never answered twice.
 */
export class PermissionRequests {
  readonly #deps: PermissionRequestsDeps;
  /** Requests without an answer. */
  readonly #open = new Map<RpcId, AcpPermissionRequest>();
  readonly #timers = new Map<string, Timer>();
  /** Whole questions by the permission's id. In memory only, because they may contain secrets. */
  readonly #questions = new Map<string, ApprovalQuestion>();

  #count: { readonly turnId: string | null; readonly requests: number } = { turnId: null, requests: 0 };

  constructor(deps: PermissionRequestsDeps) {
    this.#deps = deps;
  }

  /** Null: it was asked before this process started, or is answered. */
  questionOf(id: string): ApprovalQuestion | null {
    return this.#questions.get(id) ?? null;
  }

  /** Adds the question of a request that an earlier process received. */
  setQuestion(id: string, question: ApprovalQuestion): void {
    if (this.unanswered.some((each) => each.id === id)) this.#questions.set(id, question);
  }

  get unanswered(): readonly AcpPermissionRequest[] {
    return [...this.#open.values()];
  }

  /** Takes over the requests that an earlier process received. */
  restore(permissions: readonly AcpPermissionRequest[]): void {
    this.restoreUnanswerable(permissions);
    for (const permission of permissions) {
      if (permission.decision === null) this.#expireLater(permission);
      else void this.#answer(permission, permission.decision);
    }
  }

  /** Takes over the requests of an agent that has ended and cannot be answered. */
  restoreUnanswerable(permissions: readonly AcpPermissionRequest[]): void {
    for (const permission of permissions) this.#open.set(permission.rpcId, permission);
  }

  async onRequest({ id, params, end }: AgentRpcRequest): Promise<void> {
    const { writer, connection } = this.#deps;
    const asked = parsePermissionRequest(params);
    if (asked === null) {
      await writer.commit(() => ({ session: { end } }));
      const error = { code: INVALID_PARAMS, message: "Not a permission request" };
      await this.#writtenOrClosed(connection().answer(id, { error }));
      return;
    }
    if (this.countOrClose()) return;
    const judge = await this.prepareJudge();
    await this.record(
      id,
      end,
      () => judge(id, asked),
      ({ title }) =>
        questionAboutText(["title", asked.title ?? title ?? ""], this.#boundDetails(asked.details)),
    );
  }

  /** Declines a form or a URL. The answer is sent before it is stored, so that a crash repeats it and does not lose it. */
  async onElicitation({ id, params, end }: AgentRpcRequest): Promise<void> {
    const { writer, connection, clock } = this.#deps;
    if (this.countOrClose()) return;
    await this.#writtenOrClosed(connection().answer(id, { result: DECLINED_ELICITATION }));
    const updates = [elicitationUpdate(params, this.turnId, clock.wall())];
    await writer.commit(() => ({ session: { end }, updates }));
  }

  /** Stores the request together with the offset after it and `more`; then decides it, now or later. */
  async record(
    id: RpcId,
    end: number,
    judge: () => AcpPermissionRequest,
    question: (permission: AcpPermissionRequest) => ApprovalQuestion,
    more: readonly NewAcpUpdate[] = [],
  ): Promise<void> {
    let permission: AcpPermissionRequest | null = null;
    await this.#deps.writer.commit(
      () => {
        // Judged inside the commit: a cancel before it decides the request, a cancel after it finds the request open.
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

  /** The details of a question, or a note if the details of all pending questions would take too much memory. */
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

  /** Counts a request of this turn. True: there were too many, and the connection is closed. */
  countOrClose(): boolean {
    const { maxPerTurn, connection } = this.#deps;
    const { turnId } = this;
    this.#count = { turnId, requests: turnId === this.#count.turnId ? this.#count.requests + 1 : 1 };
    if (this.#count.requests <= maxPerTurn) return false;
    connection().close("protocol-error", `it asked for permission more than ${maxPerTurn} times in one turn`);
    return true;
  }

  /** The running turn. */
  get turnId(): string | null {
    return this.#deps.turn()?.turnId ?? null;
  }

  /** Reads the rules, and returns the function that judges a request by them. The function is called in a commit. */
  async prepareJudge(): Promise<(id: RpcId, asked: ParsedPermissionRequest) => AcpPermissionRequest> {
    const layers = await this.#deps.ruleLayers();
    return (id, asked) => this.#judge(id, asked, layers);
  }

  #judge(id: RpcId, asked: ParsedPermissionRequest, layers: RuleLayers): AcpPermissionRequest {
    const { writer, clock, turn, waitMs } = this.#deps;
    return judgePermission(id, asked, writer.row, turn(), { at: clock.wall(), waitMs, layers });
  }

  /** False: the request is no longer pending. */
  async decide(
    id: string,
    verdict: PermissionVerdict,
    actor: string,
    { optionId = null, rule = null }: DecideOptions = {},
  ): Promise<boolean> {
    const permission = this.unanswered.find((each) => each.id === id);
    if (permission === undefined) return false;
    const option = optionId ?? optionForVerdict(verdict, permission.options, rule !== null);
    // Without a fitting option the agent gets the answer `cancelled`, so the record says the same.
    const given = verdict === "allow" && option === null ? "cancelled" : verdict;
    const decision = { verdict: given, optionId: option, actor, at: this.#deps.clock.wall() };
    const decided = await this.#deps.writer.commit(
      () => ({
        decide: [{ id, decision }],
        ...(rule === null || given !== verdict ? {} : { newRule: rule }),
        ...this.updatesOf(permission, decision),
      }),
      () => {
        this.#open.set(permission.rpcId, { ...permission, decision });
        this.#clearTimer(id);
      },
    );
    // Not awaited: an agent that does not read must not block the caller.
    if (decided) void this.#answer(permission, decision);
    return decided;
  }

  async cancelAll(actor: string): Promise<void> {
    for (const { id, decision } of this.unanswered)
      if (decision === null) await this.decide(id, "cancelled", actor);
  }

  /** The permission request that the answer to this RPC request answers. */
  idsAnsweredBy(id: RpcId): readonly string[] {
    const permission = this.#open.get(id);
    return permission === undefined ? [] : [permission.id];
  }

  markAnswered(ids: readonly string[]): void {
    for (const { id, rpcId } of this.unanswered) if (ids.includes(id)) this.#open.delete(rpcId);
    for (const id of ids) this.#questions.delete(id);
  }

  /** The change that ends all requests, because the agent has ended. */
  expireAllChange(actor: string): Pick<AcpChange, "decide" | "answered" | "updates" | "events"> {
    const all = this.unanswered;
    const pending = all.filter(({ decision }) => decision === null);
    const decision = { verdict: "expired", optionId: null, actor, at: this.#deps.clock.wall() } as const;
    const told = pending.map((permission) => this.updatesOf(permission, decision));
    return {
      decide: pending.map(({ id }) => ({ id, decision })),
      answered: all.map(({ id }) => id),
      updates: told.flatMap(({ updates }) => updates),
      events: told.flatMap(({ events }) => events),
    };
  }

  clear(): void {
    for (const id of this.#timers.keys()) this.#clearTimer(id);
    this.#open.clear();
    this.#questions.clear();
  }

  updatesOf(permission: AcpPermissionRequest, decision: PermissionDecision | null): PermissionUpdates {
    const { writer, clock } = this.#deps;
    return permissionUpdates(permission, decision, writer.row.runId, clock.wall());
  }

  /** If this fails, the next gateway process answers, unless the agent is gone. */
  async #answer(permission: AcpPermissionRequest, decision: PermissionDecision): Promise<void> {
    const executed = this.#deps.executeDecided(permission, decision);
    if (executed !== null) return executed;
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
