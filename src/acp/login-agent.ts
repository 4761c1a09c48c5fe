import type { AuthMethod, ClientCapabilities } from "@agentclientprotocol/sdk";
import { NO_CLIENT_ACCESS, toClientCapabilities } from "../config/client-access.js";
import { defaults } from "../defaults.js";
import { BadInput } from "../errors.js";
import type { AgentCommand } from "./agent-command.js";
import { type TemporaryAgentDeps, withTemporaryAgent } from "./agent/temporary-agent.js";
import { authMethodsOf, methodText } from "./wire/auth-required.js";
import { isObject } from "./wire/message.js";

export interface LoginRequest {
  readonly command: AgentCommand;
  readonly cwd: string;
  /** The id of a login method; null: the only one. */
  readonly method: string | null;
  readonly signal?: AbortSignal | undefined;
}

/** A command that the caller runs in its terminal; exit status 0 means success. */
interface TerminalLogin {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export interface LoginResult {
  readonly method: { readonly id: string; readonly name: string };
  /** Null: the agent has carried out the login itself. */
  readonly terminal: TerminalLogin | null;
}

/** Terminal methods are offered only to clients that can run them. `_meta` is for agents that are older than the field `auth` of the protocol. */
export const LOGIN_CAPABILITIES: ClientCapabilities = {
  ...toClientCapabilities(NO_CLIENT_ACCESS),
  auth: { terminal: true },
  _meta: { "terminal-auth": true },
};

/** Starts the agent, logs in with one of its methods, and ends it. A terminal method is returned for the caller to run. */
export async function loginAgent(
  deps: TemporaryAgentDeps,
  { command, cwd, method, signal }: LoginRequest,
): Promise<LoginResult> {
  const clientCapabilities = LOGIN_CAPABILITIES;
  const request = { command, cwd, clientCapabilities, endReason: "acp: its login has ended", signal };
  return withTemporaryAgent(deps, request, async (connection, capabilities) => {
    const chosen = chooseMethod(authMethodsOf(capabilities), method);
    const { id, name } = chosen;
    const terminal = terminalLogin(chosen, command);
    if (terminal === null)
      await connection.request("authenticate", { methodId: id }, { deadlineMs: defaults.acpLoginMs });
    return { method: { id, name }, terminal };
  });
}

/** Throws if there is no such method, or several and none was named. */
export function chooseMethod(methods: readonly AuthMethod[], wanted: string | null): AuthMethod {
  const list = methods.map(methodText).join("; ");
  if (methods.length === 0)
    throw new BadInput("method", "the agent offers no login; log in with the agent's own command");
  const chosen = wanted === null ? methods : methods.filter(({ id }) => id === wanted);
  const [only] = chosen;
  if (only !== undefined && chosen.length === 1) return only;
  throw new BadInput(
    "method",
    wanted === null
      ? `the agent offers several logins, choose one with --method: ${list}. Nothing was done`
      : `the agent offers no login ${JSON.stringify(wanted)}, but these: ${list}. Nothing was done`,
  );
}

/** Null: the agent carries out the login itself. */
export function terminalLogin(
  method: AuthMethod,
  { argv, env, executable }: Pick<AgentCommand, "argv" | "env" | "executable">,
): TerminalLogin | null {
  const own = isObject(method._meta) ? method._meta["terminal-auth"] : null;
  if ("type" in method && method.type === "terminal") {
    const program = executable === undefined ? argv : [executable, ...argv.slice(1)];
    return { argv: [...program, ...strings(method.args)], env: { ...env, ...stringValues(method.env) } };
  }
  if (!isObject(own) || typeof own["command"] !== "string") return null;
  return { argv: [own["command"], ...strings(own["args"])], env: { ...env, ...stringValues(own["env"]) } };
}

function strings(values: unknown): string[] {
  return Array.isArray(values) ? values.filter((each) => typeof each === "string") : [];
}

function stringValues(values: unknown): Record<string, string> {
  if (!isObject(values)) return {};
  return Object.fromEntries(
    Object.entries(values).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}
