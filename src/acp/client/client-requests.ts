import { z } from "zod";
import type { ExecDecision } from "../../sessions/exec-rules.js";
import type { ApprovalQuestion as WholeQuestion } from "../../sessions/approval-question.js";
import type { AcpPermissionRequest, AcpUpdate, NewAcpUpdate, PermissionDecision } from "../../model/acp.js";
import type { AcpChange } from "../../store/acp/store.js";
import type { Clock } from "../../async/clock.js";
import type { PermissionRequests } from "../permissions/permission-requests.js";
import type { AcpConnection } from "../wire/connection.js";
import type { ConnectionHandlers, AgentRpcRequest } from "../wire/handlers.js";
import type { RpcOutcome, RpcId } from "../wire/message.js";
import { INVALID_PARAMS, REQUEST_REFUSED, RpcFailure, toRpcOutcome, toErrorOutcome } from "./rpc-failure.js";
import {
  isOperationMethod,
  parseParams,
  storableParams,
  type ClientOperation,
  type OperationMethod,
  type OperationDeps,
  clientOperations,
} from "./operations.js";

export interface ClientRequestsDeps extends OperationDeps {
  readonly clock: Clock;
  readonly permissionRequests: PermissionRequests;
  readonly connection: () => AcpConnection;
  /** Whether the agent's own process is known to live: for a dead one nothing is done. */
  readonly isAlive: () => boolean;
}

/** A request that is answered later. It is kept until then, and the next gateway goes on with it. */
interface WaitingRequest {
  readonly runId: string;
  readonly rpcId: RpcId;
  readonly method: string;
  /** Null: not stored. */
  readonly params: unknown;
  /** The same when it is done again. */
  readonly seed: string;
  readonly turnId: string | null;
}

/** What is written of it: that it waits, and that it does not any more. */
type ClientLogEntry =
  | { readonly waiting: WaitingRequest }
  | { readonly answered: Pick<WaitingRequest, "runId" | "rpcId"> };

/** Ours are shorter. */
const LONGEST_TERMINAL_ID = 100;
const terminalParams = z.object({ terminalId: z.string().max(LONGEST_TERMINAL_ID) });
const sessionParams = z.object({ sessionId: z.string() });
const PERMISSION_OPTIONS = [
  { optionId: "allow", name: "Allow", kind: "allow_once" as const },
  { optionId: "reject", name: "Reject", kind: "reject_once" as const },
];

/**
 * What an agent asks us to do for it.
 *
 *     asked ──rule──▶ done ──▶ answered, and let go of, in one transaction
 *       └──▶ waiting ──operator, a terminal's end──▶ done ──▶ answered
 *
 * What is done at once is let go of with its answer: after a crash it is asked, done and answered again, and each of them
 * may be done twice. What waits is kept.
 */
export class ClientRequests {
  readonly #deps: ClientRequestsDeps;
  readonly #waiting = new Map<RpcId, WaitingRequest>();
  /** What is written together with an answer. */
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

  /** Of the log of a session whose agent an earlier process has left. */
  async restore(log: readonly AcpUpdate[], agentRunId: string): Promise<void> {
    const released = new Set<string>();
    for (const { data } of log) {
      const note = data as Partial<{
        waiting: WaitingRequest;
        answered: Pick<WaitingRequest, "runId" | "rpcId">;
      }>;
      if (note.waiting?.runId === agentRunId) {
        this.#waiting.set(note.waiting.rpcId, note.waiting);
        continue;
      }
      if (note.answered?.runId !== agentRunId) continue;
      const over = this.#waiting.get(note.answered.rpcId);
      if (over?.method === "terminal/release")
        released.add(parseParams(terminalParams, over.params).terminalId);
      this.#waiting.delete(note.answered.rpcId);
    }
    await this.#deps.terminals.restore(agentRunId, released);
  }

  get waiting(): readonly Pick<WaitingRequest, "rpcId" | "method">[] {
    return [...this.#waiting.values()];
  }

  /** What waits, and not for a person. */
  resume(): void {
    for (const waiting of this.#waiting.values())
      if (!isOperationMethod(waiting.method)) void this.#runLongRunning(waiting, waiting.method);
  }

  /** What goes into the commit with which the answer goes out. */
  changeWithAnswer(id: RpcId): AcpChange {
    return this.#withAnswer.get(id) ?? {};
  }

  /** The question as it is now. Null: it is not a question of this class, or its text was lost in a restart. */
  async questionOf({ rpcId }: AcpPermissionRequest): Promise<WholeQuestion | null> {
    const waiting = this.#waiting.get(rpcId);
    if (waiting === undefined || !isOperationMethod(waiting.method) || waiting.params === null) return null;
    const operation = await clientOperations[waiting.method](waiting.params, this.#deps, waiting.seed).catch(
      () => null,
    );
    return operation?.question ?? null;
  }

  /** Somebody has decided about what waits. Null: it is not one of these. */
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
            "what was asked for was not kept over a restart of the gateway: ask again",
          );
        const operation = await clientOperations[method](params, this.#deps, seed);
        if (operation.displayTitle !== title)
          throw new RpcFailure(
            REQUEST_REFUSED,
            `${title ?? "it"} was allowed, and this is ${operation.displayTitle} now`,
          );
        if (operation.exec?.effect === "deny")
          throw new RpcFailure(REQUEST_REFUSED, "the session's exec rules no longer allow the command");
        const asked = this.#deps.permissionRequests.questionOf(id);
        if (asked !== null && asked.digest !== operation.question.digest)
          throw new RpcFailure(
            REQUEST_REFUSED,
            `${operation.displayTitle} is not what was allowed: its program or variables have changed; nothing was started`,
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
      judge = this.#judgeWith(id, method, operation);
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

  /** The stricter of the session's rules on tools and those on programs, where it has any. */
  #judgeWith(
    id: RpcId,
    method: OperationMethod,
    { kind, title, displayTitle: shown, exec = null }: ClientOperation,
  ): () => AcpPermissionRequest {
    const { permissionRequests } = this.#deps;
    const asked = {
      sessionId: "",
      toolCallId: method,
      kind,
      title,
      options: PERMISSION_OPTIONS,
      details: [],
    };
    const judge = (): AcpPermissionRequest => ({ ...permissionRequests.judge(id, asked), title: shown });
    return () => stricterDecision(judge(), exec, this.#deps.clock.wall());
  }

  #askPermission(
    { id, params, end }: AgentRpcRequest,
    method: OperationMethod,
    seed: string,
    turnId: string | null,
    judge: () => AcpPermissionRequest,
    whole: WholeQuestion,
  ): Promise<void> {
    const waiting = { runId: this.#runId, rpcId: id, method, params, seed, turnId };
    this.#waiting.set(id, waiting);
    const note = this.#logUpdate(waiting, {
      waiting: { ...waiting, params: storableParams(method, params) },
    });
    return this.#deps.permissionRequests.record(id, end, judge, () => whole, [note]);
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
    const { writer, permissionRequests } = this.#deps;
    if ((await this.#skipIfAgentDead(request)) || permissionRequests.countOrClose()) return;
    const { id, method, end } = request;
    const { turnId } = permissionRequests;
    let waiting: WaitingRequest;
    try {
      this.#assertOwnSession(request);
      const params = parseParams(terminalParams, request.params);
      waiting = { runId: this.#runId, rpcId: id, method, params, seed: "", turnId };
    } catch (error) {
      return this.#answer(id, toErrorOutcome(error), { session: { end } });
    }
    this.#waiting.set(id, waiting);
    await writer.commit(() => ({ session: { end }, updates: [this.#logUpdate(waiting, { waiting })] }));
    void this.#runLongRunning(waiting, method);
  }

  async #runLongRunning(waiting: WaitingRequest, method: string): Promise<void> {
    const { terminals } = this.#deps;
    await this.#finish(waiting, async () => {
      let letGo = false;
      const outcome = await toRpcOutcome(async () => {
        const { terminalId } = parseParams(terminalParams, waiting.params);
        if (method === "terminal/kill") return terminals.kill(terminalId);
        if (method === "terminal/release") return terminals.release(terminalId);
        const status = await terminals.waitForExit(terminalId);
        letGo = status === null;
        return status;
      });
      return letGo ? null : outcome;
    });
  }

  /** Null: it is for the next process to answer. */
  async #finish(waiting: WaitingRequest, work: () => Promise<RpcOutcome | null>): Promise<void> {
    const { rpcId, runId } = waiting;
    const outcome = await work();
    if (outcome === null) return;
    this.#waiting.delete(rpcId);
    const note = this.#logUpdate(waiting, { answered: { runId, rpcId } });
    await this.#answer(rpcId, outcome, { updates: [note] });
  }

  /** Written, or nobody is there any more to read it. */
  async #answer(id: RpcId, outcome: RpcOutcome, change: AcpChange): Promise<void> {
    const connection = this.#deps.connection();
    this.#withAnswer.set(id, change);
    await Promise.race([connection.answer(id, outcome).catch(() => undefined), connection.closed]);
    this.#withAnswer.delete(id);
  }

  /** True: its agent is dead, and nothing is done for it. */
  async #skipIfAgentDead({ end }: AgentRpcRequest): Promise<boolean> {
    if (this.#deps.isAlive()) return false;
    await this.#deps.writer.commit(() => ({ session: { end } }));
    return true;
  }

  #assertOwnSession({ params }: AgentRpcRequest): void {
    if (parseParams(sessionParams, params).sessionId !== this.#deps.writer.row.agentSessionId)
      throw new RpcFailure(INVALID_PARAMS, "sessionId: there is no such session");
  }

  #logUpdate({ turnId }: WaitingRequest, data: ClientLogEntry): NewAcpUpdate {
    return { turnId, at: this.#deps.clock.wall(), type: "client", data };
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
  const actor = `rule ${(exec.rule ?? 0) + 1} of its session's exec rules`;
  return { ...permission, decision: { verdict: "deny", optionId: "reject", actor, at } };
}
