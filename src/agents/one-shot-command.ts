import { createHash } from "node:crypto";
import {
  type CliForm,
  NEW_SESSION_ID_PLACEHOLDER,
  PROMPT_PLACEHOLDER,
  SESSION_ID_PLACEHOLDER,
} from "../config/agents.js";
import { watchdogFloorMs, watchdogProfiles } from "../defaults.js";
import { BadInput } from "../errors.js";

export interface WatchdogProfile {
  readonly ratio: number;
  readonly minMs: number;
  readonly maxMs: number;
}

/** Keeps the limit below the overall timeout, so that the reason of a stop is unambiguous. */
const BELOW_TIMEOUT_MS = 1_000;

/**
 * How long a CLI agent may print nothing: a share of its overall timeout within the profile's limits; without a timeout
 * (0), the profile's maximum.
 */
export function noOutputLimit(
  profile: keyof typeof watchdogProfiles | WatchdogProfile,
  timeoutMs: number,
): number {
  const { ratio, minMs, maxMs } = typeof profile === "string" ? watchdogProfiles[profile] : profile;
  if (timeoutMs === 0) return Math.max(watchdogFloorMs, maxMs);
  const wanted = Math.min(maxMs, Math.max(minMs, Math.floor(ratio * timeoutMs)));
  return Math.max(watchdogFloorMs, Math.min(wanted, timeoutMs - BELOW_TIMEOUT_MS));
}

interface CliRequest {
  readonly prompt: string;
  /** The agent's own id of the session to resume; null: a new session. */
  readonly sessionId: string | null;
  /** The id that a new session gets, if the agent takes one. */
  readonly newSessionId: string;
  /** Overall timeout; 0: none. */
  readonly timeoutMs: number;
}

interface CliCommand {
  readonly argv: readonly string[];
  /** The complete input; null: none. */
  readonly stdin: string | null;
  readonly noOutputTimeoutMs: number;
}

/** The command for one prompt. */
export function cliCommand(form: CliForm, request: CliRequest): CliCommand {
  const { prompt, sessionId, newSessionId, timeoutMs } = request;
  if (prompt === "") throw new BadInput("prompt", "the prompt is empty; nothing was started");
  if (sessionId !== null && !isAgentSessionId(sessionId))
    throw new BadInput("resume", `${JSON.stringify(sessionId)} cannot be a session id; nothing was started`);
  const words = sessionId === null ? form.argv : form.resumeArgv;
  if (words === undefined)
    throw new BadInput(
      "resume",
      "this agent's sessions cannot be resumed by its command; nothing was started",
    );
  const inArgv = words.some((word) => hasPlaceholder(word, PROMPT_PLACEHOLDER));
  return {
    argv: words.map((word) =>
      fillPlaceholder(
        fillPlaceholder(
          fillPlaceholder(word, SESSION_ID_PLACEHOLDER, sessionId ?? ""),
          NEW_SESSION_ID_PLACEHOLDER,
          newSessionId,
        ),
        PROMPT_PLACEHOLDER,
        prompt,
      ),
    ),
    stdin: inArgv ? null : prompt,
    noOutputTimeoutMs: noOutputLimit(form.watchdog[sessionId === null ? "fresh" : "resume"], timeoutMs),
  };
}

/** True if Holdfast chooses the id of a new session. */
export function takesNewSessionId({ argv }: CliForm): boolean {
  return argv.some((word) => hasPlaceholder(word, NEW_SESSION_ID_PLACEHOLDER));
}

const UUID_PARTS = /^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/;

/** The agent's id of the session that a run begins: a UUID that is derived from the run's id, so it need not be stored before. */
export function newAgentSessionId(runId: string): string {
  const digest = createHash("sha256").update(`agent session of ${runId}`).digest("hex");
  return digest.replace(UUID_PARTS, "$1-$2-4$3-8$4-$5");
}

/** Strict, because the id becomes an argument of a command. */
export function isAgentSessionId(text: string): boolean {
  return /^[A-Za-z0-9_][\w.:-]{0,255}$/.test(text);
}

/** Finds `1.2.3` in the output of `--version`. */
export function parseVersion(output: string): string | null {
  return /(?<![\d.])\d+\.\d+\.\d+(?:-[\w.]{1,40})?/.exec(output.slice(0, 4_096))?.[0] ?? null;
}

/** Replaces a placeholder that is a whole word or follows `=`. The inserted value is not searched again. */
function fillPlaceholder(word: string, placeholder: string, value: string): string {
  return hasPlaceholder(word, placeholder) ? word.slice(0, -placeholder.length) + value : word;
}

function hasPlaceholder(word: string, placeholder: string): boolean {
  return word === placeholder || word.endsWith(`=${placeholder}`);
}
