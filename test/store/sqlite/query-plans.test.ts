import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test, vi } from "vitest";
import { OPEN_RUN_STATES } from "../../../src/model/run.js";
import { SqliteConnection } from "../../../src/store/sqlite/retrying-connection.js";
import type { Store } from "../../../src/store/store.js";
import { openTaskRegistry } from "../../support/task-registry.js";

const queries: readonly [what: string, index: string, ask: (store: Store) => Promise<unknown>][] = [
  [
    "open runs",
    "(runs_live|runs_open_of_state)",
    (store) => store.listRuns({ states: OPEN_RUN_STATES, limit: 500 }),
  ],
  [
    "open runs that are not hidden, by their size,",
    "(runs_live|runs_open_of_state)",
    (store) => store.listRuns({ states: OPEN_RUN_STATES, hidden: false, maxBytes: 1_000_000 }),
  ],
  [
    "open runs of an agent",
    "(runs_live|runs_open_of_state)",
    (store) => store.listRuns({ states: OPEN_RUN_STATES, agentId: "a", withoutLabels: true }),
  ],
  ["open tasks", "tasks_open", (store) => store.listTasks({ open: true, limit: 500 })],
  ["tasks to be deleted", "tasks_to_forget", (store) => store.listTasks({ cleanupBefore: 1, limit: 500 })],
  [
    "the open task of a session",
    "tasks_of_child",
    (store) => store.listTasks({ childSessionId: "ses_1", open: true, limit: 1 }),
  ],
  [
    "messages that wait in sessions",
    "task_outbox_queued",
    (store) => store.listOutbox({ statuses: ["session_queued"], limit: 500 }),
  ],
  [
    "messages that wait in one session",
    "task_outbox_queued_for",
    (store) =>
      store.listOutbox({
        target: { kind: "session", sessionId: "ses_1" },
        statuses: ["session_queued"],
        limit: 500,
      }),
  ],
  [
    "unanswered messages of a session",
    "session_messages_in_order",
    (store) => store.listUnansweredMessages({ sessionId: "ses_1" }, 1),
  ],
];

test.each(queries)("%s are found by an index of open records", async (_, index, ask) => {
  await using registry = await openTaskRegistry();
  using execute = vi.spyOn(SqliteConnection.prototype, "execute");
  await ask(registry.store);
  const db = new DatabaseSync(registry.path, { readOnly: true });
  const plans = execute.mock.calls.map(([{ sql, parameters }]) =>
    db
      .prepare(`explain query plan ${sql}`)
      .all(...(parameters as string[]))
      .map((step) => (step as { readonly detail: string }).detail),
  );
  db.close();
  expect(plans).toHaveLength(1);
  expect(plans[0]?.join("\n")).toMatch(new RegExp(`USING INDEX ${index}\\b`));
});
