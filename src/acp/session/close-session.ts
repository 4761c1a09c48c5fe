import { defaults } from "../../defaults.js";
import { AcpNotHeld, NotFound } from "../../errors.js";
import type { AcpSession } from "../../model/acp/session-and-turn.js";
import type { Survivor } from "../../model/process.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { AcpChange, AcpStore } from "../../store/acp/contract.js";
import type { GatewayStore } from "../../store/gateways/contract.js";
import type { ReadStore } from "../../store/store.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { AgentLifecycle, AgentLifecycleDeps } from "../agent/agent-lifecycle.js";
import type { RunningAgent } from "../agent/running-agent.js";
import { isSupported } from "../agent/open-agent-session.js";
import type { SessionWriter } from "../session-writer.js";
import type { PromptQueue } from "./prompt-queue.js";
import type { TurnRunner } from "./turn-runner.js";

/** Interval at which processes that outlive their KILL are listed. */
const SURVIVORS_POLL_MS = 500;

export interface CloseSessionOptions {
  readonly actor: string;
  /** Why it is closed, for the record. */
  readonly reason?: string | null;
  /** Also delete the session's data that the agent keeps, if the agent supports it. */
  readonly discardPersistentState?: boolean;
}

interface ClosingSession {
  readonly lifecycle: AgentLifecycle;
  readonly queue: PromptQueue;
  readonly turns: TurnRunner;
  readonly deps: AgentLifecycleDeps & CloseHooks;
}

export interface CloseHooks {
  readonly onClosing: (actor: string, reason: string | null) => Promise<void>;
  readonly onClosed: (actor: string, reason: string | null) => Promise<void>;
}

/** Ends a session and its agent. After a time limit the agent is stopped even if the store does not answer. */
export async function closeSession(session: ClosingSession, options: CloseSessionOptions): Promise<void> {
  const { clock, limits } = session.deps;
  const timeout = clock.setTimer(limits.cancelMs + 2 * limits.closeMs, () => {
    session.lifecycle.agent?.agentRun.close(options.actor).catch(() => undefined);
  });
  try {
    await runCloseSteps(session, options);
  } finally {
    timeout.cancel();
  }
}

async function runCloseSteps(
  { deps, lifecycle, queue, turns }: ClosingSession,
  { actor, reason = null, discardPersistentState: discard = false }: CloseSessionOptions,
): Promise<void> {
  const { writer, supervisor, clock, limits } = deps;
  if (writer.row.state === "closed") return;
  await writer.commit(() => ({ session: { state: "closing" } }));
  // The gateway may be killed before the session is closed. A failure does not keep the agent alive.
  await deps.onClosing(actor, reason).catch(() => undefined);
  await queue.cancelAll(actor);
  await lifecycle.preventStart();
  const { sentTurn } = turns;
  if (sentTurn !== null) await turns.cancel(sentTurn, { actor });
  const { agent } = lifecycle;
  const { runId } = writer.row;
  if (agent !== null) {
    await closeAgentSession(agent, writer, { discard, deadlineMs: limits.closeMs });
    await agent.agentRun.close(actor);
    await lifecycle.recordExit(agent);
  } else if (runId !== null) {
    await supervisor.stop(runId, { actor }).catch(() => undefined);
  }
  const at = clock.wall();
  await writer.commit(() => ({
    session: { state: "closed", closedAt: at, tmpdir: null, sending: null, pending: [] },
    updates: [
      { turnId: null, at, type: "session", data: { state: "closed", actor, ...reasonField(reason) } },
    ],
  }));
  await deps.onClosed(actor, reason);
}

function reasonField(reason: string | null): { readonly reason?: string } {
  return reason === null ? {} : { reason };
}

interface AgentSessionCapabilities {
  readonly sessionCapabilities?: { readonly close?: object | null; readonly delete?: object | null } | null;
}

/** Asks the agent to close its session, where supported. An agent that does not answer is stopped all the same. */
async function closeAgentSession(
  agent: RunningAgent,
  { row: { agentSessionId, capabilities } }: SessionWriter,
  { discard, deadlineMs }: { readonly discard: boolean; readonly deadlineMs: number },
): Promise<void> {
  if (agentSessionId === null || agent.isStuck) return;
  const supported = (capabilities as { readonly agentCapabilities?: AgentSessionCapabilities } | null)
    ?.agentCapabilities;
  const { connection } = agent.agentRun;
  const session = { sessionId: agentSessionId };
  if (isSupported(supported?.sessionCapabilities?.close))
    await connection.request("session/close", session, { deadlineMs }).catch(() => undefined);
  if (discard && isSupported(supported?.sessionCapabilities?.delete))
    await connection.request("session/delete", session, { deadlineMs }).catch(() => undefined);
}

interface LostSessionDeps {
  readonly store: Pick<
    AcpStore,
    "getAcpSession" | "commitAcpChange" | "listAcpTurns" | "listAcpPermissionRequests"
  > &
    Pick<GatewayStore, "getGateway"> &
    Pick<ReadStore, "now">;
  readonly supervisor: Pick<Supervisor, "instanceId" | "getRun">;
  readonly sessions: Pick<Sessions, "close">;
}

/** True if the session belongs to another gateway that is gone, and its agent's run has ended on record. */
export async function isLostSession(
  { store, supervisor }: LostSessionDeps,
  { gatewayInstanceId, runId }: AcpSession,
): Promise<boolean> {
  if (gatewayInstanceId === supervisor.instanceId) return false;
  const run = runId === null ? null : await supervisor.getRun(runId);
  if (run !== null && run.state !== "exited") return false;
  const gateway = await store.getGateway(gatewayInstanceId);
  if (gateway === null || gateway.stoppedAt !== null) return true;
  return (await store.now()) - gateway.heartbeatAt > defaults.leaseMs;
}

/** Closes a lost session in the store. Its processes cannot be probed from here. */
export async function closeLostSession(
  { store, supervisor, sessions }: LostSessionDeps,
  row: AcpSession,
  { actor, reason = null }: Pick<CloseSessionOptions, "actor" | "reason">,
  at: number,
): Promise<AcpSession> {
  const { sessionId } = row;
  const by = { gatewayInstanceId: supervisor.instanceId, actor, at };
  const change = await closeLostSessionChange(store, row, by);
  const written = await store.commitAcpChange(sessionId, row.gatewayInstanceId, change);
  if (written !== null) await sessions.close(sessionId, actor, reason);
  const closed = await store.getAcpSession(sessionId);
  if (closed === null) throw new NotFound(`ACP session ${sessionId}`);
  if (closed.state !== "closed") throw new AcpNotHeld(closed);
  return closed;
}

/** Ends everything of the session that is open: turns, permission requests and the session itself. */
async function closeLostSessionChange(
  store: Pick<AcpStore, "listAcpTurns" | "listAcpPermissionRequests">,
  { sessionId, gatewayInstanceId, version }: AcpSession,
  by: { readonly gatewayInstanceId: string; readonly actor: string; readonly at: number },
): Promise<AcpChange> {
  const { actor, at } = by;
  const problem = {
    code: "ACP_NOT_HELD",
    message: `the session was closed by another gateway, because its gateway ${gatewayInstanceId} was gone`,
  };
  const open = await store.listAcpTurns({ sessionId, states: ["running", "queued"] });
  const ends = open.map(({ turnId, state }) => ({
    turnId,
    from: state,
    outcome: state === "running" ? ("interrupted" as const) : ("cancelled" as const),
  }));
  const asked = await store.listAcpPermissionRequests({ sessionId, answered: false });
  return {
    // Optimistic lock: the session's gateway may have come back.
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

/** The processes that outlive the end of the agent. Never resolves while none is known. */
export async function awaitSurvivors(
  { deps, lifecycle }: ClosingSession,
  closing: Promise<void>,
): Promise<readonly Survivor[]> {
  let closed = false;
  const onSettled = (): boolean => (closed = true);
  closing.then(onSettled, onSettled);
  while (!closed) {
    await deps.clock.sleep(SURVIVORS_POLL_MS, closing);
    const survivors = lifecycle.agent?.survivors ?? [];
    if (survivors.length > 0) return survivors;
  }
  return new Promise(() => undefined);
}
