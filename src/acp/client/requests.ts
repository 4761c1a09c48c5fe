import { z } from "zod";
import type { ExecDecision } from "../../sessions/exec-rules.js";
import type { Question as WholeQuestion } from "../../sessions/question.js";
import type { AcpPermission, AcpUpdate, NewAcpUpdate, PermissionDecided } from "../../store/acp-record.js";
import type { AcpChange } from "../../store/acp-store.js";
import type { Clock } from "../../supervisor/clock.js";
import type { Questions } from "../questions.js";
import type { Connection } from "../wire/connection.js";
import type { Handlers, Question } from "../wire/handlers.js";
import type { Outcome, RpcId } from "../wire/message.js";
import { INVALID_PARAMS, REFUSED, Refusal, outcomeOf, refused } from "./refusal.js";
import { isWish, parse, storable, type Wish, type WishMethod, type WishParts, wishes } from "./wishes.js";

export interface ClientParts extends WishParts {
  readonly clock: Clock;
  readonly questions: Questions;
  readonly connection: () => Connection;
  /** Whether the agent's own process is known to live: for a dead one nothing is done. */
  readonly alive: () => boolean;
}

/** A request that is answered later. It is kept until then, and the next gateway goes on with it. */
interface Waiting {
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
type Note = { readonly waiting: Waiting } | { readonly answered: Pick<Waiting, "runId" | "rpcId"> };

/** Ours are shorter. */
const LONGEST_TERMINAL_ID = 100;
const terminal = z.object({ terminalId: z.string().max(LONGEST_TERMINAL_ID) });
const session = z.object({ sessionId: z.string() });
const CHOICES = [
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
  readonly #parts: ClientParts;
  readonly #waiting = new Map<RpcId, Waiting>();
  /** What is written together with an answer. */
  readonly #withAnswer = new Map<RpcId, AcpChange>();
  readonly methods: Handlers["questions"];

  constructor(parts: ClientParts) {
    this.#parts = parts;
    const { files, terminals } = parts.offer;
    const wish = (question: Question): Promise<void> => this.#wished(question);
    const later = (question: Question): Promise<void> => this.#later(question);
    this.methods = {
      ...(files === "none" ? {} : { "fs/read_text_file": wish }),
      ...(files === "read-write" ? { "fs/write_text_file": wish } : {}),
      ...(terminals
        ? {
            "terminal/create": wish,
            "terminal/output": (question: Question) => this.#output(question),
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
      const note = data as Partial<{ waiting: Waiting; answered: Pick<Waiting, "runId" | "rpcId"> }>;
      if (note.waiting?.runId === agentRunId) {
        this.#waiting.set(note.waiting.rpcId, note.waiting);
        continue;
      }
      if (note.answered?.runId !== agentRunId) continue;
      const over = this.#waiting.get(note.answered.rpcId);
      if (over?.method === "terminal/release") released.add(parse(terminal, over.params).terminalId);
      this.#waiting.delete(note.answered.rpcId);
    }
    await this.#parts.terminals.restore(agentRunId, released);
  }

  get waiting(): readonly Pick<Waiting, "rpcId" | "method">[] {
    return [...this.#waiting.values()];
  }

  /** What waits, and not for a person. */
  resume(): void {
    for (const waiting of this.#waiting.values())
      if (!isWish(waiting.method)) void this.#carryOn(waiting, waiting.method);
  }

  /** What goes into the commit with which the answer goes out. */
  answering(id: RpcId): AcpChange {
    return this.#withAnswer.get(id) ?? {};
  }

  /** The question as it is now. Null: it is not a question of this class, or its text was lost in a restart. */
  async questionOf({ rpcId }: AcpPermission): Promise<WholeQuestion | null> {
    const waiting = this.#waiting.get(rpcId);
    if (waiting === undefined || !isWish(waiting.method) || waiting.params === null) return null;
    const wish = await wishes[waiting.method](waiting.params, this.#parts, waiting.seed).catch(() => null);
    return wish?.question ?? null;
  }

  /** Somebody has decided about what waits. Null: it is not one of these. */
  decided({ id, rpcId, title }: AcpPermission, decision: PermissionDecided): Promise<void> | null {
    const waiting = this.#waiting.get(rpcId);
    if (waiting === undefined || !isWish(waiting.method)) return null;
    const { method, params, seed, turnId } = waiting;
    return this.#finish(waiting, () =>
      outcomeOf(async () => {
        allowedBy(decision);
        if (params === null)
          throw new Refusal(
            REFUSED,
            "what was asked for was not kept over a restart of the gateway: ask again",
          );
        const wish = await wishes[method](params, this.#parts, seed);
        if (wish.shown !== title)
          throw new Refusal(REFUSED, `${title ?? "it"} was allowed, and this is ${wish.shown} now`);
        if (wish.exec?.effect === "deny")
          throw new Refusal(REFUSED, "the session's exec rules no longer allow the command");
        const asked = this.#parts.questions.questionOf(id);
        if (asked !== null && asked.digest !== wish.question.digest)
          throw new Refusal(
            REFUSED,
            `${wish.shown} is not what was allowed: its program or variables have changed; nothing was started`,
          );
        return wish.fulfil(turnId ?? "");
      }),
    );
  }

  async #wished(question: Question): Promise<void> {
    const { id, method, end } = question;
    const { questions } = this.#parts;
    if (!isWish(method) || (await this.#unheard(question)) || questions.tooMany()) return;
    const seed = `${this.#runId} ${end}`;
    let judge: () => AcpPermission;
    let wish: Wish;
    try {
      this.#mustBeOurs(question);
      wish = await wishes[method](question.params, this.#parts, seed);
      judge = this.#judgeOf(id, method, wish);
    } catch (error) {
      return this.#answer(id, refused(error), { session: { end } });
    }
    const permission = judge();
    const { decision } = permission;
    if (decision === null) return this.#ask(question, method, seed, permission.turnId, judge, wish.question);
    const outcome = await outcomeOf(() => {
      allowedBy(decision);
      return wish.fulfil(permission.turnId ?? "");
    });
    await this.#answer(id, outcome, {
      session: { end },
      newPermission: { ...permission, answered: true },
      ...questions.news(permission, decision),
    });
  }

  /** The stricter of the session's rules on tools and those on programs, where it has any. */
  #judgeOf(id: RpcId, method: WishMethod, { kind, title, shown, exec = null }: Wish): () => AcpPermission {
    const { questions } = this.#parts;
    const asked = { sessionId: "", toolCallId: method, kind, title, options: CHOICES, details: [] };
    const judge = (): AcpPermission => ({ ...questions.judge(id, asked), title: shown });
    return () => stricter(judge(), exec, this.#parts.clock.wall());
  }

  #ask(
    { id, params, end }: Question,
    method: WishMethod,
    seed: string,
    turnId: string | null,
    judge: () => AcpPermission,
    whole: WholeQuestion,
  ): Promise<void> {
    const waiting = { runId: this.#runId, rpcId: id, method, params, seed, turnId };
    this.#waiting.set(id, waiting);
    const note = this.#note(waiting, { waiting: { ...waiting, params: storable(method, params) } });
    return this.#parts.questions.keep(id, end, judge, () => whole, [note]);
  }

  async #output(question: Question): Promise<void> {
    if (await this.#unheard(question)) return;
    const { id, params, end } = question;
    const outcome = await outcomeOf(() => {
      this.#mustBeOurs(question);
      return this.#parts.terminals.output(parse(terminal, params).terminalId);
    });
    await this.#answer(id, outcome, { session: { end } });
  }

  async #later(question: Question): Promise<void> {
    const { kept, questions } = this.#parts;
    if ((await this.#unheard(question)) || questions.tooMany()) return;
    const { id, method, end } = question;
    const { turnId } = questions;
    let waiting: Waiting;
    try {
      this.#mustBeOurs(question);
      const params = parse(terminal, question.params);
      waiting = { runId: this.#runId, rpcId: id, method, params, seed: "", turnId };
    } catch (error) {
      return this.#answer(id, refused(error), { session: { end } });
    }
    this.#waiting.set(id, waiting);
    await kept.commit(() => ({ session: { end }, updates: [this.#note(waiting, { waiting })] }));
    void this.#carryOn(waiting, method);
  }

  async #carryOn(waiting: Waiting, method: string): Promise<void> {
    const { terminals } = this.#parts;
    await this.#finish(waiting, async () => {
      let letGo = false;
      const outcome = await outcomeOf(async () => {
        const { terminalId } = parse(terminal, waiting.params);
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
  async #finish(waiting: Waiting, work: () => Promise<Outcome | null>): Promise<void> {
    const { rpcId, runId } = waiting;
    const outcome = await work();
    if (outcome === null) return;
    this.#waiting.delete(rpcId);
    const note = this.#note(waiting, { answered: { runId, rpcId } });
    await this.#answer(rpcId, outcome, { updates: [note] });
  }

  /** Written, or nobody is there any more to read it. */
  async #answer(id: RpcId, outcome: Outcome, change: AcpChange): Promise<void> {
    const connection = this.#parts.connection();
    this.#withAnswer.set(id, change);
    await Promise.race([connection.answer(id, outcome).catch(() => undefined), connection.closed]);
    this.#withAnswer.delete(id);
  }

  /** True: its agent is dead, and nothing is done for it. */
  async #unheard({ end }: Question): Promise<boolean> {
    if (this.#parts.alive()) return false;
    await this.#parts.kept.commit(() => ({ session: { end } }));
    return true;
  }

  #mustBeOurs({ params }: Question): void {
    if (parse(session, params).sessionId !== this.#parts.kept.row.agentSessionId)
      throw new Refusal(INVALID_PARAMS, "sessionId: there is no such session");
  }

  #note({ turnId }: Waiting, data: Note): NewAcpUpdate {
    return { turnId, at: this.#parts.clock.wall(), type: "client", data };
  }

  get #runId(): string {
    return this.#parts.kept.row.runId ?? "";
  }
}

function allowedBy({ verdict, actor }: PermissionDecided): void {
  if (verdict !== "allow") throw new Refusal(REFUSED, `it is not allowed: ${actor}`);
}

function stricter(permission: AcpPermission, exec: ExecDecision | null, at: number): AcpPermission {
  const verdict = permission.decision?.verdict ?? "allow";
  if (exec === null || exec.effect === "allow" || verdict !== "allow") return permission;
  if (exec.effect === "ask") return { ...permission, decision: null };
  const actor = `rule ${(exec.rule ?? 0) + 1} of its session's exec rules`;
  return { ...permission, decision: { verdict: "deny", optionId: "reject", actor, at } };
}
