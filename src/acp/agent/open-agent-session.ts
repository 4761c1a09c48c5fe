import type {
  ClientCapabilities,
  Implementation,
  InitializeResponse,
  McpCapabilities,
  McpServer as ProtocolMcpServer,
} from "@agentclientprotocol/sdk";
import { AcpClosed, AcpRefused, AcpTimeout, BadInput } from "../../errors.js";
import type { McpServer } from "../../model/acp/session-and-turn.js";
import type { AgentResume } from "../../model/acp/agent-settings.js";
import { ReplayFilter } from "../turn/replay-filter.js";
import { isAuthRequired } from "../wire/auth-required.js";
import type { AcpConnection } from "../wire/connection.js";
import type { ConversationRecorder } from "./conversation-recorder.js";

interface OpenAgentSessionOptions {
  readonly connection: AcpConnection;
  readonly recorder: ConversationRecorder;
  readonly capabilities: InitializeResponse;
  readonly cwd: string;
  readonly mcpServers: readonly McpServer[];
  readonly deadlineMs: number;
  /** The agent's session to continue; null: open a new one. */
  readonly previousSessionId: string | null;
  /** A session that the agent has stored. A new session continues it; if that fails, no session is opened. */
  readonly resume: AgentResume | undefined;
  /** Directories beside `cwd`. */
  readonly directories: readonly string[];
}

/**
 * Resumes or loads the agent's previous session if the agent supports that; otherwise opens a new one. Some agents claim
 * support and fail, so each way is tried in turn. `contextLost`: the agent does not know the earlier turns.
 */
export async function openAgentSession(
  options: OpenAgentSessionOptions,
): Promise<{ readonly contextLost: boolean }> {
  const { connection, deadlineMs, previousSessionId, resume } = options;
  if (previousSessionId !== null) {
    const failure = await continueSession(options, previousSessionId);
    if (failure === null) return { contextLost: false };
  } else if (resume !== undefined) {
    await openStoredSession(options, resume);
    return { contextLost: false };
  }
  await connection.request("session/new", sessionParams(options), { deadlineMs, fatal: true });
  return { contextLost: previousSessionId !== null };
}

/** Continues a session that the agent has stored, or a copy of it. Never opens another one. */
async function openStoredSession(options: OpenAgentSessionOptions, resume: AgentResume): Promise<void> {
  const { connection, deadlineMs, capabilities } = options;
  const { sessionId, fork } = resume;
  if (!fork) {
    const failure = await continueSession(options, sessionId);
    if (failure !== null) throw failure;
    return;
  }
  const supported = capabilities.agentCapabilities?.sessionCapabilities as
    | { readonly fork?: object }
    | undefined;
  if (!isSupported(supported?.fork))
    throw new BadInput(
      "resume",
      "the agent cannot fork a session (it does not offer session/fork); no session was opened. Leave out --fork to continue the session itself",
    );
  await connection.requestAny("session/fork", { sessionId, ...sessionParams(options) }, { deadlineMs });
}

/** Null: the agent continues the session. Otherwise the reason why it does not. */
async function continueSession(
  options: OpenAgentSessionOptions,
  sessionId: string,
): Promise<AcpRefused | AcpTimeout | BadInput | null> {
  const { connection, recorder, capabilities, deadlineMs } = options;
  const supported = capabilities.agentCapabilities;
  const params = { sessionId, ...sessionParams(options) };
  let failure: AcpRefused | AcpTimeout | BadInput | null = new BadInput(
    "resume",
    "the agent cannot continue a session (it offers neither session/resume nor session/load); no session was opened. Leave out --resume to open a new one",
  );
  recorder.replayFilter = new ReplayFilter(sessionId);
  if (isSupported(supported?.sessionCapabilities?.resume))
    failure = await failureOf(connection.request("session/resume", params, { deadlineMs }));
  if (failure !== null && supported?.loadSession === true) {
    recorder.replayFilter.beginReplay();
    failure = await failureOf(connection.request("session/load", params, { deadlineMs }));
  }
  return failure;
}

function sessionParams({ cwd, directories, capabilities, ...options }: OpenAgentSessionOptions) {
  const { mcpCapabilities } = capabilities.agentCapabilities ?? {};
  const mcpServers = supportedMcpServers(options.mcpServers, mcpCapabilities);
  if (directories.length === 0) return { cwd, mcpServers };
  if (!isSupported(capabilities.agentCapabilities?.sessionCapabilities?.additionalDirectories))
    throw new BadInput(
      "directories",
      "the agent does not take additional directories; no session was opened. Leave out --add-dir",
    );
  return { cwd, mcpServers, additionalDirectories: [...directories] };
}

/** Throws if the agent cannot connect to one of the servers. Every agent supports servers over stdin and stdout. */
function supportedMcpServers(
  servers: readonly McpServer[],
  capabilities: McpCapabilities | null | undefined,
): ProtocolMcpServer[] {
  for (const server of servers)
    if ("type" in server && capabilities?.[server.type] !== true)
      throw new BadInput(
        "mcpServers",
        `the agent does not support MCP servers over ${server.type} (${server.name}); it was ended. Leave the server out, or use one with a command`,
      );
  return servers.map((server) =>
    "type" in server
      ? { ...server, headers: [...server.headers] }
      : { ...server, args: [...server.args], env: [...server.env] },
  );
}

export function isSupported(capability: object | null | undefined): boolean {
  return capability !== null && capability !== undefined;
}

/** Null: the agent accepted the request. An error: it refused or timed out, so another method can be tried. Rejects if the connection is closed. */
async function failureOf(answer: Promise<unknown>): Promise<AcpRefused | AcpTimeout | null> {
  try {
    await answer;
    return null;
  } catch (error) {
    // The other methods would need the login too.
    if (isAuthRequired(error)) throw error;
    if (error instanceof AcpRefused || error instanceof AcpTimeout) return error;
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
