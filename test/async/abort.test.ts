import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { linkAbort } from "../../src/async/abort.js";

test("a linked controller aborts with the other signal, leaves no listener after its own abort, and aborts at once with an aborted one", () => {
  const other = new AbortController();
  const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
  const ends = [first, second].map((own) => linkAbort(own, other.signal));
  first.abort();
  expect(getEventListeners(other.signal, "abort")).toHaveLength(1);
  other.abort();
  expect(ends.map(({ aborted }) => aborted)).toEqual([true, true]);
  expect(linkAbort(third, other.signal).aborted).toBe(true);
});
