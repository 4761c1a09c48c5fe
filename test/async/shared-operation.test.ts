import { expect, test } from "vitest";
import { SharedOperation } from "../../src/async/concurrency.js";
import { waitFor } from "../support/wait-for.js";
import { deferred, type Deferred } from "../../src/async/deferred.js";

function started() {
  const operations: Deferred<number>[] = [];
  const shared = new SharedOperation(() => {
    const operation = deferred<number>();
    operations.push(operation);
    return operation.promise;
  });
  return { operations, shared };
}

test("calls during an operation share the next one, which begins after each of them", async () => {
  const { operations, shared } = started();
  const first = shared.run();
  const [second, third] = [shared.run(), shared.run()];
  expect(operations).toHaveLength(1);
  operations[0]?.resolve(1);
  expect(await first).toBe(1);
  await waitFor(() => operations.length === 2);
  operations[1]?.resolve(2);
  expect(await Promise.all([second, third])).toEqual([2, 2]);
});

test("a failed operation fails only its own callers", async () => {
  const { operations, shared } = started();
  const first = shared.run();
  const second = shared.run();
  operations[0]?.reject(new Error("the disk is full"));
  await expect(first).rejects.toThrow("the disk is full");
  await waitFor(() => operations.length === 2);
  operations[1]?.resolve(2);
  expect(await second).toBe(2);
});
