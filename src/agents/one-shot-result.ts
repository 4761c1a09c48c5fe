import { defaults } from "../defaults.js";
import { redactText } from "../text/redact.js";
import { firstChars, lastChars } from "../text/truncate.js";
import { parseCliOutput } from "./one-shot-output.js";
import { isAgentSessionId } from "./one-shot-command.js";
import type { CliOutput } from "../config/agents.js";

interface OneShotOutput {
  readonly stdout: string;
  readonly stderr: string;
  /** Why the run failed; null: it succeeded. */
  readonly failure: string | null;
}

export interface OneShotResult {
  readonly text: string;
  readonly error: string | null;
  readonly agentSessionId: string | null;
}

/** The answer of an ended command, or its error, preferably in the agent's words. */
export function oneShotResult(output: CliOutput, { stdout, stderr, failure }: OneShotOutput): OneShotResult {
  const parsed = parseCliOutput(output, stdout);
  const text = limitLength(parsed?.text ?? "");
  const sessionId = parsed?.sessionId ?? "";
  const agentSessionId = isAgentSessionId(sessionId) ? sessionId : null;
  if (failure === null && parsed !== null)
    return { text, error: parsed.error === null ? null : limitLength(parsed.error), agentSessionId };
  // Perhaps another version of the agent: return its output.
  if (failure === null) return { text: limitLength(stdout.trim()), error: null, agentSessionId };
  const complaint = lastChars(redactText(stderr.trim()), defaults.agentComplaintChars);
  const why = parsed?.error ?? complaint;
  return { text, error: why === "" ? failure : limitLength(`${failure}: ${why}`), agentSessionId };
}

function limitLength(text: string): string {
  return firstChars(text, defaults.messageChars);
}
