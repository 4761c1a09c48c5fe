import { expect, test } from "vitest";
import {
  createWaitingNotifier,
  waitingApproval,
  waitingPermission,
  type WaitingQuestion,
} from "../../../src/gateway/background/waiting-notifier.js";
import type { AcpPermissionRequest } from "../../../src/model/acp/permission-request.js";
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

function approvalOf(change: Partial<ApprovalView> = {}): WaitingQuestion {
  const approval = { ...newApproval("ses_own"), decision: null, question: null, ...change };
  return waitingApproval(approval) ?? expect.fail("it does not wait");
}

/** The texts that were delivered for a question of a session with these tasks. */
async function told(tasks: readonly TaskRecord[], question = approvalOf()) {
  const session = {
    ...newSession({ id: "ses_own", key: "builder", lineage: ["ses_parent"] }),
    ...OPEN_SESSION,
  };
  const texts: string[] = [];
  const problems: unknown[] = [];
  let done = (): void => undefined;
  const settled = new Promise<void>((resolve) => (done = resolve));
  const tell = createWaitingNotifier({
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
  tell(question);
  await settled;
  return { texts, problems };
}

test("the channel of the session's own task is notified, with the command and what to type", async () => {
  const tasks = [taskOf("ses_own"), taskOf("ses_parent", { label: "other" })];
  const { texts } = await told(tasks, approvalOf({ id: "apr_1" }));
  expect(texts).toEqual([
    "build: builder waits for approval, at most 1 min: git push. To answer: holdfast approvals show apr_1",
  ]);
});

test("a session without a channel of its own uses the task of its ancestor", async () => {
  const own = taskOf("ses_own", { targets: [{ kind: "session", sessionId: "ses_parent" }] });
  expect((await told([own, taskOf("ses_parent", { label: "plan" })])).texts).toEqual([
    expect.stringMatching(/^plan: builder waits/),
  ]);
});

test("a silent task is not notified", async () => {
  expect((await told([taskOf("ses_own", { policy: "silent" })])).texts).toEqual([]);
});

test("a channel that fails is reported, and control characters of the command are not sent", async () => {
  const broken = taskOf("ses_own", { targets: [{ kind: "channel", channel: "broken", address: null }] });
  expect((await told([broken])).problems).toEqual([expect.stringContaining("the message that apr_")]);
  const { texts } = await told([taskOf("ses_own")], approvalOf({ command: "rm \u001b[2Jx" }));
  expect(texts.join("")).not.toContain("\u001b");
});

const permission = {
  ...{ id: "prm_1", sessionId: "ses_own", turnId: "trn_1", rpcId: 1, toolCallId: "t1", kind: "execute" },
  ...{ title: "git push", inputDigest: null, options: [], rule: null, decision: null, answered: false },
  ...{ askedAt: 0, expiresAt: 300_000 },
} satisfies AcpPermissionRequest;

test("a permission request of an agent, and its question to the user, are told without secrets", async () => {
  const textsOf = async (change: Partial<AcpPermissionRequest>) =>
    (await told([taskOf("ses_own")], waitingPermission({ ...permission, ...change }))).texts;
  const end = ". To answer: holdfast acp permissions show prm_1";
  expect(await textsOf({})).toEqual([
    `build: builder waits for permission, at most 5 min: execute: git push${end}`,
  ]);
  expect(await textsOf({ kind: "elicitation", title: "Which port?" })).toEqual([
    `build: builder waits for an answer, at most 5 min: Which port?${end}`,
  ]);
  const [text] = await textsOf({ title: "curl -H 'Authorization: Bearer abcdefghijklmnop'" });
  expect(text).not.toContain("abcdefghijklmnop");
});
