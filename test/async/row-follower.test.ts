import { expect, test } from "vitest";
import { RowFollower } from "../../src/async/row-follower.js";

test("a row that is written during a read is read next", async () => {
  const follower = new RowFollower();
  const rows = [1];
  let read = 0;
  const pages = follower.follow(
    "a",
    async () => {
      const found = rows.slice(read);
      read = rows.length;
      if (rows.length < 3) {
        rows.push(rows.length + 1);
        follower.wake("a");
      }
      return { rows: found, ended: read === 3 };
    },
    { signal: new AbortController().signal },
  );
  expect((await collect(pages)).flat()).toEqual([1, 2, 3]);
});

test("a wake reaches the readers of its key only", async () => {
  const follower = new RowFollower();
  const reads = { a: 0, b: 0 };
  const stop = new AbortController();
  const reading = (["a", "b"] as const).map((key) =>
    follower.waitFor(key, async () => ((reads[key] += 1) < 3 ? null : "found"), { signal: stop.signal }),
  );
  for (let wakes = 0; wakes < 2; wakes++) {
    follower.wake("a");
    await new Promise(setImmediate);
  }
  expect(await reading[0]).toBe("found");
  expect(reads.b).toBe(1);
  stop.abort();
  expect(await reading[1]).toBeNull();
});

test("close ends a stream, but not a wait", async () => {
  const follower = new RowFollower();
  const stop = new AbortController();
  const stream = collect(follower.follow("a", async () => ({ rows: [] }), { signal: stop.signal }));
  let found: string | null = null;
  const wait = follower.waitFor("a", async () => found, { signal: stop.signal, pollMs: () => 1 });
  await new Promise(setImmediate);
  follower.close();
  expect(await stream).toEqual([[]]);
  found = "late";
  expect(await wait).toBe("late");
});

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}
