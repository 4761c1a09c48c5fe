import { BadInput } from "../errors.js";
import { noOutputLimit } from "./watchdog.js";
import { type CliForm, PROMPT_PLACEHOLDER, SESSION_ID_PLACEHOLDER } from "../config/agents.js";

export interface CliRequest {
  readonly prompt: string;
  /** The agent's own id of the session to resume; null: a new session. */
  readonly sessionId: string | null;
  /** Overall timeout; 0: none. */
  readonly timeoutMs: number;
}

export interface CliCommand {
  readonly argv: readonly string[];
  /** The complete input; null: none. */
  readonly stdin: string | null;
  readonly noOutputTimeoutMs: number;
}

/** The command for one prompt. */
export function cliCommand(form: CliForm, { prompt, sessionId, timeoutMs }: CliRequest): CliCommand {
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
        fillPlaceholder(word, SESSION_ID_PLACEHOLDER, sessionId ?? ""),
        PROMPT_PLACEHOLDER,
        prompt,
      ),
    ),
    stdin: inArgv ? null : prompt,
    noOutputTimeoutMs: noOutputLimit(form.watchdog[sessionId === null ? "fresh" : "resume"], timeoutMs),
  };
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
