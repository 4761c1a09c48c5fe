import { expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import type { TaskRecord } from "../../src/model/task.js";
import { decideWake, wakeDepth } from "../../src/tasks/wake-limits.js";

const NOW = 10_000_000;
const idle = { hasAgent: true, depth: 0, wokenAt: [] };

test("an agent is woken until the depth or the rate is exceeded", () => {
  const limits = { wakeDepth: 2, wakesPerHour: 3 };
  const decide = (over: Partial<Parameters<typeof decideWake>[0]>) =>
    decideWake({ ...idle, ...over }, NOW, limits);
  expect(decide({})).toEqual({ wakes: true });
  expect(decide({ hasAgent: false })).toEqual({ wakes: false, why: "no-agent" });
  expect(decide({ depth: 1 })).toEqual({ wakes: true });
  expect(decide({ depth: 2 })).toEqual({ wakes: false, why: "depth" });
  expect(decide({ wokenAt: [NOW - 1, NOW - 2] })).toEqual({ wakes: true });
  expect(decide({ wokenAt: [NOW - 1, NOW - 2, NOW - 3] })).toEqual({ wakes: false, why: "rate" });
  expect(decide({ wokenAt: [NOW - 1, NOW - 2, NOW - 3_600_000] })).toEqual({ wakes: true });
});

test("the depth counts woken turns among the ancestors; an endless chain is too deep", async () => {
  const chain = (kinds: readonly (string | null)[]) => (id: string) =>
    Promise.resolve(
      Number(id) < kinds.length
        ? ({ kind: kinds[Number(id)], parentTaskId: String(Number(id) + 1) } as TaskRecord)
        : null,
    );
  expect(await wakeDepth(chain([]), "0")).toBe(0);
  expect(await wakeDepth(chain([null, "wake", null, "wake", null]), "0")).toBe(2);
  const endless = () => Promise.resolve({ kind: null, parentTaskId: "0" } as TaskRecord);
  expect(await wakeDepth(endless, "0")).toBeGreaterThan(defaults.wakeDepth);
});
