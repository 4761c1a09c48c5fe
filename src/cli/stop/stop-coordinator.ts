import { systemClock } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import { GatewaySilent, GatewayUnreachable, HoldfastError } from "../../errors.js";
import { newRequestId } from "../../model/ids.js";
import type { Survivor } from "../../model/process.js";
import type { RunRecord } from "../../model/run.js";
import { type DirectStopOutcome, stopDirectly, type StopOptions } from "../../supervisor/stop/stop.js";
import { connectIfRunning, connectOrStart, type GatewayConnection } from "../client/connect.js";
import { cliActor, sessionToken } from "../client/requester.js";
import type { FoundRun } from "../client/resolve-run.js";
import {
  isOwnedElsewhere,
  isStoreShared,
  type LocalState,
  openLocalState,
} from "../../queries/local-state-directory.js";
import { formatDuration } from "../../text/format-units.js";
import { runStatusText } from "../print/run-status.js";
import { notice } from "../print/errors-and-notices.js";

/** A stop through the gateway, and the runs to stop without it. */
export interface StopOperation<Answer> {
  readonly ask: (connection: GatewayConnection, signal: AbortSignal) => Promise<Answer>;
  /** False: the gateway could not end it; the rest is stopped directly. */
  readonly isSettled: (answer: Answer) => boolean;
  /** The runs to stop without the gateway. Rejects if there is no such run; null: there is no state directory. */
  readonly find: (localState: LocalState | null) => Promise<readonly FoundRun[]>;
  readonly graceMs: number | null;
}

/** A run that was stopped without the gateway. */
export interface DirectStop {
  readonly runId: string;
  readonly record: RunRecord | null;
  readonly outcome: DirectStopOutcome;
}

export type StopResult<Answer> =
  | { readonly through: "gateway"; readonly answer: Answer }
  /** `remark`: one line about the direct stop; null: none is needed. */
  | { readonly through: "direct"; readonly runs: readonly DirectStop[]; readonly remark: string | null };

/** The gateway, or why it cannot be used. `why` is null if none is running: that needs no remark. */
type GatewayLookup =
  | { readonly connection: GatewayConnection }
  | { readonly connection: null; readonly why: string | null };

/** Why the gateway did not end it. */
interface Unsettled {
  /** Null: no gateway is running. */
  readonly why: string | null;
  /** The error if there is no such run here either. */
  readonly error: unknown;
  /** The gateway has the request, and may have stopped the runs before it failed. */
  readonly requested: boolean;
}

/** Errors about the request itself: a direct stop would fail in the same way. */
const FINAL_CODES = new Set([
  "BAD_INPUT",
  "PEER_UNREACHABLE",
  "OPERATOR_ONLY",
  "TOO_MANY_REQUESTS",
  "ACP_NOT_HELD",
  "INSIDE_RUN",
]);
const NOT_FOUND_CODES = new Set(["RUN_NOT_FOUND", "NOT_FOUND"]);

/**
 * Stops runs for every command: through the gateway if it answers in time, else directly, without gateway and store.
 * Both together take at most `stopBoundMs`. A session can use only the gateway.
 */
export class StopCoordinator {
  readonly #until: number;
  #found: Promise<GatewayLookup> | null = null;

  /** `from`: the start of the time limit. */
  constructor(graceMs: number | null, from = performance.now()) {
    const beyond = Math.max(0, (graceMs ?? 0) - defaults.graceMs);
    this.#until = from + defaults.stopBoundMs - defaults.stopReportMs + beyond;
  }

  async stop<Answer>(command: StopOperation<Answer>): Promise<StopResult<Answer>> {
    const attempt = await this.#request(command);
    if ("answer" in attempt) return { through: "gateway", answer: attempt.answer };
    await using localState = await openLocalState();
    const found =
      localState === null && (await isStoreShared())
        ? null
        : await command.find(localState).catch((error: unknown) => {
            throw attempt.error ?? error;
          });
    // A run of another host has only a record here: a gateway must hand the stop over.
    if (localState === null || found === null || (await anyOwnedElsewhere(localState, found)))
      return { through: "gateway", answer: await command.ask(await connectOrStart(), this.#left(0)) };
    const stops = await Promise.all(found.map((each) => this.#stopOne(localState, each, command.graceMs)));
    const runs = attempt.requested ? stops.map(endedSince) : stops;
    return { through: "direct", runs, remark: await fallbackRemark(localState, found, runs, attempt.why) };
  }

  /** The gateway's answer, or why there is none. */
  async #request<Answer>(command: StopOperation<Answer>): Promise<{ answer: Answer } | Unsettled> {
    this.#found ??= lookUpGateway();
    const found = await this.#found;
    if (found.connection === null) return { why: found.why, error: null, requested: false };
    const late = this.#left(defaults.stopDirectMs);
    const began = performance.now();
    try {
      const answer = await command.ask(found.connection, late);
      // A stop that was handed over, or a session's, is up to the gateway.
      if (command.isSettled(answer) || sessionToken() !== null) return { answer };
      return { why: "the gateway could not end it", error: null, requested: true };
    } catch (error) {
      const passed = formatDuration(performance.now() - began);
      if (late.aborted) {
        const why = `the gateway did not end it within ${passed}`;
        if (sessionToken() !== null) throw new GatewayUnreachable(sessionText(why), { cause: error });
        return { why, error: null, requested: true };
      }
      if (!(error instanceof HoldfastError) || FINAL_CODES.has(error.code) || sessionToken() !== null)
        throw error;
      if (NOT_FOUND_CODES.has(error.code))
        return { why: `the gateway answered: ${error.message}`, error, requested: false };
      const why = `the gateway could not stop it (${firstSentence(error.message)})`;
      return { why, error: null, requested: true };
    }
  }

  async #stopOne(localState: LocalState, found: FoundRun, graceMs: number | null): Promise<DirectStop> {
    const boundMs = Math.max(1_000, this.leftMs);
    const { runId, record } = found;
    return { runId, record, outcome: await stopFoundRun(localState, found, graceMs, { boundMs }) };
  }

  /** The rest of the time limit. */
  get leftMs(): number {
    return Math.max(0, Math.ceil(this.#until - performance.now()));
  }

  #left(reserveMs: number): AbortSignal {
    return AbortSignal.timeout(Math.max(1_000, this.leftMs - reserveMs));
  }
}

/** Results of runs that ended between the gateway's attempt and the direct stop. */
function endedSince({ runId, record, outcome }: DirectStop): DirectStop {
  if (outcome.outcome !== "ended-before") return { runId, record, outcome };
  if (record?.state === "exited") return { runId, record, outcome };
  return { runId, record, outcome: { outcome: "gone", detail: outcome.detail } };
}

/** The outcome of a stop of a run that had ended. An end without a proof is no success: processes of it may be alive. */
export function endedBeforeOutcome(record: RunRecord): DirectStopOutcome {
  const detail = `it had already ended: ${runStatusText(record)}`;
  return record.emptiness === "unproven"
    ? { outcome: "unknown", detail: `${detail}; it is not proven that no process is left` }
    : { outcome: "ended-before", detail };
}

/** Stops a run without the gateway. Needs neither store nor lease. */
export async function stopFoundRun(
  { host }: LocalState,
  { runId, address, record }: FoundRun,
  graceMs: number | null,
  options?: StopOptions,
): Promise<DirectStopOutcome> {
  if (record?.state === "exited") return endedBeforeOutcome(record);
  const run = address ?? (record === null ? null : { instanceId: record.originInstanceId, runId });
  if (run === null)
    return { outcome: "unknown", detail: "it has no directory here, and nothing was signalled" };
  const stop = { reason: "manual-cancel", actor: cliActor(), requestId: newRequestId(), graceMs };
  return stopDirectly({ host, clock: systemClock }, { run, record }, stop, options);
}

async function anyOwnedElsewhere(localState: LocalState, found: readonly FoundRun[]): Promise<boolean> {
  for (const each of found) if (await isOwnedElsewhere(localState, each)) return true;
  return false;
}

async function lookUpGateway(): Promise<GatewayLookup> {
  const session = sessionToken() !== null;
  try {
    const connection = await connectIfRunning();
    if (connection !== null) return { connection };
  } catch (error) {
    if (!(error instanceof GatewaySilent)) throw error;
    if (session) throw new GatewayUnreachable(sessionText(error.message), { cause: error });
    return { connection: null, why: error.message };
  }
  if (session) return { connection: await connectOrStart("; a session has no other way to stop anything") };
  return { connection: null, why: null };
}

function sessionText(why: string): string {
  return `${why}, and a session has no other way to stop anything: only a gateway knows which runs belong to the session. The operator can stop it without a gateway`;
}

function firstSentence(message: string): string {
  return message.split(/\. |\.$/, 1)[0] ?? message;
}

/** Describes the stop without the gateway, and the time when the record is completed. */
async function fallbackRemark(
  { host }: LocalState,
  found: readonly FoundRun[],
  runs: readonly DirectStop[],
  why: string | null,
): Promise<string | null> {
  const stopped = runs.filter(({ outcome }) => outcome.outcome !== "ended-before");
  const unread = found.find((each) => each.unread !== null)?.unread ?? null;
  const instances = why === null ? await host.listInstances() : [];
  const owned = found.every(
    ({ record }) =>
      record === null || instances.find((each) => each.instanceId === record.ownerInstanceId)?.alive === true,
  );
  // Another live supervisor owns it, such as a foreground `holdfast run`, and records the end at once.
  if (why === null && owned && unread === null) return null;
  if (stopped.length === 0 && unread === null)
    return why === null ? null : `${why}; nothing was left to stop`;
  const names = stopped.map(({ runId }) => runId).join(", ");
  const record =
    unread === null
      ? "the next gateway completes its record"
      : `its record is completed when the store works again: ${firstSentence(unread.message)}`;
  const done = stopped.every(({ outcome }) => outcome.outcome === "gone") ? "stopped" : "tried to stop";
  return [
    why ?? "no gateway is running",
    ...(names === "" ? [] : [`${done} ${names} directly`]),
    record,
  ].join("; ");
}

/** Printed after the result. */
export function printRemark(remark: string | null): void {
  if (remark !== null) notice(remark, "yellow");
}

export function survivorsOf(runs: readonly DirectStop[]): readonly Survivor[] {
  return runs.flatMap(({ outcome }) => (outcome.outcome === "survivors" ? outcome.survivors : []));
}
