import type { AgentProcess } from "./agent-process.js";
import { isOffered } from "./begin-session.js";
import type { KeptSession } from "./kept-session.js";

interface Offers {
  readonly sessionCapabilities?: { readonly close?: object | null; readonly delete?: object | null } | null;
}

/** A courtesy, where it is offered; one that does not answer is ended all the same. */
export async function sayGoodbye(
  agent: AgentProcess,
  { row: { agentSessionId, capabilities } }: KeptSession,
  { discard, deadlineMs }: { readonly discard: boolean; readonly deadlineMs: number },
): Promise<void> {
  if (agentSessionId === null || agent.stuck) return;
  const offers = (capabilities as { readonly agentCapabilities?: Offers } | null)?.agentCapabilities;
  const { connection } = agent.adapter;
  const session = { sessionId: agentSessionId };
  if (isOffered(offers?.sessionCapabilities?.close))
    await connection.request("session/close", session, { deadlineMs }).catch(() => undefined);
  if (discard && isOffered(offers?.sessionCapabilities?.delete))
    await connection.request("session/delete", session, { deadlineMs }).catch(() => undefined);
}
