import { setTimeout } from "node:timers/promises";
import type {
  AnchorLink,
  FirstStop,
  MemberSignal,
  StreamName,
  TerminalSize,
} from "../anchor/host-interface.js";
import type { LiveProcesses } from "../anchor/inspect/processes.js";
import { defaults } from "../defaults.js";
import { BadInput, NotSteering } from "../errors.js";
import type { ProcessIdentity, Survivor } from "../model/process.js";
import type { RunRecord, RunStateName, ServiceFacts } from "../model/run.js";
import type { OutputChunk, Run, RunEnding } from "./api.js";
import { listMembers } from "./inspect/list-members.js";
import { signalMembers } from "./run/signal-members.js";
import {
  type CancelOptions,
  checkTerminalSize,
  type FollowOptions,
  type ReadOptions,
} from "./check-options.js";
import { requestStop } from "./run/request-stop.js";
import { assertOwned, type LiveRun } from "./run/live-run.js";
import { ackOutput, discardUnusedOutput, followOutput, readLiveOutput } from "./run/output.js";

/** The caller's view of a run. */
class RunHandle implements Run {
  readonly #live: LiveRun;

  constructor(live: LiveRun) {
    this.#live = live;
  }

  get runId(): string {
    return this.#live.facts.runId;
  }

  get state(): RunStateName {
    return this.#live.state.name;
  }

  get rootPid(): number | null {
    return this.#live.state.root?.pid ?? null;
  }

  get size(): TerminalSize | null {
    return this.#live.size;
  }

  get service(): ServiceFacts | null {
    return this.#live.service;
  }

  get firstStop(): FirstStop | null {
    return this.#live.firstStop;
  }

  get callerBound(): boolean {
    return this.#live.facts.policy.callerBound;
  }

  get hasCaller(): boolean {
    return this.#live.hasCaller;
  }

  get survivors(): readonly Survivor[] {
    return this.#live.state.name === "exiting" ? this.#live.state.survivors : [];
  }

  get stdinAccepted(): number {
    return this.#live.stdin.accepted;
  }

  get idleMs(): number {
    return this.#live.lastOutput.idleMs;
  }

  async changed(from: Readonly<Record<StreamName, number>>, signal?: AbortSignal): Promise<void> {
    const { outputRanges } = this.#live;
    const hasMore = (): boolean =>
      outputRanges.ended ||
      outputRanges.range("stdout").end > from.stdout ||
      outputRanges.range("stderr").end > from.stderr;
    for (
      let { version } = outputRanges;
      !hasMore() && signal?.aborted !== true;
      version = outputRanges.version
    )
      await outputRanges.changed(version, signal);
  }

  async wait(): Promise<RunRecord> {
    const live = this.#live;
    const record = await live.ended.promise;
    live.outputSeen = true;
    discardUnusedOutput(live);
    return record;
  }

  async end(waitMs: number = defaults.recordWaitMs): Promise<RunEnding> {
    const live = this.#live;
    const { clock, storeBreaker } = live.context;
    const committed = this.wait();
    const late = live.endKnown.promise.then((since) =>
      clock.sleep(Math.max(0, since + waitMs - clock.now()), committed),
    );
    const record = await Promise.race([committed, late]);
    if (record !== undefined) return { record, recordPending: null };
    live.outputSeen = true;
    return { record: live.writeQueue.record, recordPending: pendingReason(storeBreaker.lastError) };
  }

  cancel(options?: CancelOptions): Promise<void> {
    return requestStop(this.#live, options);
  }

  get accepted(): number {
    return this.#live.stdin.accepted;
  }

  get waitingInput(): number {
    return this.#live.stdin.pendingBytes;
  }

  async write(data: Uint8Array | string, at?: number): Promise<void> {
    if (typeof data !== "string" && !(data instanceof Uint8Array))
      throw new BadInput("data", `only text or bytes can be written, not ${JSON.stringify(data)}`);
    assertOwned(this.#live);
    await this.#live.stdin.write(data, at);
  }

  async closeStdin(): Promise<void> {
    assertOwned(this.#live);
    await this.#live.stdin.close();
  }

  resize(size: TerminalSize): void {
    assertOwned(this.#live);
    this.#live.size = checkTerminalSize(size);
    if (this.#live.isOwner) this.#live.link?.resize(size);
  }

  heartbeat(): void {
    this.#live.deadlines.recordProgress();
    ownerLink(this.#live)?.heartbeat();
  }

  read(stream: StreamName, options?: ReadOptions): Promise<OutputChunk> {
    return readLiveOutput(this.#live, stream, options);
  }

  follow(options?: FollowOptions): AsyncIterable<OutputChunk> {
    return followOutput(this.#live, options);
  }

  ack(stream: StreamName, offset: number): void {
    ackOutput(this.#live, stream, offset);
  }

  members(): Promise<LiveProcesses> {
    return listMembers(this.#live);
  }

  async signal(processes: readonly ProcessIdentity[], signal: MemberSignal): Promise<number> {
    assertOwned(this.#live);
    return signalMembers(this.#live, processes, signal);
  }
}

const handles = new WeakMap<LiveRun, Run>();

/** Returns the same handle for the same run. */
export function runHandle(live: LiveRun): Run {
  let handle = handles.get(live);
  if (handle === undefined) {
    handle = new RunHandle(live);
    handles.set(live, handle);
  }
  return handle;
}

function pendingReason(refusal: unknown): string {
  if (!(refusal instanceof Error)) return `the store has not answered for ${defaults.recordWaitMs} ms`;
  // The first sentence only: the others do not apply to a run that has ended.
  return refusal.message.split(/\.(?:\s|$)/, 1)[0] ?? refusal.message;
}

function ownerLink({ isOwner, link }: LiveRun): AnchorLink | null {
  return isOwner ? link : null;
}

/** A lease is renewed every few seconds. */
const FENCE_POLL_MS = 100;

/** Repeats a call while the supervisor is fenced, until its leases are renewed. */
export async function retryWhileFenced<T>(attempt: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (;;)
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof NotSteering) || signal?.aborted === true) throw error;
      await setTimeout(FENCE_POLL_MS, undefined, { ref: false });
    }
}
