import { z } from "zod";
import type { Clock } from "../../async/clock.js";
import type { AcpUpdate } from "../../model/acp/session-and-turn.js";
import type { AcpPermissionRequest, PermissionDecision } from "../../model/acp/permission-request.js";
import type { ApprovalQuestion } from "../../sessions/approval-question.js";
import type { ExecDecision } from "../../sessions/match-exec-rules.js";
import type { AcpChange } from "../../store/acp/contract.js";
import type { PermissionRequests } from "../permissions/permission-requests.js";
import type { AcpConnection } from "../wire/connection.js";
import type { AgentRpcRequest, ConnectionHandlers } from "../wire/connection-contract.js";
import {
  INVALID_PARAMS,
  REQUEST_REFUSED,
  RpcFailure,
  type RpcId,
  type RpcOutcome,
  toErrorOutcome,
  toRpcOutcome,
} from "../wire/message.js";
import {
  type ClientOperation,
  clientOperations,
  isOperationMethod,
  type OperationDeps,
  type OperationMethod,
  parseParams,
  storableParams,
} from "./operations.js";
import { terminalParams, type DeferredRequest, DeferredRequests } from "./deferred-requests.js";

interface ClientRequestsDeps extends OperationDeps {
  readonly clock: Clock;
  readonly permissionRequests: PermissionRequests;
  readonly connection: () => AcpConnection;
  /** True if the agent's own process is known to be alive. Requests of a dead agent are ignored. */
  readonly isAlive: () => boolean;
}

const sessionParams = z.object({ sessionId: z.string() });
const PERMISSION_OPTIONS = [
  { optionId: "allow", name: "Allow", kind: "allow_once" },
  { optionId: "reject", name: "Reject", kind: "reject_once" },
];

/**
 * The file and terminal requests of an agent.
 *
 *     asked ──rule──▶ executed ──▶ answered and acknowledged, in one transaction
 *       └──▶ waiting ──operator, end of a terminal──▶ executed ──▶ answered
 *
 * A request that is executed at once is acknowledged with its answer: after a crash the agent's frame is read again, and
 * the operation is repeated, which every operation allows. A waiting request is stored.
 */
export class ClientRequests {
  readonly #deps: ClientRequestsDeps;
  readonly #waiting = new DeferredRequests();
  /** Changes that are committed together with an answer. */
  readonly #withAnswer = new Map<RpcId, AcpChange>();
  readonly handlers: ConnectionHandlers["requests"];

  constructor(deps: ClientRequestsDeps) {
    this.#deps = deps;
    const { files, terminals } = deps.clientAccess;
    const operation = (request: AgentRpcRequest): Promise<void> => this.#handleOperation(request);
    const later = (request: AgentRpcRequest): Promise<void> => this.#handleLongRunning(request);
    this.handlers = {
      ...(files === "none" ? {} : { "fs/read_text_file": operation }),
      ...(files === "read-write" ? { "fs/write_text_file": operation } : {}),
      ...(terminals
        ? {
            "terminal/create": operation,
            "terminal/output": (request: AgentRpcRequest) => this.#handleOutput(request),
            "terminal/wait_for_exit": later,
            "terminal/kill": later,
            "terminal/release": later,
          }
        : {}),
    };
  }

  /** Restores the state of an agent that an earlier gateway process started, from the log of its session. */
  async restore(log: readonly AcpUpdate[], agentRunId: string): Promise<void> {
    await this.#deps.terminals.restore(agentRunId, this.#waiting.restore(log, agentRunId));
  }

  get waiting(): readonly Pick<DeferredRequest, "rpcId" | "method">[] {
    return this.#waiting.list;
  }

  /** Continues with the waiting requests that no operator has to decide. */
  resume(): void {
    for (const request of this.#waiting.list)
      if (!isOperationMethod(request.method)) void this.#runLongRunning(request);
  }

  /** The change to commit together with the answer. */
  changeWithAnswer(id: RpcId): AcpChange {
    return this.#withAnswer.get(id) ?? {};
  }

  /** The question of a waiting operation. Null: it is another request, or its parameters were not stored over a restart. */
  async questionOf({ rpcId }: AcpPermissionRequest): Promise<ApprovalQuestion | null> {
    const waiting = this.#waiting.get(rpcId);
    if (waiting === undefined || !isOperationMethod(waiting.method) || waiting.params === null) return null;
    const operation = await clientOperations[waiting.method](waiting.params, this.#deps, waiting.seed).catch(
      () => null,
    );
    return operation?.question ?? null;
  }

  /** Executes or refuses a waiting operation. Null: the permission request is not for an operation. */
  onDecided({ id, rpcId, title }: AcpPermissionRequest, decision: PermissionDecision): Promise<void> | null {
    const waiting = this.#waiting.get(rpcId);
    if (waiting === undefined || !isOperationMethod(waiting.method)) return null;
    const { method, params, seed, turnId } = waiting;
    return this.#finish(waiting, () =>
      toRpcOutcome(async () => {
        assertAllowed(decision);
        if (params === null)
          throw new RpcFailure(
            REQUEST_REFUSED,
            "the request was not stored over a restart of the gateway; ask again",
          );
        const operation = await clientOperations[method](params, this.#deps, seed);
        if (operation.displayTitle !== title)
          throw new RpcFailure(
            REQUEST_REFUSED,
            `${title ?? "it"} was allowed, but the request is now for ${operation.displayTitle}`,
          );
        if (operation.exec?.effect === "deny")
          throw new RpcFailure(REQUEST_REFUSED, "the exec rules of the session no longer allow the command");
        const asked = this.#deps.permissionRequests.questionOf(id);
        if (asked !== null && asked.digest !== operation.question.digest)
          throw new RpcFailure(
            REQUEST_REFUSED,
            `${operation.displayTitle} is not what was allowed: its program or variables have changed. Nothing was started`,
          );
        return operation.execute(turnId ?? "");
      }),
    );
  }

  async #handleOperation(request: AgentRpcRequest): Promise<void> {
    const { id, method, end } = request;
    const { permissionRequests } = this.#deps;
    if (
      !isOperationMethod(method) ||
      (await this.#skipIfAgentDead(request)) ||
      permissionRequests.countOrClose()
    )
      return;
    const seed = `${this.#runId} ${end}`;
    let judge: () => AcpPermissionRequest;
    let operation: ClientOperation;
    try {
      this.#assertOwnSession(request);
      operation = await clientOperations[method](request.params, this.#deps, seed);
      judge = this.#judgeWith(await permissionRequests.prepareJudge(), id, method, operation);
    } catch (error) {
      return this.#answer(id, toErrorOutcome(error), { session: { end } });
    }
    const permission = judge();
    const { decision } = permission;
    if (decision === null)
      return this.#askPermission(request, method, seed, permission.turnId, judge, operation.question);
    const outcome = await toRpcOutcome(() => {
      assertAllowed(decision);
      return operation.execute(permission.turnId ?? "");
    });
    await this.#answer(id, outcome, {
      session: { end },
      newPermission: { ...permission, answered: true },
      ...permissionRequests.updatesOf(permission, decision),
    });
  }

  /** Takes the stricter of the session's permission rules and its exec rules. */
  #judgeWith(
    judgeByRules: Awaited<ReturnType<PermissionRequests["prepareJudge"]>>,
    id: RpcId,
    method: OperationMethod,
    { kind, title, displayTitle, exec = null }: ClientOperation,
  ): () => AcpPermissionRequest {
    // The title of a command is the command itself.
    const tool = { toolCallId: method, kind, title, inputDigest: null };
    const asked = { ...tool, options: PERMISSION_OPTIONS, details: [] };
    const judge = (): AcpPermissionRequest => ({
      ...judgeByRules(id, asked),
      title: displayTitle,
    });
    return () => stricterDecision(judge(), exec, this.#deps.clock.wall());
  }

  #askPermission(
    { id, params, end }: AgentRpcRequest,
    method: OperationMethod,
    seed: string,
    turnId: string | null,
    judge: () => AcpPermissionRequest,
    question: ApprovalQuestion,
  ): Promise<void> {
    const waiting = { runId: this.#runId, rpcId: id, method, params, seed, turnId };
    const update = this.#waiting.add(waiting, this.#deps.clock.wall(), storableParams(method, params));
    const more = () => [update];
    return this.#deps.permissionRequests.record(id, end, judge, () => question, more);
  }

  async #handleOutput(request: AgentRpcRequest): Promise<void> {
    if (await this.#skipIfAgentDead(request)) return;
    const { id, params, end } = request;
    const outcome = await toRpcOutcome(() => {
      this.#assertOwnSession(request);
      return this.#deps.terminals.output(parseParams(terminalParams, params).terminalId);
    });
    await this.#answer(id, outcome, { session: { end } });
  }

  async #handleLongRunning(request: AgentRpcRequest): Promise<void> {
    const { writer, clock, permissionRequests } = this.#deps;
    if ((await this.#skipIfAgentDead(request)) || permissionRequests.countOrClose()) return;
    const { id, method, end } = request;
    const { turnId } = permissionRequests;
    let waiting: DeferredRequest;
    try {
      this.#assertOwnSession(request);
      const params = parseParams(terminalParams, request.params);
      waiting = { runId: this.#runId, rpcId: id, method, params, seed: "", turnId };
    } catch (error) {
      return this.#answer(id, toErrorOutcome(error), { session: { end } });
    }
    const update = this.#waiting.add(waiting, clock.wall());
    await writer.commit(() => ({ session: { end }, updates: [update] }));
    void this.#runLongRunning(waiting);
  }

  async #runLongRunning(waiting: DeferredRequest): Promise<void> {
    const { terminals } = this.#deps;
    await this.#finish(waiting, async () => {
      let detached = false;
      const outcome = await toRpcOutcome(async () => {
        const { terminalId } = parseParams(terminalParams, waiting.params);
        if (waiting.method === "terminal/kill") return terminals.kill(terminalId);
        if (waiting.method === "terminal/release") return terminals.release(terminalId);
        const status = await terminals.waitForExit(terminalId);
        detached = status === null;
        return status;
      });
      return detached ? null : outcome;
    });
  }

  /** `execute` resolves with null if the next gateway process has to answer. */
  async #finish(waiting: DeferredRequest, execute: () => Promise<RpcOutcome | null>): Promise<void> {
    const outcome = await execute();
    if (outcome === null) return;
    const update = this.#waiting.remove(waiting, this.#deps.clock.wall());
    await this.#answer(waiting.rpcId, outcome, { updates: [update] });
  }

  /** Resolves when the answer is written, or the connection is closed. */
  async #answer(id: RpcId, outcome: RpcOutcome, change: AcpChange): Promise<void> {
    const connection = this.#deps.connection();
    this.#withAnswer.set(id, change);
    await Promise.race([connection.answer(id, outcome).catch(() => undefined), connection.closed]);
    this.#withAnswer.delete(id);
  }

  /** True: the agent is dead, and its request is skipped. */
  async #skipIfAgentDead({ end }: AgentRpcRequest): Promise<boolean> {
    if (this.#deps.isAlive()) return false;
    await this.#deps.writer.commit(() => ({ session: { end } }));
    return true;
  }

  #assertOwnSession({ params }: AgentRpcRequest): void {
    if (parseParams(sessionParams, params).sessionId !== this.#deps.writer.row.agentSessionId)
      throw new RpcFailure(INVALID_PARAMS, "sessionId: there is no such session");
  }

  get #runId(): string {
    return this.#deps.writer.row.runId ?? "";
  }
}

function assertAllowed({ verdict, actor }: PermissionDecision): void {
  if (verdict !== "allow") throw new RpcFailure(REQUEST_REFUSED, `it is not allowed: ${actor}`);
}

function stricterDecision(
  permission: AcpPermissionRequest,
  exec: ExecDecision | null,
  at: number,
): AcpPermissionRequest {
  const verdict = permission.decision?.verdict ?? "allow";
  if (exec === null || exec.effect === "allow" || verdict !== "allow") return permission;
  if (exec.effect === "ask") return { ...permission, decision: null };
  const actor = `rule ${(exec.rule ?? 0) + 1} of the session's exec rules`;
  return { ...permission, decision: { verdict: "deny", optionId: "reject", actor, at } };
}
