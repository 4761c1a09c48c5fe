import { NO_CLIENT_ACCESS, toClientCapabilities } from "../config/client-access.js";
import { BadInput } from "../errors.js";
import type { AgentCommand } from "./agent-command.js";
import { type TemporaryAgentDeps, withTemporaryAgent } from "./agent/temporary-agent.js";
import { isSupported } from "./agent/open-agent-session.js";
import { boundedString } from "./turn/turn-summary.js";
import { toAuthRequired } from "./wire/auth-required.js";
import type { AcpConnection } from "./wire/connection.js";
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
  readonly signal?: AbortSignal | undefined;
}

/** Pages that are requested at most: an agent may answer with empty pages for ever. */
const MAX_PAGES = 100;

/** Starts the agent, asks it for the sessions that it has stored, and ends it. */
export async function listAgentSessions(
  deps: TemporaryAgentDeps,
  { agent, command, cwd, directory, limit, signal }: ListAgentSessionsRequest,
): Promise<readonly AgentSessionSummary[]> {
  const clientCapabilities = toClientCapabilities(NO_CLIENT_ACCESS);
  const request = { command, cwd, clientCapabilities, endReason: "acp: its sessions are listed", signal };
  return withTemporaryAgent(deps, request, async (connection, capabilities) => {
    if (!isSupported(capabilities.agentCapabilities?.sessionCapabilities?.list))
      throw new BadInput(
        "agent",
        "the agent cannot list its sessions (it does not offer session/list). If you know the id of one, `acp spawn --resume` may continue it",
      );
    const pages = readPages(connection, directory, limit, deps.limits.newSessionMs);
    return pages.catch((error: unknown) => {
      throw toAuthRequired(error, { agent, capabilities });
    });
  });
}

async function readPages(
  connection: AcpConnection,
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
