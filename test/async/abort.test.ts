import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { linkAbort } from "../../src/async/abort.js";

test("it ends with the other, by itself without a trace in that, and at once with one that has ended", () => {
  const other = new AbortController();
  const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
  const ends = [first, second].map((own) => linkAbort(own, other.signal));
  first.abort();
  expect(getEventListeners(other.signal, "abort")).toHaveLength(1);
  other.abort();
  expect(ends.map(({ aborted }) => aborted)).toEqual([true, true]);
  expect(linkAbort(third, other.signal).aborted).toBe(true);
});
