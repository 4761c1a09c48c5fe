import type { AuthMethod } from "@agentclientprotocol/sdk";
import { AcpAuthRequired, type AgentLogin, AcpRefused } from "../../errors.js";
import { redactedExcerpt } from "../../text/redact.js";
import { isObject } from "./message.js";

/** "Authentication required" of ACP. */
const AUTH_REQUIRED = -32_000;
/** The same, from agents that pass on the status of their model's API. */
const HTTP_UNAUTHORIZED = 401;

/** More methods than any known agent offers. */
const MAX_METHODS = 16;
/** Room for an instruction of two sentences. */
const MAX_DESCRIPTION_CHARS = 300;

/** The known facts about the agent of a session. */
export interface AgentIdentity {
  /** An agent of the catalogue; null: a command of the caller. */
  readonly agent: string | null;
  /** The agent's answer to `initialize`. */
  readonly capabilities: unknown;
}

export function isAuthRequired(error: unknown): error is AcpRefused {
  return error instanceof AcpRefused && [AUTH_REQUIRED, HTTP_UNAUTHORIZED].includes(error.rpcCode);
}

/** Adds how to log in to an error that says that a login is needed. Returns any other error unchanged. */
export function toAuthRequired<Thrown>(error: Thrown, agent: AgentIdentity): Thrown | AcpAuthRequired {
  if (!isAuthRequired(error)) return error;
  return new AcpAuthRequired(error.method, error.rpcCode, error.said, agentLogin(agent));
}

/** The login methods that the agent offered in its answer to `initialize`. */
export function authMethodsOf(capabilities: unknown): readonly AuthMethod[] {
  const offered = isObject(capabilities) ? capabilities["authMethods"] : null;
  if (!Array.isArray(offered)) return [];
  return offered
    .filter((each) => isObject(each) && typeof each["id"] === "string" && typeof each["name"] === "string")
    .slice(0, MAX_METHODS) as AuthMethod[];
}

function agentLogin({ agent, capabilities }: AgentIdentity): AgentLogin {
  const methods = authMethodsOf(capabilities);
  const name = agent ?? "the agent";
  if (methods.length === 0)
    return {
      methods,
      advice: `It names no login method: log in with ${name}'s own command, or set its API key, then try again`,
    };
  return {
    methods,
    advice: `It offers these logins: ${methods.map(methodText).join("; ")}. Run \`holdfast acp login ${agent ?? "--agent-command …"}\`, or log in with ${name}'s own command, then try again`,
  };
}

/** For example `Log in with Google (oauth-personal): Opens a browser`. */
export function methodText({ id, name, description }: AuthMethod): string {
  const label = `${redactedExcerpt(name)} (${redactedExcerpt(id)})`;
  return typeof description === "string" && description !== ""
    ? `${label}: ${redactedExcerpt(description, MAX_DESCRIPTION_CHARS)}`
    : label;
}
