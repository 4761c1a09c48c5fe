import type { AgentProcess } from "./agent/agent-process.js";
import { isSupported } from "./agent/open-agent-session.js";
import type { SessionWriter } from "./session-writer.js";

interface AgentSessionCapabilities {
  readonly sessionCapabilities?: { readonly close?: object | null; readonly delete?: object | null } | null;
}

/** A courtesy, where it is offered; one that does not answer is ended all the same. */
export async function closeAgentSession(
  agent: AgentProcess,
  { row: { agentSessionId, capabilities } }: SessionWriter,
  { discard, deadlineMs }: { readonly discard: boolean; readonly deadlineMs: number },
): Promise<void> {
  if (agentSessionId === null || agent.isStuck) return;
  const offers = (capabilities as { readonly agentCapabilities?: AgentSessionCapabilities } | null)
    ?.agentCapabilities;
  const { connection } = agent.adapter;
  const session = { sessionId: agentSessionId };
  if (isSupported(offers?.sessionCapabilities?.close))
    await connection.request("session/close", session, { deadlineMs }).catch(() => undefined);
  if (discard && isSupported(offers?.sessionCapabilities?.delete))
    await connection.request("session/delete", session, { deadlineMs }).catch(() => undefined);
}
