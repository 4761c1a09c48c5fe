import { defaults } from "../../defaults.js";
import { AcpClosed, type AcpCloseReason, HoldfastError } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import type { AcpTurnOutcome, StoredError } from "../../model/acp/session-and-turn.js";
import type { RunExit } from "../../model/run.js";
import { LineBuilder } from "../../output/line-collector.js";
import { redactedExcerpt, redactText } from "../../text/redact.js";
import { sanitizeText } from "../../text/sanitize.js";

const REASONS_WITH_EXIT: readonly AcpCloseReason[] = ["ended", "protocol-error"];

/** Adds the exit status and the last line of stderr, if these may explain why the agent ended. */
export function addExitReason(closed: AcpClosed, exit: RunExit | null, stderr: string): AcpClosed {
  if (!REASONS_WITH_EXIT.includes(closed.reason)) return closed;
  const line = lastStderrLine(stderr);
  return closed.and([...exitStatusText(exit), ...(line === "" ? [] : [`its last line on stderr: ${line}`])]);
}

/** Empty if the agent was stopped. */
function exitStatusText(exit: RunExit | null): string[] {
  if (exit?.reason === "exit" && exit.code !== null) return [`it exited with code ${exit.code}`];
  return exit?.reason === "signal" && exit.signal !== null ? [`it was ended by ${exit.signal}`] : [];
}

/** Reasons for which the agent is ended because of what it sent, or did not send. */
const AGENT_FAULTS: readonly AcpCloseReason[] = [
  "frame-too-large",
  "no-frames",
  "protocol-error",
  "request-timeout",
  "wrong-version",
];

const STOP_ACTOR_PREFIX = "acp: ";

/** The actor on record of a run that is stopped because the connection to its agent closed. */
export function closedConnectionActor(reason: AcpCloseReason): string {
  return `${STOP_ACTOR_PREFIX}${reason}`;
}

/** True if the ACP controller stopped the run by itself. A person or a session did not cancel it. */
export function isStoppedByController(exit: Pick<RunExit, "reason" | "actor"> | null): boolean {
  return exit?.reason === "manual-cancel" && exit.actor.startsWith(STOP_ACTOR_PREFIX);
}

/**
 * The outcome of a turn whose agent ended before it answered. `reason`: of the closed connection; null: unknown, because
 * no gateway ran. An agent that was ended for its fault failed; one whose process ended otherwise was interrupted.
 */
export function outcomeWithoutAnswer(
  isCancelled: boolean,
  reason: AcpCloseReason | null,
  exit: RunExit | null,
): Extract<AcpTurnOutcome, "cancelled" | "failed" | "interrupted"> {
  if (isCancelled) return "cancelled";
  if (reason !== null && AGENT_FAULTS.includes(reason)) return "failed";
  // An agent whose output ended, and that did not exit, had to be stopped.
  const faults = [...AGENT_FAULTS, "ended" as const].map(closedConnectionActor);
  const isEndedForFault = isStoppedByController(exit) && faults.includes(exit?.actor ?? "");
  return isEndedForFault ? "failed" : "interrupted";
}

/** Lines that Node prints after an error's message: the stack, the fields of the error, its version. */
const STACK_TRACE_LINE = /^(?:\s|[\])}]|Node\.js v|$)/;

function lastStderrLine(stderr: string): string {
  const lines = stderr.trimEnd().split("\n");
  return redactedExcerpt(lines.findLast((line) => !STACK_TRACE_LINE.test(line)) ?? lines.at(-1) ?? "");
}

/** An error as it is stored. */
export function toProblem(error: unknown): StoredError {
  const message = errorMessage(error);
  if (error instanceof AcpClosed && error.reason === "no-frames") return { code: "ACP_TIMEOUT", message };
  return { code: error instanceof HoldfastError ? error.code : "INTERNAL", message };
}

const LINE_FEED = 0x0a;

/**
 * The last lines of an agent's stderr, for people. Lines are kept whole or cut at their end: without its beginning, a
 * secret in a line could not be recognized.
 */
export class StderrTail {
  readonly #builder = new LineBuilder(defaults.acpStderrLineBytes, true);
  #lines: string[] = [];
  #chars = 0;
  /** Lines that were dropped. */
  dropped = 0;

  push(bytes: Uint8Array): void {
    let start = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
      this.#builder.push(bytes.subarray(start, end));
      this.#addLine();
      start = end + 1;
    }
    this.#builder.push(bytes.subarray(start));
  }

  /** Call at the end of the stream, to add an unfinished line. */
  finish(): void {
    this.#addLine();
  }

  get text(): string {
    return sanitizeText(redactText(this.#lines.join("\n")));
  }

  #addLine(): void {
    const { bytes, cut } = this.#builder.take();
    if (bytes.length === 0) return;
    const line = Buffer.from(bytes).toString() + (cut > 0 ? "…" : "");
    this.#lines.push(line);
    this.#chars += line.length + 1;
    // Half is dropped at once when twice the bound is reached: dropping one line at a time would be quadratic.
    if (this.#chars <= 2 * defaults.acpStderrBytes) return;
    let from = 0;
    for (; this.#chars > defaults.acpStderrBytes; from++) this.#chars -= (this.#lines[from]?.length ?? 0) + 1;
    this.dropped += from;
    this.#lines = this.#lines.slice(from);
  }
}
