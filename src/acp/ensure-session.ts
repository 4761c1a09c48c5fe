import { resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import {
  clientAccessUpdate,
  grantsAnyAccess,
  type RequestedClientAccess,
  resolveClientAccess,
} from "../config/client-access.js";
import { resolveMcpServers } from "../config/mcp.js";
import { SessionTaken } from "../errors.js";
import type { AcpMode, AcpSession, McpServer, ReapPolicy } from "../model/acp/session-and-turn.js";
import type { AgentResume, AgentSettings, StoredSettings } from "../model/acp/agent-settings.js";
import type { PermissionRule } from "../model/acp/permission-rule.js";
import type { SessionRecord } from "../model/session.js";
import type { SessionOptions } from "../sessions/sessions.js";
import { displayCommand } from "../text/redact.js";
import { ACP_BACKEND } from "../model/enums.js";
import {
  type AgentCommand,
  executedArgv,
  type RequestedAgentCommand,
  storableArgv,
} from "./agent-command.js";
import { DEFAULT_PERMISSION_RULES } from "./permissions/rule-layers.js";
import type { SessionRegistry } from "./session-registry.js";

export interface EnsureSessionRequest extends RequestedAgentCommand {
  readonly key: string;
  readonly cwd: string;
  readonly mode?: AcpMode;
  readonly rules?: readonly PermissionRule[];
  readonly reap?: ReapPolicy;
  /** In addition to those of the config; one with the same name replaces it. */
  readonly mcpServers?: readonly McpServer[] | undefined;
  /** In addition to the client access that the catalogue grants the agent. */
  readonly client?: RequestedClientAccess | undefined;
  /** Applied when the agent is started, and at once in a session that is already open. */
  readonly settings?: AgentSettings | undefined;
  /** The stored session of the agent that a new session continues. */
  readonly resume?: AgentResume | undefined;
  /** Directories of the agent's session beside `cwd`. */
  readonly directories?: readonly string[] | undefined;
  /** The session that requests the new one and becomes its parent. */
  readonly requester?: SessionRecord | null;
  readonly session?: SessionOptions;
  /** Time for the start of the agent. Default: the limits of the protocol. */
  readonly startTimeoutMs?: number;
}

export interface EnsuredSession {
  readonly row: SessionRecord;
  readonly session: AcpSession;
  readonly created: boolean;
}

/** Returns the open session with the requested key, with an agent that is ready for a prompt; creates it if there is none. */
export async function ensureSession(
  registry: SessionRegistry,
  request: EnsureSessionRequest,
): Promise<EnsuredSession> {
  const { commands } = registry;
  const command = commands.resolve(request);
  const { store, sessions, supervisor } = registry.deps;
  const { agent = null, mode = "session", requester = null } = request;
  const options: SessionOptions = {
    ...request.session,
    backend: ACP_BACKEND,
    interactionMode: mode === "run" ? "run" : "interactive",
    ...(agent === null ? {} : { agentId: request.session?.agentId ?? agent }),
  };
  const { session: row } = await (requester === null
    ? sessions.open(request.key, options)
    : sessions.openFor(requester, request.key, options));
  const existing = await store.getAcpSession(row.id);
  if (existing !== null) return reuseSession(registry, row, existing, command, request);
  const at = registry.clock.wall();
  const session: AcpSession = {
    sessionId: row.id,
    gatewayInstanceId: supervisor.instanceId,
    agent,
    argv: storableArgv(executedArgv(command), requester === null),
    command: displayCommand(command.argv),
    cwd: resolve(request.cwd),
    mode,
    rules: request.rules ?? DEFAULT_PERMISSION_RULES,
    reap: request.reap ?? "asked",
    mcpServers: resolveMcpServers(registry.deps.mcpServers ?? {}, agent, request.mcpServers),
    state: "down",
    runId: null,
    tmpdir: null,
    agentSessionId: null,
    capabilities: null,
    agentState: null,
    settings: storedSettings(request),
    end: 0,
    sending: null,
    pending: [],
    seq: 0,
    version: 0,
    problem: null,
    createdAt: at,
    updatedAt: at,
    closedAt: null,
  };
  const runner = await registry.createSession(row.id, async () => {
    if (!(await store.insertAcpSession(session))) return null;
    commands.remember(row.id, command);
    return recordClientAccess(registry, session, request);
  });
  // A peer gateway inserted the session at the same time.
  if (runner === null)
    return reuseSession(registry, row, await registry.requireSession(row.id), command, request);
  try {
    await runner.ensureAgent(request.startTimeoutMs);
  } catch (error) {
    // A session whose agent never started is of no use.
    await runner.close({ actor: "acp: its agent did not start" }).catch(() => undefined);
    throw error;
  }
  return { row, session: runner.writer.row, created: true };
}

function storedSettings({ settings, resume, directories = [] }: EnsureSessionRequest): StoredSettings | null {
  const stored = {
    ...settings,
    ...(resume === undefined ? {} : { resume }),
    ...(directories.length === 0 ? {} : { directories: directories.map((each) => resolve(each)) }),
  };
  return Object.keys(stored).length === 0 ? null : stored;
}

async function reuseSession(
  registry: SessionRegistry,
  row: SessionRecord,
  existing: AcpSession,
  command: AgentCommand,
  request: EnsureSessionRequest,
): Promise<EnsuredSession> {
  const { rules = existing.rules, mcpServers = [], settings, resume, requester, startTimeoutMs } = request;
  const { directories } = storedSettings(request) ?? {};
  const taken = (why: string): SessionTaken =>
    new SessionTaken(row.key, `${why}; \`holdfast acp close ${row.key}\` closes it`);
  if (existing.command !== displayCommand(command.argv))
    throw taken(`an open session has it, with another agent: ${existing.command}`);
  if (JSON.stringify(existing.rules) !== JSON.stringify(rules))
    throw taken("an open session has it, with other permissions");
  const other = mcpServers.find((each) => !existing.mcpServers.some((own) => isDeepStrictEqual(own, each)));
  if (other !== undefined)
    throw taken(`the open session with this name does not have the MCP server ${other.name}`);
  if (resume !== undefined && !isDeepStrictEqual(resume, existing.settings?.resume))
    throw taken("the open session with this name continues another session of the agent");
  if (directories !== undefined && !isDeepStrictEqual(directories, existing.settings?.directories))
    throw taken("an open session has it, with other directories");
  const runner = await registry.requireRunner(row.id);
  registry.commands.remember(row.id, command);
  await runner.ensureAgent(startTimeoutMs);
  if (settings !== undefined) await runner.set(settings, requester?.key ?? "operator");
  return { row, session: runner.writer.row, created: false };
}

/** Stores the client access as the first update of the session, from which `recordedClientAccess` reads it. */
async function recordClientAccess(
  registry: SessionRegistry,
  session: AcpSession,
  { agent, client }: EnsureSessionRequest,
): Promise<AcpSession> {
  const { agents, store } = registry.deps;
  const access = resolveClientAccess(agents.get(agent ?? "")?.acp?.client, client);
  if (!grantsAnyAccess(access)) return session;
  const { sessionId, gatewayInstanceId } = session;
  const updates = [clientAccessUpdate(access, registry.clock.wall())];
  await store.commitAcpChange(sessionId, gatewayInstanceId, { updates });
  return registry.requireSession(sessionId);
}
