import { expect, test, vi } from "vitest";
import { PROTOCOL } from "../../../src/anchor/protocol/messages.js";
import { defaults } from "../../../src/defaults.js";
import type { ProcessEvidence } from "../../../src/anchor/host-interface.js";
import type { FakeAnchor } from "../../support/supervisor/fake-anchor.js";
import { fakeSupervisor, spawnFakeRun, nextTurn } from "../../support/supervisor/fake-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

const told = (pid: number): ProcessEvidence["descendants"][number] => ({
  identity: { pid, startTime: pid, uniqueId: null },
  parentPid: 1,
  sessionId: 1,
  command: "told",
  state: "S",
  cpuMs: 0,
  rssKb: 0,
  ports: [],
});

/** A running run, and the requests to its anchor. */
async function running() {
  const world = fakeSupervisor();
  const inspect = vi.spyOn(world.host, "inspectProcesses");
  const run = await spawnFakeRun(world);
  const anchor = world.host.anchors.get(run.runId) as FakeAnchor;
  const asked = () =>
    anchor.links
      .flatMap(({ sent }) => sent)
      .filter((line) => line.startsWith("members "))
      .map((line) => line.slice("members ".length));
  inspect.mockClear();
  return { world, run, anchor, asked, inspect };
}

test("the anchor's answer is used, and no inspection process is started", async () => {
  const { run, anchor, asked, inspect } = await running();
  const [one, two] = [run.members(), run.members()];
  const [first = "", second = ""] = asked();
  anchor.emit({ type: "members", requestId: second, processes: [told(22)] });
  anchor.emit({ type: "members", requestId: first, processes: [told(21)] });
  expect([await one, await two]).toEqual([[told(21)], [told(22)]]);
  expect(inspect).not.toHaveBeenCalled();
});

test.for([
  ["does not know the question", { type: "refused", code: "unknown-frame", message: "", epoch: null }],
  ["hangs up", { type: "closed" }],
] as const)("an anchor that %s is looked at from outside", async ([, event]) => {
  const { world, run, anchor, inspect } = await running();
  const members = run.members();
  anchor.emit(event);
  expect(await members).toEqual([]);
  expect(inspect).toHaveBeenCalledOnce();
  expect(world.problems).toEqual([]);
});

test("an older anchor gets no request", async () => {
  const { run, anchor, asked, inspect } = await running();
  anchor.welcome = { ...anchor.welcome, protocol: PROTOCOL - 1 };
  anchor.disconnect();
  await waitFor(() => anchor.links.length > 0);
  expect(await run.members()).toEqual([]);
  expect(asked()).toEqual([]);
  expect(inspect).toHaveBeenCalledOnce();
});

test("a missing answer times out, and a late answer is not used for the next request", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const { run, anchor, asked, inspect } = await running();
    const members = run.members();
    await vi.advanceTimersByTimeAsync(defaults.membersMs);
    expect(await members).toEqual([]);
    expect(inspect).toHaveBeenCalledOnce();
    const again = run.members();
    const [late = "", now = ""] = asked();
    anchor.emit({ type: "members", requestId: late, processes: [told(21)] });
    anchor.emit({ type: "members", requestId: now, processes: [told(22)] });
    expect(await again).toEqual([told(22)]);
  } finally {
    vi.useRealTimers();
  }
});

test("a request ends with the anchor's exit", async () => {
  const { run, anchor } = await running();
  const members = run.members();
  anchor.exit();
  await nextTurn();
  expect(await members).toEqual([]);
});
