import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import { createSupervisor } from "../../src/supervisor/supervisor.js";
import { EXITED, GATED, newRun } from "../support/store/run-samples.js";
import { temporaryDirectory } from "../support/temporary-directory.js";
import { FakeHost } from "../support/supervisor/fake-host.js";

test("old runs of another live supervisor do not prevent the deletion of this one's", async () => {
  const directory = await temporaryDirectory();
  onTestFinished(() => directory[Symbol.asyncDispose]());
  const store = await openSqliteStore({ path: join(directory.path, "store.sqlite") });
  const host = new FakeHost();
  host.locals.push({ instanceId: "in_other", alive: true, launched: false });
  const supervisor = createSupervisor({ store, host, instanceId: "in_test", home: directory.path });
  onTestFinished(() => supervisor.close());
  for (let n = 0; n < 260; n++) {
    const originInstanceId = n < 250 ? "in_other" : "in_test";
    const facts = { originInstanceId, ownerInstanceId: originInstanceId, createdAt: 1 };
    const run = newRun({ runId: `run_${n}`, ...facts });
    const lease = await store.insertRun(run, 1_000);
    await store.saveRun(lease, GATED);
    await store.saveRun(lease, { ...EXITED, at: n + 1 });
  }
  // Age counts up to the newest run: this one makes the others old.
  await store.insertRun(newRun({ runId: "run_newest", ownerInstanceId: "in_test" }), 1_000);
  const age = { endedKeptMs: Number.MAX_SAFE_INTEGER };
  // How many may be kept is counted without those that are not this one's to forget.
  expect((await supervisor.retain({ ...age, endedKept: 10 })).records).toBe(0);
  expect((await supervisor.retain({ ...age, endedKept: 9 })).records).toBe(1);
  expect((await supervisor.retain()).records).toBe(9);
  expect(host.discarded).toHaveLength(10);
  expect(await store.countEndedRuns()).toBe(250);
});
