import { expect, test } from "vitest";
import { createApprovalNotifier } from "../../../src/gateway/background/approval-notifier.js";
import type { NotificationTarget } from "../../../src/model/outbox.js";
import type { TaskRecord } from "../../../src/model/task.js";
import type { ApprovalView } from "../../../src/sessions/approvals.js";
import { newApproval, newSession, OPEN_SESSION } from "../../support/store/session-samples.js";

const CHANNEL: NotificationTarget = { kind: "channel", channel: "user", address: "42" };

function taskOf(childSessionId: string, change: Partial<TaskRecord> = {}): TaskRecord {
  const task = {
    taskId: `task_${childSessionId}`,
    childSessionId,
    label: "build",
    status: "running",
    runtime: "acp",
  };
  return { ...task, policy: "done_only", targets: [CHANNEL], ...change } as TaskRecord;
}

/** The texts that were delivered for an approval of a session with these tasks. */
async function notify(tasks: readonly TaskRecord[], change: Partial<ApprovalView> = {}) {
  const session = {
    ...newSession({ id: "ses_own", key: "builder", lineage: ["ses_parent"] }),
    ...OPEN_SESSION,
  };
  const texts: string[] = [];
  const problems: unknown[] = [];
  let done = (): void => undefined;
  const settled = new Promise<void>((resolve) => (done = resolve));
  const tell = createApprovalNotifier({
    store: {
      listTasks: async ({ childSessionId }) => {
        if (childSessionId === "ses_parent") setImmediate(done);
        return tasks.filter((task) => task.childSessionId === childSessionId);
      },
    },
    sessions: { get: async () => session },
    deliver: async (target, { text }) => {
      if (target.kind === "channel" && target.channel === "broken") throw new Error("unreachable");
      texts.push(text);
      setImmediate(done);
      return { status: "delivered", receipt: null };
    },
    onProblem: (message) => {
      problems.push(message);
      setImmediate(done);
    },
  });
  tell({ ...newApproval("ses_own"), decision: null, question: null, ...change });
  await settled;
  return { texts, problems };
}

test("the channel of the session's own task is notified, with the command and what to type", async () => {
  const { texts } = await notify([taskOf("ses_own"), taskOf("ses_parent", { label: "other" })], {
    id: "apr_1",
  });
  expect(texts).toEqual([
    "build: builder waits for approval, at most 1 min: git push. To answer: holdfast approvals show apr_1",
  ]);
});

test("a session without a channel of its own uses the task of its ancestor", async () => {
  const own = taskOf("ses_own", { targets: [{ kind: "session", sessionId: "ses_parent" }] });
  expect((await notify([own, taskOf("ses_parent", { label: "plan" })])).texts).toEqual([
    expect.stringMatching(/^plan: builder waits/),
  ]);
});

test("a silent task is not notified", async () => {
  expect((await notify([taskOf("ses_own", { policy: "silent" })])).texts).toEqual([]);
});

test("a channel that fails is reported, and control characters of the command are not sent", async () => {
  const broken = taskOf("ses_own", { targets: [{ kind: "channel", channel: "broken", address: null }] });
  expect((await notify([broken])).problems).toEqual([expect.stringContaining("the message that approval")]);
  const { texts } = await notify([taskOf("ses_own")], { command: "rm \u001b[2Jx" });
  expect(texts.join("")).not.toContain("\u001b");
});
