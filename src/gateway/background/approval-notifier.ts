import { defaults } from "../../defaults.js";
import type { Notification } from "../../model/outbox.js";
import type { SessionRecord } from "../../model/session.js";
import type { TaskRecord } from "../../model/task.js";
import type { ApprovalView } from "../../sessions/approvals.js";
import type { TaskStore } from "../../store/tasks/contract.js";
import type { Deliver } from "../../tasks/delivery.js";
import { sanitizeLine } from "../../text/sanitize.js";

export interface ApprovalNotifierDeps {
  readonly store: Pick<TaskStore, "listTasks">;
  readonly sessions: { get(id: string): Promise<SessionRecord | null> };
  readonly deliver: Deliver;
  readonly onProblem: (message: string, cause: unknown) => void;
}

/** Tasks of one session that are searched. */
const MAX_TASKS = 20;
/** The command in a message; the whole question is shown by `holdfast approvals show`. */
const COMMAND_CHARS = 200;

/**
 * Sends a message to the channels of the task that a session works on when a command of the session waits for approval.
 * The message is not stored: the approval ends with this gateway, and needs no message afterwards.
 */
export function createApprovalNotifier(deps: ApprovalNotifierDeps): (approval: ApprovalView) => void {
  return (approval) => {
    if (approval.decision !== null) return;
    notifyChannels(deps, approval).catch((cause: unknown) =>
      deps.onProblem(
        `the message that approval ${approval.id} waits was not sent; \`holdfast approvals\` lists it`,
        cause,
      ),
    );
  };
}

async function notifyChannels(deps: ApprovalNotifierDeps, approval: ApprovalView): Promise<void> {
  const session = await deps.sessions.get(approval.sessionId);
  const task = session === null ? null : await findTaskWithChannel(deps, session);
  if (session === null || task === null) return;
  const notification = waitingNotification(task, session, approval);
  const signal = AbortSignal.timeout(defaults.approvalMs);
  for (const target of task.targets)
    if (target.kind === "channel") await deps.deliver(target, notification, signal);
}

/** The open task of the session, or else of its nearest ancestor, that has a channel. */
async function findTaskWithChannel(
  { store }: ApprovalNotifierDeps,
  { id, lineage }: SessionRecord,
): Promise<TaskRecord | null> {
  for (const childSessionId of [id, ...lineage]) {
    const tasks = await store.listTasks({ childSessionId, open: true, limit: MAX_TASKS });
    const found = tasks.find(
      ({ policy, targets }) => policy !== "silent" && targets.some(({ kind }) => kind === "channel"),
    );
    if (found !== undefined) return found;
  }
  return null;
}

/** A state message about the task. Its id contains the id of the approval, so that a receiver recognizes a repetition. */
export function waitingNotification(
  { taskId, status, label, runtime }: TaskRecord,
  { key }: Pick<SessionRecord, "key">,
  { id, command, askedAt, expiresAt }: ApprovalView,
): Notification {
  const minutes = Math.max(1, Math.round((expiresAt - askedAt) / 60_000));
  const shown = sanitizeLine(command);
  const cut = shown.length > COMMAND_CHARS ? `${shown.slice(0, COMMAND_CHARS)}…` : shown;
  const summary = `${sanitizeLine(key)} waits for approval, at most ${minutes} min: ${cut}`;
  return {
    id: `task-state:${taskId}:${id}`,
    taskId,
    kind: "state",
    status,
    outcome: null,
    label: sanitizeLine(label),
    runtime,
    summary,
    error: null,
    at: askedAt,
    text: `${sanitizeLine(label)}: ${summary}. To answer: holdfast approvals show ${id}`,
  };
}
