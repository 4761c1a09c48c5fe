import type { Approval, Permission } from "../../api/types.js";
import { Badge } from "../badge.js";

export type Decision = NonNullable<Approval["decision"] | Permission["decision"]>;

const WORDS: Readonly<Record<Decision["verdict"], string>> = {
  allow: "allowed",
  deny: "denied",
  cancelled: "not answered",
  expired: "expired",
};

/** Whether a question waits, and how it ended. */
export function VerdictBadge({ decision }: { readonly decision: Decision | null }) {
  if (decision === null) return <Badge tone="wait">waiting</Badge>;
  return <Badge tone={decision.verdict === "allow" ? "good" : "quiet"}>{WORDS[decision.verdict]}</Badge>;
}
