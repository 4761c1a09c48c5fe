import type { StreamName, TerminalSize } from "../anchor/host-interface.js";
import { defaults } from "../defaults.js";
import { BadInput } from "../errors.js";
import { type EndReason, NO_LIMITS, type RunLimits, type RunPolicy } from "../model/run.js";

/** Absent or null: no limit. */
export type AskedLimits = {
  readonly [Limit in keyof RunLimits]?: number | null | undefined;
};

export interface CancelOptions {
  readonly reason?: Extract<
    EndReason,
    "manual-cancel" | "overall-timeout" | "no-output-timeout" | "shutdown"
  >;
  readonly actor?: string;
  readonly requestId?: string;
  /** 0: kill at once. */
  readonly graceMs?: number;
}

export interface ReadyOptions {
  readonly timeoutMs?: number;
  /** Aborting ends the wait. */
  readonly signal?: AbortSignal;
}

export interface AdoptOptions {
  readonly actor?: string;
  /** Default false: the deadlines of the task are switched off. */
  readonly keepTimeouts?: boolean;
}

export interface ReadOptions {
  /** Default: the oldest stored byte. */
  readonly offset?: number;
  readonly maxBytes?: number;
}

export interface FollowOptions {
  readonly streams?: readonly StreamName[];
  readonly offsets?: Partial<Record<StreamName, number>>;
  /** Acknowledge a chunk when the next one is requested (back-pressure streams). */
  readonly ack?: boolean;
  /**
   * The memory into which the chunks are read: the bytes of a chunk are valid until the next one is requested. Fast
   * output then leaves no garbage to collect.
   */
  readonly buffer?: Uint8Array;
  /** Aborting ends the iteration without an error. */
  readonly signal?: AbortSignal;
}

export function checkWholeNumber(field: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new BadInput(field, `${field} must be a whole number, 0 or more, not ${String(value)}`);
}

/** 0 or absent: none. */
export function checkOptionalLimit(field: string, value: number | undefined): number | null {
  return value === undefined || value === 0 ? null : checkWholeNumber(field, value);
}

export function checkOneOf<const Word extends string>(
  field: string,
  value: Word,
  words: readonly Word[],
): Word {
  if (words.includes(value)) return value;
  throw new BadInput(field, `${field} must be one of ${words.join(", ")}, not ${JSON.stringify(value)}`);
}

/** Labels are limited, because every record and every list of runs contains them. */
export function checkLabels(labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  for (const [key, value] of Object.entries(labels)) {
    if (key === "" || key.includes("="))
      throw new BadInput("labels", `${JSON.stringify(key)} cannot be a key of labels`);
    if (typeof value !== "string") throw new BadInput("labels", `labels: the value of ${key} is not text`);
  }
  const problem = labelProblem(labels);
  if (problem === null) return { ...labels };
  throw new BadInput("labels", `${problem}; nothing was started`);
}

/** The limit of labels that is exceeded, as a sentence; null: none. */
export function labelProblem(labels: Readonly<Record<string, string>>): string | null {
  const all = Object.entries(labels);
  const { labels: most, labelKeyChars, labelValueChars, labelsBytes } = defaults;
  if (all.length > most) return `a run has at most ${most} labels, not ${all.length}`;
  let bytes = 0;
  for (const [key, value] of all) {
    if (key.length > labelKeyChars)
      return `the key of a label has at most ${labelKeyChars} characters, not ${key.length}`;
    if (value.length > labelValueChars)
      return `the value of label ${JSON.stringify(key)} has at most ${labelValueChars} characters, not ${value.length}`;
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  return bytes > labelsBytes
    ? `the labels of a run have at most ${labelsBytes} bytes together, not ${bytes}`
    : null;
}

/** The text becomes part of a command line, an environment or a frame, so it must not contain NUL. */
export function checkText(field: string, value: string): string {
  if (typeof value === "string" && !value.includes("\0")) return value;
  throw new BadInput(field, `${field} must be text without NUL, not ${JSON.stringify(value)}`);
}

function checkOptionalText(field: string, value: string | null | undefined): string | null {
  return value === undefined || value === null ? null : checkText(field, value);
}

const OWNERSHIP = ["sessionKey", "sessionId", "backendId", "agentId", "taskId"] as const;
type OwnershipField = (typeof OWNERSHIP)[number];

export function checkOwnership(
  options: Readonly<Partial<Record<OwnershipField, string>>>,
): Readonly<Record<OwnershipField, string | null>> {
  const checked = OWNERSHIP.map((field) => [field, checkOptionalText(field, options[field])]);
  return Object.fromEntries(checked) as Record<OwnershipField, string | null>;
}

/** Limit of the terminal driver. */
const MAX_TERMINAL_SIDE = 65_535;

export function checkTerminalSize(size: TerminalSize): TerminalSize {
  for (const side of ["rows", "cols"] as const)
    if (!Number.isSafeInteger(size[side]) || size[side] < 1 || size[side] > MAX_TERMINAL_SIDE)
      throw new BadInput(
        "size",
        `${side} must be between 1 and ${MAX_TERMINAL_SIDE}, not ${String(size[side])}`,
      );
  return { rows: size.rows, cols: size.cols };
}

export function checkUmask(value: number | undefined): number | null {
  if (value === undefined) return null;
  if (Number.isSafeInteger(value) && value >= 0 && value <= 0o777) return value;
  throw new BadInput("umask", `a umask must be between 0 and 0o777, not ${String(value)}`);
}

/** Default policy of a run; the caller chooses only `onEscape` and `onOrphan`. */
export function defaultPolicy(choices: Pick<RunPolicy, "onEscape" | "onOrphan">): RunPolicy {
  const { graceMs, settleMs, drainMs, killReportMs, ownerLossMs } = defaults;
  return { graceMs, settleMs, drainMs, killReportMs, ownerLossMs, callerBound: false, ...choices };
}

const MEMORY_RANGE = { least: 1024 ** 2, most: 128 * 1024 ** 4, text: "from 1 MiB to 128 TiB" };

/** The largest pid_max of Linux. */
const PIDS_RANGE = { least: 1, most: 4_194_304, text: "a whole number from 1 to 4194304" };

/** The scheduler assigns at least 1 ms in each period of 100 ms. */
const CPUS_RANGE = { least: 0.01, most: 4_096, text: "a number from 0.01 to 4096" };

export function checkLimits(asked: AskedLimits = NO_LIMITS): RunLimits {
  if (typeof asked !== "object" || asked === null || Array.isArray(asked))
    throw new BadInput("limits", `limits must be an object, not ${JSON.stringify(asked)}`);
  const { memoryBytes, pids, cpus, ...others } = asked;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined)
    throw new BadInput(
      "limits",
      `there is no limit ${JSON.stringify(unknown)}; the limits are memoryBytes, pids and cpus`,
    );
  return {
    memoryBytes: limitInRange("memoryBytes", memoryBytes, MEMORY_RANGE, Number.isSafeInteger),
    pids: limitInRange("pids", pids, PIDS_RANGE, Number.isSafeInteger),
    cpus: limitInRange("cpus", cpus, CPUS_RANGE, Number.isFinite),
  };
}

function limitInRange(
  name: string,
  value: number | null | undefined,
  { least, most, text }: typeof MEMORY_RANGE,
  isNumber: (value: unknown) => boolean,
): number | null {
  if (value === undefined || value === null) return null;
  if (isNumber(value) && value >= least && value <= most) return value;
  throw new BadInput("limits", `the limit ${name} must be ${text}, not ${String(value)}`);
}
