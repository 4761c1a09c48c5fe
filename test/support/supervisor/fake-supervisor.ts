import { onTestFinished } from "vitest";
import type { Problem, Run, Supervisor } from "../../../src/supervisor/api.js";
import type { SupervisorDependencies } from "../../../src/supervisor/create-context.js";
import { createSupervisor } from "../../../src/supervisor/supervisor.js";
import { FakeHost } from "./fake-host.js";
import { FakeStore } from "./fake-store.js";

export interface FakeSupervisor {
  readonly supervisor: Supervisor;
  readonly store: FakeStore;
  readonly host: FakeHost;
  readonly problems: Problem[];
}

/** A supervisor with fakes. With the store and host of another one: its successor after a restart. */
export function fakeSupervisor(
  parts: Partial<SupervisorDependencies> & { store?: FakeStore; host?: FakeHost } = {},
): FakeSupervisor {
  const { store = new FakeStore(), host = new FakeHost() } = parts;
  const problems: Problem[] = [];
  const supervisor = createSupervisor({
    instanceId: "in_test",
    home: "/nowhere",
    waitForEndMs: 0,
    onProblem: (problem) => problems.push(problem),
    ...parts,
    store,
    host,
  });
  onTestFinished(() => supervisor.close({ leaveRuns: true }));
  return { supervisor, store, host, problems };
}

export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export const spawnFakeRun = ({ supervisor }: FakeSupervisor, options = {}): Promise<Run> =>
  supervisor.spawn({ io: "pipe", argv: ["/bin/true"] }, options);
