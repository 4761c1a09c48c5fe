import { createHash } from "node:crypto";
import type { GatewayClient } from "../../api/client.js";
import { BadInput } from "../../errors.js";
import { environmentOutsideRuns } from "../../gateway/start-in-background.js";
import { packageVersion } from "../../home/package.js";
import { gatewaySocketPath } from "../../home/state-directory.js";
import { defaults } from "../../defaults.js";
import type { SessionConnection, SessionConnector } from "../../mcp/session/session-connection.js";
import { connectSession, type SessionAccess } from "../../mcp/session/connect-session.js";
import { serveOverStdio } from "../../mcp/transport/serve-stdio.js";
import type { ExecRule } from "../../model/exec/exec-rule.js";
import { allowsEverything } from "../../sessions/match-exec-rules.js";
import { isInjectionVariable } from "../../supervisor/spawn/environment.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { connectOrStart } from "../client/connect.js";
import { notice } from "../print/errors-and-notices.js";
import { sessionToken } from "../client/requester.js";
import type { GivenExecRule } from "../options/exec-rule-options.js";

interface ServeRequest {
  readonly session: string | undefined;
  readonly execRules: readonly GivenExecRule[];
}

/** Serves MCP over stdin and stdout, for the session of the client, until the client is gone. */
export async function serveMcp(request: ServeRequest): Promise<number> {
  if (sessionToken() !== null && (request.session !== undefined || request.execRules.length > 0))
    throw new BadInput(
      "session",
      "HOLDFAST_TOKEN names the session already; leave out --session and the exec rules, or unset HOLDFAST_TOKEN. Nothing was done",
    );
  if (process.stdin.isTTY)
    notice(
      "an MCP client starts this command; `holdfast mcp install --help` shows how to add it to one",
      "dim",
    );
  await serveOverStdio(packageVersion(), new StdioConnector(request));
  return 0;
}

/** Opens the client's session at its first call, and again after its token has expired or the gateway was stopped. */
class StdioConnector implements SessionConnector {
  readonly #request: ServeRequest;
  #connection: Promise<SessionConnection> | null = null;

  constructor(request: ServeRequest) {
    this.#request = request;
  }

  connect(clientName: string): Promise<SessionConnection> {
    this.#connection ??= this.#connect(clientName).catch((error: unknown) => {
      this.#connection = null;
      throw error;
    });
    return this.#connection;
  }

  async #connect(clientName: string): Promise<SessionConnection> {
    return connectSession(await this.#open(clientName), {
      renew: (error) => {
        // The token in HOLDFAST_TOKEN cannot be replaced by another one.
        if (error.code === "UNAUTHORIZED" && sessionToken() !== null) throw error;
        return this.#open(clientName);
      },
    });
  }

  async #open(clientName: string): Promise<SessionAccess> {
    const { client, home, token } = await connectOrStart();
    const given = sessionToken();
    const { session, execRules } = this.#request;
    const key = session ?? sessionKey(clientName, process.cwd());
    const opened =
      given === null
        ? await client.openSession({
            body: {
              key,
              tokenTtlMs: defaults.mcpTokenMs,
              ...(execRules.length === 0 ? {} : { execRules: [...execRules] }),
            },
          })
        : null;
    const rules = opened?.session.execRules ?? (await ownRules(client));
    return {
      address: { socketPath: gatewaySocketPath(home), token: opened?.token ?? token },
      cwd: process.cwd(),
      environment: environmentFor(rules),
    };
  }
}

/** The rules of the session whose run this process is in. */
async function ownRules({
  sessionStatus,
}: Pick<GatewayClient, "sessionStatus">): Promise<readonly ExecRule[]> {
  const id = process.env["HOLDFAST_SESSION_KEY"];
  if (id === undefined) return [];
  return (await sessionStatus({ params: { id } })).session.execRules;
}

/** The client's environment if the session may execute every program. Null: its commands get the clean environment. */
function environmentFor([first]: readonly ExecRule[]): Readonly<Record<string, string>> | null {
  if (first === undefined || !allowsEverything(first)) return null;
  return Object.fromEntries(
    Object.entries(environmentOutsideRuns()).filter(([name]) => !isInjectionVariable(name)),
  );
}

/** The longest key of a session. */
const KEY_CHARS = 200;

/** The key of the session of a client in a directory: every start of the client there has the same session. */
export function sessionKey(clientName: string, directory: string): string {
  const name = sanitizeLine(clientName)
    .trim()
    .replaceAll(/[^\w.@-]+/g, "-")
    .slice(0, 60);
  const shown = sanitizeLine(directory);
  const key = `mcp:${name === "" ? "client" : name}:${shown}`;
  if (shown === directory && key.length <= KEY_CHARS && key.trim() === key) return key;
  const digest = createHash("sha256").update(directory).digest("hex").slice(0, 12);
  return `${key.slice(0, KEY_CHARS - 13)}#${digest}`;
}
