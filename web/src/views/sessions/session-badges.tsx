import type { AgentSession, Session } from "../../api/types.js";
import { Badge, type Tone } from "../../components/badge.js";

const AGENT_TONES: Readonly<Record<AgentSession["state"], Tone>> = {
  starting: "wait",
  ready: "live",
  down: "quiet",
  closing: "wait",
  closed: "quiet",
};

const AGENT_WORDS: Readonly<Record<AgentSession["state"], string>> = {
  starting: "agent starts",
  ready: "agent ready",
  down: "no agent runs",
  closing: "closing",
  closed: "closed",
};

/** Shows if the session's agent runs. */
export function AgentBadge({ state }: Pick<AgentSession, "state">) {
  return <Badge tone={AGENT_TONES[state]}>{AGENT_WORDS[state]}</Badge>;
}

/** The lease of the last run of a session without an ACP agent. Null: it has none. */
export function LeaseBadge({ state }: { readonly state: Session["leaseState"] }) {
  if (state === null) return <Badge tone="quiet">open</Badge>;
  return <Badge tone={state === "open" ? "live" : state === "lost" ? "bad" : "quiet"}>{state}</Badge>;
}
