import type { AcpState } from "../store/acp-record.js";
import type { AcpStore } from "../store/acp-store.js";
import type { Clock } from "../supervisor/clock.js";
import { removeTmpdir } from "./agent-process.js";
import type { KeptSession } from "./kept-session.js";

/** An agent ended while nobody listened to it: what it was asked and has asked is over. */
export async function noteLostAgent(
  { store, kept, clock }: { readonly store: AcpStore; readonly kept: KeptSession; readonly clock: Clock },
  state: Extract<AcpState, "down" | "closing">,
): Promise<void> {
  const { sessionId, tmpdir } = kept.row;
  await removeTmpdir(tmpdir);
  const problem = { code: "ACP_CLOSED", message: "the agent's process ended while no gateway was there" };
  const running = await store.listAcpTurns({ sessionId, states: ["running"] });
  const open = await store.listAcpPermissions({ sessionId, answered: false });
  const at = clock.wall();
  const end = { state: "ended", outcome: "interrupted", problem } as const;
  const decision = { verdict: "expired", optionId: null, actor: "the agent has ended", at } as const;
  await kept.commit(() => ({
    session: { state, tmpdir: null, sending: null, pending: [], problem },
    turns: running.map(({ turnId }) => ({ turnId, from: "running", set: { ...end, endedAt: at } })),
    updates: running.map(({ turnId }) => ({ turnId, at, type: "turn", data: { turnId, ...end } })),
    decide: open.filter((each) => each.decision === null).map(({ id }) => ({ id, decision })),
    answered: open.map(({ id }) => id),
  }));
}
