import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  buildSupervisor,
  realSupervisor,
  shellInput,
  startOneRunSupervisor,
  temporaryHome,
  readOutput,
} from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

const SCRIPT = "read a; echo got $a; read b; echo got $b; exit 9";

test("a run continues after its supervisor was killed, with all output once and the correct exit", async () => {
  const [open, home] = [await buildSupervisor(), await temporaryHome()];
  const victim = await startOneRunSupervisor(open, home, "in_stable", SCRIPT);
  await victim.kill();
  const supervisor = await realSupervisor({ home, instanceId: "in_stable" });
  const [run] = await supervisor.recover();
  expect(run?.runId).toBe(victim.runId);
  expect(await supervisor.recover()).toEqual([]);
  if (run === undefined) return;
  await run.write("from the second\n");
  expect((await readOutput(run)).stdout).toBe("got from the first\ngot from the second\n");
  expect(await run.wait()).toMatchObject({
    exit: { reason: "exit", code: 9, source: "anchor" },
    leaseEpoch: 2,
  });
  const events = await supervisor.listEvents({ runId: run.runId });
  expect(events.map(({ type }) => type)).toEqual(["spawn", "reconcile", "exit"]);
});

test("a run that ended without a supervisor is finalized with its own status", async () => {
  const home = await temporaryHome();
  const first = await realSupervisor({ home, instanceId: "in_stable" });
  const { runId } = await first.spawn(shellInput("sleep 0.1; echo done; exit 5"));
  await first.close({ leaveRuns: true });
  const exitFile = join(home, "instances/in_stable/runs", runId, "exit.json");
  await waitFor("it has ended", () => existsSync(exitFile));
  const second = await realSupervisor({ home, instanceId: "in_stable" });
  expect(await second.recover()).toEqual([]);
  const record = await second.getRun(runId);
  expect(record).toMatchObject({
    state: "exited",
    exit: { reason: "exit", code: 5, source: "exit-file" },
    emptiness: "proven",
  });
  // No supervisor received the output, so its time comes from the spool.
  expect(record?.lastOutputAt).toBeGreaterThan(record?.startedAt ?? Infinity);
  expect(record?.lastOutputAt).toBeLessThanOrEqual(record?.endedAt ?? 0);
});

test("the next owner reaches a run whose socket was deleted", async () => {
  const home = await temporaryHome();
  const first = await realSupervisor({ home, instanceId: "in_stable" });
  const { runId } = await first.spawn(shellInput("read a; exit 2"));
  await rm(join(home, "instances/in_stable/runs", runId, "sock"));
  await first.close({ leaveRuns: true });
  const second = await realSupervisor({ home, instanceId: "in_stable" });
  const [run] = await second.recover();
  await run?.write("on\n");
  expect((await run?.wait())?.exit).toMatchObject({ reason: "exit", code: 2 });
});
