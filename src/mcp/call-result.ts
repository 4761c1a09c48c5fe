import type { CallToolResult } from "@modelcontextprotocol/server";
import { HoldfastError } from "../errors.js";
import { sanitizeText } from "../text/sanitize.js";
import { ArgumentsRefused, type ToolAnswer } from "./tool.js";

/** The next step after an error, for errors whose message does not say it for a model. */
const NEXT_STEPS: Readonly<Record<string, string>> = {
  EXEC_DENIED:
    "Check the name of the program, use another command, or ask the user to allow it (holdfast approvals, or an exec rule of the session).",
  RUN_NOT_FOUND: "process list shows the commands that this session can see.",
  NOT_FOUND:
    "List what exists (process, tasks, sessions or agents, with action list) and use an id from there.",
  TOO_MANY_REQUESTS: "Wait a second, and make fewer calls at the same time.",
  SESSION_STORAGE_FULL:
    "The session has too many records; the user can remove ended runs with holdfast process clear.",
  SESSION_TAKEN:
    "The exec rules in the client's configuration have changed since the session was opened; the user can close it (holdfast sessions close), and the next call opens it with the new ones.",
  STDIN_CLOSED: "The program reads no input; start it with terminal: true to type into it.",
  GATEWAY_UNREACHABLE:
    "The gateway is not running or restarts. process list shows whether the command was started.",
  SUPERVISOR_CLOSED: "The gateway stops; try again when it is back.",
};

export function toCallResult({ text, data, failed = false }: ToolAnswer): CallToolResult {
  return {
    content: [{ type: "text", text: text === "" ? "(no output)" : text }],
    structuredContent: { ...data },
    ...(failed ? { isError: true } : {}),
  };
}

/** An error that the model can react to. */
export function toErrorResult(error: unknown): CallToolResult {
  return { content: [{ type: "text", text: sanitizeText(errorText(error)) }], isError: true };
}

function errorText(error: unknown): string {
  if (error instanceof ArgumentsRefused) return error.message;
  if (!(error instanceof HoldfastError))
    return `INTERNAL: ${error instanceof Error ? error.message : String(error)}`;
  const next = NEXT_STEPS[error.code];
  return `${error.code}: ${error.message}${next === undefined ? "" : `\n${next}`}`;
}
