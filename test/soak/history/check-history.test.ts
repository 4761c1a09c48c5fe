import { expect, test } from "vitest";
import { checkHistory } from "./check-history.js";
import { type HistoryEntry, parseHistory } from "./history.js";

const event = (seq: number, type: string, data: Record<string, unknown> = {}): HistoryEntry => ({
  ...{ entry: "event", seq, runId: "run_a", type, data },
});
const took = (seq: number, epoch: number, process: string): HistoryEntry =>
  event(seq, "reconcile", { action: "continue", epoch, process });
const steered = (process: string, invokedAt: number, returnedAt: number, accepted = true): HistoryEntry => ({
  ...{ entry: "steered", runId: "run_a", process, invokedAt, returnedAt, accepted },
});
const received = (id: string, status = "succeeded"): HistoryEntry => ({
  ...{ entry: "received", id, taskId: "task_a", status },
});
const taskEnd: HistoryEntry = { entry: "task-end", taskId: "task_a", status: "succeeded" };

/** Three owners one after the other, a refused late one, and a message that came twice. */
const good: readonly HistoryEntry[] = [
  event(1, "spawn"),
  steered("first", 10, 20),
  took(2, 2, "second"),
  // Began before the second had answered anything.
  steered("first", 25, 32),
  steered("second", 28, 35),
  steered("first", 40, 45, false),
  event(3, "reconcile", { action: "leave", epoch: 2 }),
  event(4, "attach", { epoch: 3, process: "third" }),
  steered("third", 50, 60),
  event(5, "exit"),
  taskEnd,
  received("task-state:task_a:1", "running"),
  received("task-terminal:task_a"),
  received("task-terminal:task_a"),
];

test("a history in which every promise is kept has no problem", () => {
  expect(checkHistory(good)).toEqual([]);
  expect(parseHistory(good.map((each) => JSON.stringify(each)).join("\n"))).toEqual(good);
});

const replace = (at: number, ...entries: readonly HistoryEntry[]): HistoryEntry[] =>
  good.toSpliced(at, 1, ...entries);
const indexOf = (entry: HistoryEntry | undefined): number =>
  good.findIndex((each) => JSON.stringify(each) === JSON.stringify(entry));

const bad: Readonly<Record<string, readonly [history: readonly HistoryEntry[], seen: RegExp]>> = {
  "two owners of one epoch": [
    replace(indexOf(event(4, "attach", { epoch: 3, process: "third" })), took(4, 2, "third")),
    /third took epoch 2 after second had taken epoch 2/,
  ],
  "an epoch that goes back": [
    [...good, took(6, 1, "fourth")],
    /fourth took epoch 1 after third had taken epoch 3/,
  ],
  "a former owner that steers": [
    replace(indexOf(steered("first", 40, 45, false)), steered("first", 40, 45)),
    /first steered under epoch 1 after second had under epoch 2/,
  ],
  "a run that ends twice": [[...good, event(6, "exit")], /run_a has 2 ends/],
  "a run without an end": [replace(indexOf(event(5, "exit"))), /run_a has 0 ends/],
  "a task that ends twice": [[...good, taskEnd], /task_a has 2 ends/],
  "a message that is lost": [
    good.filter((each) => each.entry !== "received"),
    /task_a: its end was not received/,
  ],
  "a message with a new id": [[...good, received("task-terminal:task_a:2")], /received under 2 ids/],
  "a message about another end": [
    [...good, received("task-terminal:task_a", "failed")],
    /received failed, ended succeeded/,
  ],
};

for (const [what, [history, seen]] of Object.entries(bad))
  test(`${what} is found`, () => {
    expect(checkHistory(history)).toEqual([expect.stringMatching(seen)]);
  });
