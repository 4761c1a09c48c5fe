import type {
  AgentNotificationParamsByMethod,
  AgentRequestMethod,
  AgentRequestParamsByMethod,
  AgentRequestResponsesByMethod,
} from "@agentclientprotocol/sdk";
import { hostClock, monotonicId } from "../../async/clock.js";
import { deferred } from "../../async/deferred.js";
import { defaults } from "../../defaults.js";
import { AcpClosed } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import { redactedExcerpt } from "../../text/redact.js";
import { type AcpFrame, AcpFrameReader, AcpFrameWriter, inBatches, type OutgoingFrame } from "./frames.js";
import type { AcpConnectionDeps, AcpRequestOptions, ConnectionState } from "./connection-contract.js";
import { FrameCounts } from "./frame-counts.js";
import { InactivityTimer } from "./inactivity-timer.js";
import {
  METHOD_NOT_FOUND,
  parseSessionUpdate,
  type RpcId,
  type RpcMessage,
  type RpcOutcome,
  type SessionUpdate,
  TOO_MANY_REQUESTS,
} from "./message.js";
import { invalidResult, type PendingRequest, PendingRequests } from "./pending-requests.js";

/** The client's side of one connection to an ACP agent. Independent of processes. */
export class AcpConnection implements AsyncDisposable {
  readonly counts = new FrameCounts();
  readonly #deps: AcpConnectionDeps;
  readonly #pending: PendingRequests;
  readonly #openRequests = new Map<RpcId, string>();
  /** Reports a stall, and closes the connection if a turn has a limit without output. */
  readonly #inactivity: readonly [stall: InactivityTimer, limit: InactivityTimer];
  readonly #stop = new AbortController();
  readonly #closed = deferred<AcpClosed>();
  readonly #reading: Promise<void>;
  readonly #writer: AcpFrameWriter;
  #lastFrame: OutgoingFrame | null;
  #handling = false;
  #error: AcpClosed | null = null;

  constructor(deps: AcpConnectionDeps) {
    this.#deps = deps;
    const { clock = hostClock, restored, firstId = monotonicId() } = deps;
    // While the agent does not read its stdin, its silence counts.
    const isPaused = (): boolean => this.#handling && !this.#writer.isWriting;
    this.#inactivity = [
      new InactivityTimer(clock, isPaused, (ms) => void deps.handlers.onStall?.(ms)),
      new InactivityTimer(clock, isPaused, (ms) =>
        this.close("no-frames", `it sent nothing for ${ms} ms, the limit without output of this turn`),
      ),
    ];
    this.#pending = new PendingRequests(clock, restored?.pending ?? [], firstId, (error) =>
      this.close("request-timeout", error.message),
    );
    for (const { id, method } of restored?.openRequests ?? []) this.#addOpenRequest(id, method);
    this.#lastFrame = restored?.outgoing ?? null;
    this.#writer = new AcpFrameWriter((bytes) => deps.write(bytes), deps.stdinAccepted, this.#lastFrame);
    this.#reading = this.#readLoop();
  }

  get closed(): Promise<AcpClosed> {
    return this.#closed.promise;
  }

  get isClosed(): boolean {
    return this.#error !== null;
  }

  /** True while a frame waits for the agent to read. */
  get isWriting(): boolean {
    return this.#writer.isWriting;
  }

  get state(): ConnectionState {
    return {
      pending: this.#pending.list,
      openRequests: [...this.#openRequests].map(([id, method]) => ({ id, method })),
      outgoing: this.#lastFrame,
    };
  }

  async request<Method extends AgentRequestMethod>(
    method: Method,
    params: AgentRequestParamsByMethod[Method],
    options: AcpRequestOptions,
  ): Promise<AgentRequestResponsesByMethod[Method]> {
    return (await this.requestAny(method, params, options)) as AgentRequestResponsesByMethod[Method];
  }

  /** A request that the stable part of the protocol does not have, or no longer has. */
  async requestAny(
    method: string,
    params: unknown,
    { deadlineMs, fatal = false }: AcpRequestOptions,
  ): Promise<unknown> {
    if (this.#error !== null) throw this.#error;
    const request = this.#pending.add(method, deadlineMs, fatal);
    const answer = this.#pending.answerTo(request.id);
    this.#send({ id: request.id, method, params }, request).catch((error: unknown) =>
      this.#pending.fail(request.id, error),
    );
    return answer;
  }

  /** The answer to a request that an earlier gateway process sent. */
  answerTo(id: number): Promise<unknown> {
    return this.#pending.answerTo(id);
  }

  notify<Method extends keyof AgentNotificationParamsByMethod>(
    method: Method,
    params: AgentNotificationParamsByMethod[Method],
  ): Promise<void> {
    return this.#error === null ? this.#send({ method, params }) : Promise.reject(this.#error);
  }

  /** False: there is no open request with this id. */
  async answer(id: RpcId, outcome: RpcOutcome): Promise<boolean> {
    if (this.#error !== null) throw this.#error;
    if (!this.#openRequests.delete(id)) return false;
    for (const timer of this.#inactivity) timer.resume();
    await this.#send({ id, ...outcome });
    return true;
  }

  /**
   * Reports silence of `stallMs`, and closes the connection after silence of `limitMs` (null: never). Time does not count
   * while the agent waits for an answer, or while its frames are being handled.
   */
  watchTurn(stallMs: number, limitMs: number | null): Disposable {
    const [stall, limit] = this.#inactivity;
    if (this.#error === null) {
      stall.start(stallMs);
      limit.start(limitMs);
    }
    return { [Symbol.dispose]: () => this.#stopTimers() };
  }

  /** Later calls have no effect: the first reason stays. */
  close(reason: AcpClosed["reason"] = "closed", why = "it is no longer needed"): void {
    this.#closeWith(new AcpClosed(reason, why));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    await this.#reading;
  }

  #closeWith(error: AcpClosed): void {
    if (this.#error !== null) return;
    this.#error = error;
    this.#stopTimers();
    this.#stop.abort();
    this.#pending.failAll(error);
    this.#closed.resolve(error);
  }

  #stopTimers(): void {
    for (const timer of this.#inactivity) timer.stop();
  }

  #send(message: object, request: PendingRequest | null = null): Promise<void> {
    return this.#writer.send(message, async (frame) => {
      if (this.#error !== null) throw this.#error;
      await this.#deps.handlers.beforeSend?.(frame, request);
      this.#lastFrame = frame;
    });
  }

  async #readLoop(): Promise<void> {
    const { startAt = 0, maxFrameBytes } = this.#deps;
    const reader = new AcpFrameReader(startAt, maxFrameBytes);
    try {
      for await (const chunk of this.#deps.source(this.#stop.signal))
        for (const batch of inBatches(reader.push(chunk))) {
          await this.#handleBatch(batch);
          if (this.#error !== null) return;
        }
      if (this.#error !== null) return;
      const rest = reader.finish();
      if (rest !== null) await this.#handleBatch([rest]);
      const ended = rest === null ? "its output ended" : "its output ended in the middle of a frame";
      this.close("ended", [ended, ...this.counts.describeMalformed()].join("; "));
    } catch (error) {
      const why = `a frame could not be handled: ${errorMessage(error)}`;
      this.#closeWith(error instanceof AcpClosed ? error : new AcpClosed("closed", why, { cause: error }));
    }
  }

  /** Until the batch is handled, nothing more is read from the source, so the agent is held back. */
  async #handleBatch(batch: readonly AcpFrame[]): Promise<void> {
    this.#handling = true;
    const hasMessages = batch.some(({ type }) => type === "message");
    try {
      let updates: SessionUpdate[] = [];
      for (const frame of batch) {
        if (frame.type !== "message") {
          if (frame.type === "malformed") this.#onMalformed(frame.why, frame.excerpt);
          if (this.#error !== null) break;
          continue;
        }
        this.counts.frames++;
        const { message, end } = frame;
        if (message.type === "notification") {
          const update =
            message.method === "session/update" ? parseSessionUpdate(message.params, frame) : null;
          if (update !== null) updates.push(update);
          else this.#onIgnored(message.method);
          continue;
        }
        const before = updates;
        updates = [];
        if (message.type === "answer") await this.#onAnswer(message, end, before);
        else {
          await this.#onUpdates(before);
          await this.#onRequest(message, end);
        }
        if (this.#error !== null) return;
      }
      await this.#onUpdates(updates);
      const last = batch.at(-1);
      if (last === undefined || this.#error !== null) return;
      if (hasMessages) await this.#deps.handlers.onActivity?.();
      await this.#deps.handlers.onConsumed?.(last.end);
      this.#deps.ack(last.end);
    } finally {
      this.#handling = false;
      if (hasMessages) for (const timer of this.#inactivity) timer.recordActivity();
    }
  }

  #onMalformed(why: string, excerpt: string): void {
    this.counts.addMalformed(excerpt);
    this.#deps.handlers.onMalformed?.(why, excerpt);
    if (this.counts.malformed > defaults.acpMalformedLines)
      this.close("protocol-error", this.counts.describeMalformed().join());
  }

  #onIgnored(method: string): void {
    this.counts.ignored++;
    if (method === "session/update") this.#onMalformed("not a valid session/update", redactedExcerpt(method));
  }

  async #onRequest(
    { id, method, params }: Extract<RpcMessage, { type: "request" }>,
    end: number,
  ): Promise<void> {
    const { requests } = this.#deps.handlers;
    const handle = Object.hasOwn(requests, method) ? requests[method] : undefined;
    if (handle === undefined) {
      this.counts.unknownRequests++;
      return this.#refuse(id, METHOD_NOT_FOUND, "Method not found");
    }
    if (this.#openRequests.has(id))
      return this.#onMalformed("a request id that is in use", redactedExcerpt(method));
    if (this.#openRequests.size >= defaults.approvalsPending)
      return this.#refuse(id, TOO_MANY_REQUESTS, "Too many requests are waiting for an answer");
    this.#addOpenRequest(id, method);
    await handle({ id, method, params, end });
  }

  #addOpenRequest(id: RpcId, method: string): void {
    this.#openRequests.set(id, method);
    for (const timer of this.#inactivity) timer.pause();
  }

  /** Waits until the answer is written: an agent that sends requests without reading answers must not fill the memory. */
  async #refuse(id: RpcId, code: number, message: string): Promise<void> {
    await Promise.race([this.#send({ id, error: { code, message } }).catch(() => undefined), this.closed]);
  }

  async #onUpdates(updates: readonly SessionUpdate[]): Promise<void> {
    if (updates.length > 0) await this.#deps.handlers.onUpdates(updates);
  }

  /** `updates`: those before the answer, which are not stored yet. */
  async #onAnswer(
    { id, outcome }: Extract<RpcMessage, { type: "answer" }>,
    end: number,
    updates: readonly SessionUpdate[],
  ): Promise<void> {
    const { handlers } = this.#deps;
    const request = this.#pending.match(id);
    const isMatched = typeof request !== "string";
    const fault = isMatched && "result" in outcome ? invalidResult(request.method, outcome.result) : null;
    const together = isMatched && fault === null && handlers.onUpdatesAndAnswer !== undefined;
    if (!together) await this.#onUpdates(updates);
    if (!isMatched) {
      this.counts[request === "answered-twice" ? "answeredTwice" : request]++;
      return;
    }
    if (fault !== null) throw new AcpClosed("protocol-error", `its answer to ${request.method} has ${fault}`);
    if (together) await handlers.onUpdatesAndAnswer?.(updates, request, outcome, end);
    else await handlers.onAnswer?.(request, outcome, end);
    this.#pending.settle(request, outcome);
  }
}
