import type { Task } from "../../api/types.js";
import { Badge, type Tone } from "../../components/badge.js";

const TONES: Readonly<Record<Task["status"], Tone>> = {
  queued: "wait",
  running: "live",
  succeeded: "good",
  failed: "bad",
  timed_out: "bad",
  cancelled: "quiet",
  lost: "bad",
};

type Shown = Pick<Task, "status" | "outcome" | "missingSince" | "stalledAt">;

/** The status of a task, in the words of `holdfast tasks`. */
export function TaskBadge({ task }: { readonly task: Shown }) {
  return <Badge tone={task.outcome === "blocked" ? "wait" : TONES[task.status]}>{statusText(task)}</Badge>;
}

function statusText({ status, outcome, missingSince, stalledAt }: Shown): string {
  if (outcome === "blocked") return "blocked";
  const words = status.replaceAll("_", " ");
  if (missingSince !== null) return `${words}, missing`;
  return stalledAt === null ? words : `${words}, stalled`;
}

const DELIVERIES: Readonly<Record<Task["delivery"], string>> = {
  pending: "not notified yet",
  delivered: "notified",
  session_queued: "waits in its session",
  failed: "not delivered",
  parent_missing: "no receiver",
  not_applicable: "no notification",
};

export function deliveryText({ delivery }: Pick<Task, "delivery">): string {
  return DELIVERIES[delivery];
}

const DELIVERY_TONES: Readonly<Record<Task["delivery"], Tone>> = {
  pending: "quiet",
  delivered: "quiet",
  session_queued: "quiet",
  failed: "bad",
  parent_missing: "wait",
  not_applicable: "quiet",
};

export function DeliveryBadge({ task }: { readonly task: Pick<Task, "delivery"> }) {
  return <Badge tone={DELIVERY_TONES[task.delivery]}>{deliveryText(task)}</Badge>;
}
