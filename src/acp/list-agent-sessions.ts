import { NO_CLIENT_ACCESS, toClientCapabilities } from "../config/agents.js";
import { BadInput, StdinClosed } from "../errors.js";
import { packageVersion } from "../home/package.js";
import { newRunId } from "../model/ids.js";
import type { Supervisor } from "../supervisor/api.js";
import { ACP_BACKEND, type AgentCommand, executedArgv } from "./agent-command.js";
import { type AgentRun, startAgent } from "./agent/agent-run.js";
import { initialize, isSupported } from "./agent/open-agent-session.js";
import type { AcpLimits } from "./limits.js";
import { boundedString } from "./turn/turn-summary.js";
import { toAuthRequired } from "./wire/auth-required.js";
import { isObject } from "./wire/message.js";

/** A session that the agent has stored. Text of the agent, not sanitized. */
export interface AgentSessionSummary {
  readonly sessionId: string;
  readonly cwd: string;
  readonly title: string | null;
  /** As the agent writes it, in ISO 8601. */
  readonly updatedAt: string | null;
}

export interface ListAgentSessionsRequest {
  readonly agent: string | null;
  readonly command: AgentCommand;
  /** Where the agent is started. */
  readonly cwd: string;
  /** Only sessions of this directory; null: all. */
  readonly directory: string | null;
  readonly limit: number;
}

/** Pages that are requested at most: an agent may answer with empty pages for ever. */
const MAX_PAGES = 100;

/** Starts the agent, asks it for the sessions that it has stored, and ends it. */
export async function listAgentSessions(
  { supervisor, limits }: { readonly supervisor: Supervisor; readonly limits: AcpLimits },
  { agent, command, cwd, directory, limit }: ListAgentSessionsRequest,
): Promise<readonly AgentSessionSummary[]> {
  const { env, inherit } = command;
  const { graceMs, ownExitMs } = limits;
  const agentRun = await startAgent(supervisor, {
    ...{ argv: executedArgv(command), env, inherit, cwd, graceMs, ownExitMs, runId: newRunId() },
    allowEnv: Object.keys(env),
    // The next gateway process ends it, because it belongs to no session.
    backendId: ACP_BACKEND,
    handlers: { onUpdates: () => Promise.resolve(), requests: {} },
  });
  let capabilities: unknown = null;
  try {
    const answer = await initialize(
      agentRun.connection,
      { name: "holdfast", version: packageVersion() },
      { clientCapabilities: toClientCapabilities(NO_CLIENT_ACCESS), deadlineMs: limits.initializeMs },
    );
    capabilities = answer;
    if (!isSupported(answer.agentCapabilities?.sessionCapabilities?.list))
      throw new BadInput("agent", "the agent cannot list its sessions (it does not offer session/list)");
    return await readPages(agentRun, directory, limit, limits.newSessionMs);
  } catch (error) {
    if (error instanceof StdinClosed) throw (await agentRun.ended).closed;
    throw toAuthRequired(error, { agent, capabilities });
  } finally {
    await agentRun.close("acp: its sessions are listed");
  }
}

async function readPages(
  { connection }: AgentRun,
  directory: string | null,
  limit: number,
  deadlineMs: number,
): Promise<readonly AgentSessionSummary[]> {
  const found: AgentSessionSummary[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < MAX_PAGES && found.length < limit; page++) {
    const params = {
      ...(directory === null ? {} : { cwd: directory }),
      ...(cursor === null ? {} : { cursor }),
    };
    const answer: unknown = await connection.requestAny("session/list", params, { deadlineMs });
    const { sessions, nextCursor } = isObject(answer) ? answer : {};
    found.push(...(Array.isArray(sessions) ? sessions.flatMap(toSummary) : []));
    if (typeof nextCursor !== "string" || nextCursor === cursor) break;
    cursor = nextCursor;
  }
  return found.slice(0, limit);
}

function toSummary(session: unknown): AgentSessionSummary[] {
  if (!isObject(session) || typeof session["sessionId"] !== "string") return [];
  return [
    {
      sessionId: session["sessionId"],
      cwd: boundedString(session["cwd"]) ?? "",
      title: boundedString(session["title"]),
      updatedAt: boundedString(session["updatedAt"]),
    },
  ];
}
