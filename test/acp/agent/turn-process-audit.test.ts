import { expect, test } from "vitest";
import { auditTurn, listProcessKeys } from "../../../src/acp/agent/turn-process-audit.js";
import type { Terminals } from "../../../src/acp/client/terminals.js";
import { defaultAcpLimits } from "../../../src/acp/limits.js";
import { SessionWriter } from "../../../src/acp/session-writer.js";
import type { LiveProcesses } from "../../../src/anchor/inspect/processes.js";
import { MAX_LISTED_PROCESSES } from "../../../src/anchor/protocol/messages.js";
import { hostClock } from "../../../src/async/clock.js";
import { NotSteering } from "../../../src/errors.js";
import type { Run } from "../../../src/supervisor/api.js";
import { openSessionFixture } from "../../support/sessions/session-fixture.js";
import { AT, newAcpSession, newAcpTurn, newSession } from "../../support/store/session-samples.js";

const away = () => Promise.reject(new NotSteering("run_1", "its anchor does not answer now"));

const process = (pid: number) =>
  ({ identity: { pid, startTime: pid, uniqueId: null }, command: "tool" }) as LiveProcesses[number];

/** A turn that has ended, and what is written down of a look at such a run. */
async function audited(run: Partial<Run>, before: readonly string[] | null, reapTools = false) {
  await using world = await openSessionFixture();
  const row = newSession();
  await world.store.createSession(row);
  const session = newAcpSession(row.id, { reap: "asked" });
  await world.store.insertAcpSession(session);
  const kept = new SessionWriter(session, {
    store: world.store,
    clock: hostClock,
    onWritten: () => undefined,
    onProblem: () => expect.fail("the store failed"),
  });
  const ended = { state: "ended", endedAt: AT, outcome: "cancelled" } as const;
  await kept.commit(() => ({ newTurn: newAcpTurn("turn_1") }));
  await kept.commit(() => ({ turns: [{ turnId: "turn_1", from: "queued", set: ended }] }));
  const cancel = { actor: "test", at: AT, reapTools };
  const whole = Object.defineProperties(
    { rootPid: 1, state: "running" },
    Object.getOwnPropertyDescriptors(run),
  );
  const parts = { writer: kept, clock: hostClock, limits: defaultAcpLimits };
  const terminals = {
    liveProcessesOf: async () => [],
    stopTurn: async () => undefined,
  } as unknown as Terminals;
  await auditTurn(parts, { run: whole as Run, terminals }, { turnId: "turn_1", before, cancel });
  const [update] = await world.store.listAcpUpdates({ sessionId: row.id });
  const { audit } = (await world.store.getAcpTurn("turn_1")) ?? expect.fail("there is no turn");
  expect(update?.data ?? null).toEqual(audit);
  return audit;
}

test("a process tree that cannot be listed is not reported as empty", async () => {
  const unknown = expect.stringContaining("its anchor does not answer now") as string;
  expect(await audited({ members: away }, [])).toMatchObject({ left: [], reaped: false, unknown });
});

test("a tree that could not be listed at the start of the turn is not reported as empty", async () => {
  const audit = await audited({ members: async () => [process(1), process(7)] }, null);
  expect(audit).toMatchObject({ left: [], unknown: expect.stringMatching(/when the turn began/) as string });
});

test("a list without the agent's own process, as with an unreadable /proc, is not reported as empty", async () => {
  const unknown = expect.stringContaining("/proc may be unreadable") as string;
  for (const members of [[], [process(7)]])
    expect(await audited({ members: async () => members }, [])).toMatchObject({ left: [], unknown });
  await expect(listProcessKeys({ rootPid: 1, members: async () => [] } as unknown as Run)).rejects.toThrow();
});

test("a tree with too many processes is not reported as empty", async () => {
  const many = Array.from({ length: MAX_LISTED_PROCESSES }, (_, at) => process(at + 1));
  const run = { rootPid: 1, members: async () => many };
  await expect(listProcessKeys(run as unknown as Run)).rejects.toThrow(/cannot be told/);
  expect(await audited(run, [])).toMatchObject({ left: [], unknown: expect.stringMatching(/512/) as string });
});

test("listed processes that could not be ended are reported with the reason", async () => {
  const audit = await audited(
    { members: async () => [process(1), process(6), process(7)], signal: away },
    ["6:6"],
    true,
  );
  const left = [{ pid: 7, startTime: 7, uniqueId: null, command: "tool" }];
  const unknown = expect.stringContaining("its anchor does not answer now") as string;
  expect(audit).toMatchObject({ left, survivors: left, reaped: false, unknown });
});

test("no audit is written for an agent that has ended", async () => {
  let state: Run["state"] = "running";
  const members = (): Promise<never> => {
    state = "exited";
    return away();
  };
  const run = Object.defineProperty({ members }, "state", { get: () => state, enumerable: true });
  expect(await audited(run as Partial<Run>, [])).toBeNull();
});
