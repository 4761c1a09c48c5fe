import { getEventListeners, once } from "node:events";
import { expect, test } from "vitest";
import { linkAbort, withTimeLimit } from "../../src/async/abort.js";
import { collectGarbage } from "../support/collect-garbage.js";

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

test("a time limit aborts after garbage was collected, aborts with the other signal, and leaves no timer and no listener", async () => {
  const other = new AbortController();
  using late = withTimeLimit(other.signal, 50);
  const aborted = once(late.signal, "abort");
  collectGarbage();
  await aborted;

  const linked = withTimeLimit(other.signal, 60_000);
  other.abort();
  expect(linked.signal.aborted).toBe(true);

  const next = new AbortController();
  const timers = (): number => process.getActiveResourcesInfo().filter((each) => each === "Timeout").length;
  const before = timers();
  withTimeLimit(next.signal, 60_000)[Symbol.dispose]();
  expect([timers(), getEventListeners(next.signal, "abort")]).toEqual([before, []]);
});
