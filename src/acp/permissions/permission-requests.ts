import type { NewAcpUpdate } from "../../model/acp/session-and-turn.js";
import type {
  AcpPermissionRequest,
  PermissionDecision,
  PermissionVerdict,
} from "../../model/acp/permission-request.js";
import {
  type ApprovalQuestion,
  type LabelledText,
  questionAboutText,
} from "../../sessions/approval-question.js";
import type { AcpChange } from "../../store/acp/contract.js";
import type { AgentRpcRequest } from "../wire/connection-contract.js";
import { INVALID_PARAMS, type RpcId } from "../wire/message.js";
import {
  askedUpdate,
  contentUpdate,
  DECLINED_ELICITATION,
  declinedUpdate,
  Elicitations,
  toPermissionRequest,
  waitUnlessDenied,
} from "./elicitation.js";
import { ExpiryTimers } from "./expiry-timers.js";
import { parseElicitation } from "./elicitation-form.js";
import { judgePermission, optionForVerdict } from "./decide-permission.js";
import { expireAllChange, permissionUpdates, type PermissionUpdates } from "./permission-updates.js";
import {
  boundDetails,
  type ParsedPermissionRequest,
  parsePermissionRequest,
} from "./parse-permission-request.js";
import type { DecideOptions, PermissionRequestsDeps } from "./permission-requests-contract.js";
import type { RuleLayers } from "./rule-layers.js";

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
  readonly elicitations = new Elicitations();
  /** Requests without an answer. */
  readonly #open = new Map<RpcId, AcpPermissionRequest>();
  readonly #timers: ExpiryTimers;
  /** Whole questions by the permission's id. In memory only, because they may contain secrets. */
  readonly #questions = new Map<string, ApprovalQuestion>();

  #count: { readonly turnId: string | null; readonly requests: number } = { turnId: null, requests: 0 };

  constructor(deps: PermissionRequestsDeps) {
    this.#deps = deps;
    this.#timers = new ExpiryTimers(deps.clock);
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

  /** A question to the user waits like a permission request. */
  async onElicitation(request: AgentRpcRequest): Promise<void> {
    if (this.countOrClose()) return;
    const asked = parseElicitation(request.params);
    if (asked === null) return this.#declineAtOnce(request);
    const judge = await this.prepareJudge();
    await this.record(
      request.id,
      request.end,
      () => waitUnlessDenied(judge(request.id, toPermissionRequest(asked))),
      ({ id }) => this.elicitations.add(id, asked),
      (permission) => [askedUpdate(permission, asked)],
    );
  }

  /** Answered before it is stored: after a crash it is answered again, not forgotten. */
  async #declineAtOnce({ id, params, end }: AgentRpcRequest): Promise<void> {
    const { writer, connection, clock } = this.#deps;
    await this.#writtenOrClosed(connection().answer(id, { result: DECLINED_ELICITATION }));
    const updates = [declinedUpdate(params, this.turnId, clock.wall())];
    await writer.commit(() => ({ session: { end }, updates }));
  }

  /** Stores the request together with the offset after it and `more`; then decides it, now or later. */
  async record(
    id: RpcId,
    end: number,
    judge: () => AcpPermissionRequest,
    question: (permission: AcpPermissionRequest) => ApprovalQuestion,
    more: (permission: AcpPermissionRequest) => readonly NewAcpUpdate[] = () => [],
  ): Promise<void> {
    let permission: AcpPermissionRequest | null = null;
    await this.#deps.writer.commit(
      () => {
        // Judged inside the commit: a cancel before it decides the request, a cancel after it finds the request open.
        permission = judge();
        const { updates, events } = this.updatesOf(permission, permission.decision);
        return {
          session: { end },
          newPermission: permission,
          updates: [...more(permission), ...updates],
          events,
        };
      },
      () => {
        if (permission === null) return;
        this.#open.set(id, permission);
        this.#questions.set(permission.id, question(permission));
      },
    );
    const open = this.#open.get(id);
    if (open === undefined) return;
    if (open.decision !== null) return this.#answer(open, open.decision);
    this.#expireLater(open);
    this.#deps.onWaiting(open);
  }

  #boundDetails(details: readonly LabelledText[]): readonly LabelledText[] {
    const held = [...this.#questions.values()].reduce((sum, question) => sum + question.chars, 0);
    return boundDetails(details, held);
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
    { optionId = null, rule = null, content = null }: DecideOptions = {},
  ): Promise<boolean> {
    const permission = this.unanswered.find((each) => each.id === id);
    if (permission === undefined) return false;
    const option = optionId ?? optionForVerdict(verdict, permission.options, rule !== null);
    // Without a fitting option the agent gets the answer `cancelled`, so the record says the same.
    const given = verdict === "allow" && option === null ? "cancelled" : verdict;
    const decision = { verdict: given, optionId: option, actor, at: this.#deps.clock.wall() };
    const { updates, events } = this.updatesOf(permission, decision);
    const answer = content === null ? [] : [contentUpdate(permission, content, decision.at)];
    const decided = await this.#deps.writer.commit(
      () => ({
        decide: [{ id, decision }],
        ...(rule === null || given !== verdict ? {} : { newRule: rule }),
        ...{ updates: [...answer, ...updates], events },
      }),
      () => {
        if (content !== null) this.elicitations.setContent(id, content);
        this.#open.set(permission.rpcId, { ...permission, decision });
        this.#timers.clear(id);
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
    for (const id of ids) {
      this.#questions.delete(id);
      this.elicitations.delete(id);
    }
  }

  /** The change that ends all requests, because the agent has ended. */
  expireAllChange(actor: string): AcpChange {
    const { writer, clock } = this.#deps;
    return expireAllChange(this.unanswered, actor, writer.row.runId, clock.wall());
  }

  clear(): void {
    this.#timers.clearAll();
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
    const outcome = optionId === null ? { outcome: "cancelled" } : { outcome: "selected", optionId };
    const result = this.elicitations.resultOf(permission.id, decision) ?? { outcome };
    await this.#writtenOrClosed(this.#deps.connection().answer(permission.rpcId, { result }));
  }

  async #writtenOrClosed(written: Promise<unknown>): Promise<void> {
    await Promise.race([written.catch(() => undefined), this.#deps.connection().closed]);
  }

  #expireLater({ id, expiresAt }: AcpPermissionRequest): void {
    this.#timers.start(id, expiresAt, () => {
      this.decide(id, "expired", "nobody answered in time").catch(() => undefined);
    });
  }
}
