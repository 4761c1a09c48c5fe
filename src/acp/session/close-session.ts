import type { AcpSession } from "../../model/acp.js";
import type { AcpChange, AcpStore } from "../../store/acp/store.js";
import type { AgentProcess } from "../agent/agent-process.js";
import { isSupported } from "../agent/open-agent-session.js";
import type { SessionWriter } from "../session-writer.js";

/**
 * The end of a session whose gateway is gone and whose run has ended on record: everything of it that was open ends
 * here. No process is looked for: where they were nobody can look.
 */
export async function closeLostSessionChange(
  store: Pick<AcpStore, "listAcpTurns" | "listAcpPermissionRequests">,
  { sessionId, gatewayInstanceId, version }: AcpSession,
  by: { readonly gatewayInstanceId: string; readonly actor: string; readonly at: number },
): Promise<AcpChange> {
  const { actor, at } = by;
  const problem = {
    code: "ACP_NOT_HELD",
    message: `it was closed from elsewhere when its gateway ${gatewayInstanceId} was gone`,
  };
  const open = await store.listAcpTurns({ sessionId, states: ["running", "queued"] });
  const ends = open.map(({ turnId, state }) => ({
    turnId,
    from: state,
    outcome: state === "running" ? ("interrupted" as const) : ("cancelled" as const),
  }));
  const asked = await store.listAcpPermissionRequests({ sessionId, answered: false });
  return {
    // Its gateway may be back.
    version,
    session: {
      gatewayInstanceId: by.gatewayInstanceId,
      state: "closed",
      closedAt: at,
      tmpdir: null,
      sending: null,
      pending: [],
      problem,
    },
    turns: ends.map(({ turnId, from, outcome }) => ({
      turnId,
      from,
      set: { state: "ended", endedAt: at, outcome, problem },
    })),
    decide: asked
      .filter(({ decision }) => decision === null)
      .map(({ id }) => ({ id, decision: { verdict: "expired", optionId: null, actor, at } })),
    answered: asked.map(({ id }) => id),
    updates: [
      ...ends.map(({ turnId, outcome }) => ({
        turnId,
        at,
        type: "turn" as const,
        data: { turnId, state: "ended", outcome, problem },
      })),
      { turnId: null, at, type: "session", data: { state: "closed", actor, problem } },
    ],
  };
}

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
