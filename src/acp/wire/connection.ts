import type {
  AgentNotificationParamsByMethod,
  AgentRequestMethod,
  AgentRequestParamsByMethod,
  AgentRequestResponsesByMethod,
} from "@agentclientprotocol/sdk";
import { defaults } from "../../defaults.js";
import { AcpClosed } from "../../errors.js";
import type { Clock } from "../../supervisor/clock.js";
import { deferred } from "../../supervisor/deferred.js";
import { batches } from "./batches.js";
import { excerpt } from "./excerpt.js";
import { type Chunk, type Frame, FrameReader } from "./frame-reader.js";
import type { Handlers, Question } from "./handlers.js";
import { freshId, hostClock } from "./host-clock.js";
import type { Message, Outcome, RpcId } from "./message.js";
import { Outgoing, type OutgoingFrame } from "./outgoing.js";
import { PendingRequests, type PendingRequest } from "./pending.js";
import { misshapen } from "./results.js";
import { Silence } from "./silence.js";
import { asUpdate, type Update } from "./updates.js";

/** What the next process needs to go on in the middle of a turn. */
export interface WireState {
  readonly pending: readonly PendingRequest[];
  readonly questions: readonly Pick<Question, "id" | "method">[];
  /** The last one that was given to `sending`. */
  readonly outgoing: OutgoingFrame | null;
}

export interface ConnectionParts {
  /** The agent's stdout from `startAt` on, until the signal aborts. Nothing is pulled while something is handled. */
  source(signal: AbortSignal): AsyncIterable<Chunk>;
  readonly startAt?: number;
  /** Resolves when the bytes cannot be lost any more. */
  write(bytes: Uint8Array): Promise<void>;
  /** The effects of everything before this offset are kept. */
  ack(offset: number): void;
  readonly handlers: Handlers;
  readonly clock?: Clock;
  readonly firstId?: number;
  readonly restored?: WireState;
  /** How much of the agent's stdin cannot be lost any more, at the begin. */
  readonly stdinAccepted?: number;
  readonly maxFrameBytes?: number;
}

export interface RequestOptions {
  /** Null: it may take as long as it likes (a turn has `watchTurn`). */
  readonly deadlineMs: number | null;
  /** Close the connection when the deadline passes: without this answer it is of no use. */
  readonly fatal?: boolean;
}

const METHOD_NOT_FOUND = -32_601;
const TOO_MANY = -32_000;

/** The client's side of one connection to an ACP agent. Knows nothing of processes. */
export class Connection implements AsyncDisposable {
  /** What came, and what was wrong with it. */
  readonly counts = {
    frames: 0,
    malformed: 0,
    answeredTwice: 0,
    late: 0,
    unmatched: 0,
    unknownRequests: 0,
    ignored: 0,
  };
  readonly #parts: ConnectionParts;
  readonly #pending: PendingRequests;
  readonly #questions = new Map<RpcId, string>();
  readonly #silence: Silence;
  readonly #stop = new AbortController();
  readonly #closed = deferred<AcpClosed>();
  readonly #reading: Promise<void>;
  readonly #outgoing: Outgoing;
  #sent: OutgoingFrame | null;
  #taking = false;
  #error: AcpClosed | null = null;
  /** The last line that was no frame. */
  #malformedLine = "";

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
    const { clock = hostClock, restored, firstId = freshId() } = parts;
    this.#silence = new Silence(
      clock,
      // What it has not taken is its to take.
      () => this.#taking && !this.#outgoing.waits,
      (ms) => this.close("no-frames", `it has sent nothing for ${ms} ms of a turn`),
    );
    this.#pending = new PendingRequests(clock, restored?.pending ?? [], firstId, (error) =>
      this.close("request-timeout", error.message),
    );
    for (const { id, method } of restored?.questions ?? []) this.#open(id, method);
    this.#sent = restored?.outgoing ?? null;
    this.#outgoing = new Outgoing((bytes) => parts.write(bytes), parts.stdinAccepted, this.#sent);
    this.#reading = this.#read();
  }

  /** Resolves with the reason when the connection is over. */
  get closed(): Promise<AcpClosed> {
    return this.#closed.promise;
  }

  get isClosed(): boolean {
    return this.#error !== null;
  }

  get state(): WireState {
    return {
      pending: this.#pending.list,
      questions: [...this.#questions].map(([id, method]) => ({ id, method })),
      outgoing: this.#sent,
    };
  }

  async request<Method extends AgentRequestMethod>(
    method: Method,
    params: AgentRequestParamsByMethod[Method],
    { deadlineMs, fatal = false }: RequestOptions,
  ): Promise<AgentRequestResponsesByMethod[Method]> {
    if (this.#error !== null) throw this.#error;
    const request = this.#pending.add(method, deadlineMs, fatal);
    const answer = this.#pending.answerTo(request.id);
    this.#send({ id: request.id, method, params }, request).catch((error: unknown) =>
      this.#pending.fail(request.id, error),
    );
    return (await answer) as AgentRequestResponsesByMethod[Method];
  }

  /** The answer to a request of an earlier process. */
  answerTo(id: number): Promise<unknown> {
    return this.#pending.answerTo(id);
  }

  notify<Method extends keyof AgentNotificationParamsByMethod>(
    method: Method,
    params: AgentNotificationParamsByMethod[Method],
  ): Promise<void> {
    return this.#error === null ? this.#send({ method, params }) : Promise.reject(this.#error);
  }

  /** False: it was answered before, or never asked. */
  async answer(id: RpcId, outcome: Outcome): Promise<boolean> {
    if (this.#error !== null) throw this.#error;
    if (!this.#questions.delete(id)) return false;
    this.#silence.release();
    await this.#send({ id, ...outcome });
    return true;
  }

  /** From now on, silence ends the connection. Not while the agent waits for an answer, or we are slow to listen. */
  watchTurn(limitMs: number = defaults.acpNoFramesMs): Disposable {
    if (this.#error === null) this.#silence.watch(limitMs);
    return { [Symbol.dispose]: () => this.#silence.stop() };
  }

  /** The first reason stands. */
  close(reason: AcpClosed["reason"] = "closed", why = "it is not needed any more"): void {
    this.#end(new AcpClosed(reason, why));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    await this.#reading;
  }

  #end(error: AcpClosed): void {
    if (this.#error !== null) return;
    this.#error = error;
    this.#silence.stop();
    this.#stop.abort();
    this.#pending.failAll(error);
    this.#closed.resolve(error);
  }

  #send(message: object, request: PendingRequest | null = null): Promise<void> {
    return this.#outgoing.send(message, async (frame) => {
      if (this.#error !== null) throw this.#error;
      await this.#parts.handlers.sending?.(frame, request);
      this.#sent = frame;
    });
  }

  async #read(): Promise<void> {
    const { startAt = 0, maxFrameBytes } = this.#parts;
    const reader = new FrameReader(startAt, maxFrameBytes);
    try {
      for await (const chunk of this.#parts.source(this.#stop.signal))
        for (const batch of batches(reader.push(chunk))) {
          await this.#take(batch);
          if (this.#error !== null) return;
        }
      if (this.#error !== null) return;
      const rest = reader.finish();
      if (rest !== null) await this.#take([rest]);
      const ended = rest === null ? "its output has ended" : "its output has ended in mid-frame";
      this.close("ended", [ended, ...this.#nonsense()].join("; "));
    } catch (error) {
      const why = `what it said could not be handled: ${error instanceof Error ? error.message : String(error)}`;
      this.#end(error instanceof AcpClosed ? error : new AcpClosed("closed", why, { cause: error }));
    }
  }

  /** The whole queue there is. Until it is done, nothing is pulled from the source, and the agent is held back. */
  async #take(batch: readonly Frame[]): Promise<void> {
    this.#taking = true;
    try {
      let updates: Update[] = [];
      const flush = async (): Promise<void> => {
        if (updates.length > 0) await this.#parts.handlers.updates(updates);
        updates = [];
      };
      for (const frame of batch) {
        if (frame.type !== "message") {
          if (frame.type === "malformed") this.#malformed(frame.why, frame.excerpt);
          if (this.#error !== null) break;
          continue;
        }
        this.counts.frames++;
        const { message, end } = frame;
        if (message.type === "notification") {
          const update = message.method === "session/update" ? asUpdate(message.params, frame) : null;
          if (update !== null) updates.push(update);
          else this.#ignored(message.method);
          continue;
        }
        await flush();
        await (message.type === "request" ? this.#asked(message, end) : this.#answered(message, end));
        if (this.#error !== null) return;
      }
      await flush();
      const last = batch.at(-1);
      if (last === undefined || this.#error !== null) return;
      await this.#parts.handlers.passed?.(last.end);
      this.#parts.ack(last.end);
    } finally {
      this.#taking = false;
      if (batch.some(({ type }) => type === "message")) this.#silence.heard();
    }
  }

  #malformed(why: string, shown: string): void {
    this.counts.malformed++;
    this.#malformedLine = shown;
    this.#parts.handlers.malformed?.(why, shown);
    if (this.counts.malformed > defaults.acpMalformedLines)
      this.close("protocol-error", this.#nonsense().join());
  }

  #nonsense(): string[] {
    const { malformed } = this.counts;
    if (malformed === 0) return [];
    const lines =
      malformed === 1 ? "a line that is no frame" : `${malformed} lines that are no frames, the last`;
    return [`it has written ${lines}: ${this.#malformedLine}`];
  }

  #ignored(method: string): void {
    this.counts.ignored++;
    if (method === "session/update") this.#malformed("an update of no known form", excerpt(method));
  }

  async #asked({ id, method, params }: Extract<Message, { type: "request" }>, end: number): Promise<void> {
    const handle = Object.hasOwn(this.#parts.handlers.questions, method)
      ? this.#parts.handlers.questions[method]
      : undefined;
    if (handle === undefined) {
      this.counts.unknownRequests++;
      return this.#refuse(id, METHOD_NOT_FOUND, "Method not found");
    }
    if (this.#questions.has(id)) return this.#malformed("an id that is in use", excerpt(method));
    if (this.#questions.size >= defaults.approvalsPending)
      return this.#refuse(id, TOO_MANY, "Too many requests are waiting for an answer");
    this.#open(id, method);
    await handle({ id, method, params, end });
  }

  #open(id: RpcId, method: string): void {
    this.#questions.set(id, method);
    this.#silence.hold();
  }

  /** Waits until it is written: an agent that asks and does not read must not fill our memory. */
  async #refuse(id: RpcId, code: number, message: string): Promise<void> {
    const written = this.#send({ id, error: { code, message } }).catch(() => undefined);
    await Promise.race([written, this.closed]);
  }

  async #answered({ id, outcome }: Extract<Message, { type: "answer" }>, end: number): Promise<void> {
    const request = this.#pending.meet(id);
    if (typeof request === "string") {
      if (request === "answered-twice") this.counts.answeredTwice++;
      else this.counts[request]++;
      return;
    }
    // Before anything of it is believed.
    const wrong = "result" in outcome ? misshapen(request.method, outcome.result) : null;
    if (wrong !== null) throw new AcpClosed("protocol-error", `its answer to ${request.method} has ${wrong}`);
    await this.#parts.handlers.answered?.(request, outcome, end);
    this.#pending.settle(request, outcome);
  }
}
