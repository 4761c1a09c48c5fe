import { defaults } from "../defaults.js";
import { redactText } from "../text/redact.js";
import { firstChars, lastChars } from "../text/truncate.js";
import { parseCliOutput } from "./cli-output.js";
import { isAgentSessionId } from "./command-line.js";
import type { CliOutput } from "../config/agents.js";

export interface OneShotOutput {
  readonly stdout: string;
  readonly stderr: string;
  /** Why its run failed; null: it did not. */
  readonly failure: string | null;
}

export interface OneShotResult {
  readonly text: string;
  readonly error: string | null;
  readonly agentSessionId: string | null;
}

/** What to make of a command that has ended: its answer, or why there is none, in its own words where it has any. */
export function oneShotResult(output: CliOutput, { stdout, stderr, failure }: OneShotOutput): OneShotResult {
  const said = parseCliOutput(output, stdout);
  const text = limitLength(said?.text ?? "");
  const named = said?.sessionId ?? "";
  const agentSessionId = isAgentSessionId(named) ? named : null;
  if (failure === null && said !== null)
    return { text, error: said.error === null ? null : limitLength(said.error), agentSessionId };
  // Another version, perhaps: what it printed is all there is.
  if (failure === null) return { text: limitLength(stdout.trim()), error: null, agentSessionId };
  const complaint = lastChars(redactText(stderr.trim()), defaults.agentComplaintChars);
  const why = said?.error ?? complaint;
  return { text, error: why === "" ? failure : limitLength(`${failure}: ${why}`), agentSessionId };
}

function limitLength(text: string): string {
  return firstChars(text, defaults.messageChars);
}
