import { describe, expect, test } from "vitest";
import type { Store } from "../../src/store/store.js";
import type { Deliver } from "../../src/tasks/delivery-attempt.js";
import { Notifier } from "../../src/tasks/notifier.js";
import { Tasks } from "../../src/tasks/tasks.js";
import { startPostgresServer, whyNoPostgres } from "../support/store/postgres-server.js";
import { CHAT, PARENT } from "../support/store/task-samples.js";
import { SUCCEEDED_FINISH } from "../support/task-registry.js";

/** Half as many tasks, with two targets each. */
const MESSAGES = process.env["HOLDFAST_SOAK"] === "1" ? 10_000 : 600;
const AT_ONCE = 16;

describe.skipIf(whyNoPostgres !== null)("two notifiers on one PostgreSQL", () => {
  test("each notification is received once, and both notifiers send some", async () => {
    await using server = await startPostgresServer();
    await using database = await server.createDatabase();
    await using first = await database.open();
    await using second = await database.open();
    await endMany(first, MESSAGES / 2);
    const got: string[] = [];
    const senders = new Set<string>();
    const notifiers = [first, second].map((store, index) => {
      const owner = `gateway-${index}`;
      const deliver: Deliver = async (target, { id }) => {
        got.push(`${id} ${JSON.stringify(target)}`);
        senders.add(owner);
        return { status: "delivered", receipt: null };
      };
      return new Notifier({ store, deliver, owner });
    });
    for (const notifier of notifiers) notifier.start();
    await expect
      .poll(async () => (await first.listOutbox({ statuses: ["pending"], limit: 1 })).length, {
        timeout: 600_000,
        interval: 100,
      })
      .toBe(0);
    await Promise.all(notifiers.map((notifier) => notifier.stop()));
    expect(got).toHaveLength(MESSAGES);
    expect(new Set(got).size).toBe(MESSAGES);
    expect(senders.size).toBe(2);
    const told = await second.listTasks({ deliveries: ["delivered"], limit: MESSAGES });
    expect(told).toHaveLength(MESSAGES / 2);
  }, 700_000);
});

async function endMany(store: Store, count: number): Promise<void> {
  const tasks = new Tasks({ store });
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      next += 1;
      const input = { runtime: "external", key: null, text: "work", targets: [PARENT, CHAT] } as const;
      const { task } = await tasks.create(input);
      await tasks.apply(task.taskId, { ...SUCCEEDED_FINISH, at: Date.now(), startedAt: Date.now() });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
