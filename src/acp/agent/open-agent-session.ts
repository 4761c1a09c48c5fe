import type { ClientCapabilities, Implementation, InitializeResponse } from "@agentclientprotocol/sdk";
import { AcpClosed, AcpRefused, AcpTimeout } from "../../errors.js";
import type { McpServer } from "../../model/acp.js";
import { ReplayFilter } from "../turn/turn-summary.js";
import { isAuthRequired } from "../wire/auth-required.js";
import type { AcpConnection } from "../wire/connection.js";
import { supportedMcpServers } from "./mcp-servers.js";
import type { TurnRecorder } from "./turn-recorder.js";

export interface OpenAgentSessionOptions {
  readonly connection: AcpConnection;
  readonly recorder: TurnRecorder;
  readonly capabilities: InitializeResponse;
  readonly cwd: string;
  readonly mcpServers: readonly McpServer[];
  readonly deadlineMs: number;
  /** The agent's session to continue; null: open a new one. */
  readonly previousSessionId: string | null;
}

/**
 * Resumes or loads the agent's previous session if the agent supports that; otherwise opens a new one. Some agents claim
 * support and fail, so each way is tried in turn. `contextLost`: the agent does not know the earlier turns.
 */
export async function openAgentSession(
  options: OpenAgentSessionOptions,
): Promise<{ readonly contextLost: boolean }> {
  const { connection, recorder, capabilities, cwd, deadlineMs, previousSessionId } = options;
  const supported = capabilities.agentCapabilities;
  const mcpServers = supportedMcpServers(options.mcpServers, supported?.mcpCapabilities);
  if (previousSessionId !== null) {
    const previous = { sessionId: previousSessionId, cwd, mcpServers };
    recorder.replayFilter = new ReplayFilter(previousSessionId);
    if (isSupported(supported?.sessionCapabilities?.resume))
      if (await succeeds(connection.request("session/resume", previous, { deadlineMs })))
        return { contextLost: false };
    if (supported?.loadSession === true) {
      recorder.replayFilter.beginReplay();
      if (await succeeds(connection.request("session/load", previous, { deadlineMs })))
        return { contextLost: false };
    }
  }
  await connection.request("session/new", { cwd, mcpServers }, { deadlineMs, fatal: true });
  return { contextLost: previousSessionId !== null };
}

export function isSupported(capability: object | null | undefined): boolean {
  return capability !== null && capability !== undefined;
}

/** False: refused or timed out, so another way can be tried. Rejects if the connection is closed. */
async function succeeds(answer: Promise<unknown>): Promise<boolean> {
  try {
    await answer;
    return true;
  } catch (error) {
    // Every other way would need the login, too.
    if (isAuthRequired(error)) throw error;
    if (error instanceof AcpRefused || error instanceof AcpTimeout) return false;
    throw error;
  }
}

/** The only supported version. Its successor is a draft that lacks some features in use here. */
const PROTOCOL_VERSION = 1;

/** Refuses any other version in the answer: some agents answer with the version that they will speak. */
export async function initialize(
  connection: AcpConnection,
  clientInfo: Implementation,
  options: { readonly clientCapabilities: ClientCapabilities; readonly deadlineMs: number },
): Promise<InitializeResponse> {
  const answer = await connection.request(
    "initialize",
    { protocolVersion: PROTOCOL_VERSION, clientInfo, clientCapabilities: options.clientCapabilities },
    { deadlineMs: options.deadlineMs, fatal: true },
  );
  if (answer.protocolVersion === PROTOCOL_VERSION) return answer;
  const why = `it speaks version ${answer.protocolVersion} of the protocol instead of ${PROTOCOL_VERSION}`;
  connection.close("wrong-version", why);
  throw new AcpClosed("wrong-version", why);
}
