import { ELICITATION_KIND } from "../../acp/permissions/elicitation.js";
import { defaults } from "../../defaults.js";
import type { AcpPermissionRequest } from "../../model/acp/permission-request.js";
import type { Notification } from "../../model/outbox.js";
import type { SessionRecord } from "../../model/session.js";
import type { TaskRecord } from "../../model/task.js";
import type { ApprovalView } from "../../sessions/approvals.js";
import type { TaskStore } from "../../store/tasks/contract.js";
import type { Deliver } from "../../tasks/delivery-attempt.js";
import { redactedExcerpt } from "../../text/redact.js";
import { sanitizeLine } from "../../text/sanitize.js";

interface WaitingNotifierDeps {
  readonly store: Pick<TaskStore, "listTasks">;
  readonly sessions: { get(id: string): Promise<SessionRecord | null> };
  readonly deliver: Deliver;
  readonly onProblem: (message: string, cause: unknown) => void;
}

/** Tasks of one session that are searched. */
const MAX_TASKS = 20;
/** The subject in a message; the whole question is shown by the command that the message names. */
const SUBJECT_CHARS = 200;

/** A question to the operator that holds a session up. */
export interface WaitingQuestion {
  readonly id: string;
  readonly sessionId: string;
  /** The kind of answer that the session waits for. */
  readonly what: "approval" | "permission" | "an answer";
  readonly subject: string;
  readonly askedAt: number;
  readonly expiresAt: number;
  /** The command that shows the question and how to answer it. */
  readonly show: string;
}

/** Null: it is decided. */
export function waitingApproval(approval: ApprovalView): WaitingQuestion | null {
  if (approval.decision !== null) return null;
  const { command: subject } = approval;
  return { ...approval, what: "approval", subject, show: `holdfast approvals show ${approval.id}` };
}

/** The title of a permission request is the agent's, so what looks like a secret is left out. */
export function waitingPermission(permission: AcpPermissionRequest): WaitingQuestion {
  const { id, kind, title, toolCallId } = permission;
  const isQuestion = kind === ELICITATION_KIND;
  const subject = redactedExcerpt(title ?? toolCallId);
  return {
    ...permission,
    what: isQuestion ? "an answer" : "permission",
    subject: isQuestion || kind === null ? subject : `${redactedExcerpt(kind)}: ${subject}`,
    show: `holdfast acp permissions show ${id}`,
  };
}

/**
 * Sends a message to the channels of the task that a session works on when the session waits for an operator. The message
 * is not stored: an approval ends with this gateway, and a permission request that is open longer is not announced again.
 */
export function createWaitingNotifier(deps: WaitingNotifierDeps): (question: WaitingQuestion) => void {
  return (question) => {
    notifyChannels(deps, question).catch((cause: unknown) =>
      deps.onProblem(
        `the message that ${question.id} waits was not sent; \`${question.show}\` shows the question`,
        cause,
      ),
    );
  };
}

async function notifyChannels(deps: WaitingNotifierDeps, question: WaitingQuestion): Promise<void> {
  const session = await deps.sessions.get(question.sessionId);
  const task = session === null ? null : await findTaskWithChannel(deps, session);
  if (session === null || task === null) return;
  const notification = waitingNotification(task, session, question);
  const signal = AbortSignal.timeout(defaults.approvalMs);
  const channels = task.targets.filter(({ kind }) => kind === "channel");
  const sent = await Promise.allSettled(channels.map((target) => deps.deliver(target, notification, signal)));
  for (const result of sent) if (result.status === "rejected") throw result.reason;
}

/** The open task of the session, or else of its nearest ancestor, that has a channel. */
async function findTaskWithChannel(
  { store }: WaitingNotifierDeps,
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

/** A state message about the task. Its id contains the id of the question, so that a receiver recognizes a repetition. */
function waitingNotification(
  { taskId, status, label, runtime }: TaskRecord,
  { key }: Pick<SessionRecord, "key">,
  { id, what, subject, askedAt, expiresAt, show }: WaitingQuestion,
): Notification {
  const minutes = Math.max(1, Math.round((expiresAt - askedAt) / 60_000));
  const shown = sanitizeLine(subject);
  const cut = shown.length > SUBJECT_CHARS ? `${shown.slice(0, SUBJECT_CHARS)}…` : shown;
  const summary = `${sanitizeLine(key)} waits for ${what}, at most ${minutes} min: ${cut}`;
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
    text: `${sanitizeLine(label)}: ${summary}. To answer: ${show}`,
  };
}
