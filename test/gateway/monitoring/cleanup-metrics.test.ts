import { expect, test } from "vitest";
import { signalProcess } from "../../support/live-processes.js";
import { tiers } from "../../support/sandbox.js";
import { waitForRunEnd, gatewayForFile, shellCommand } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile();

/** Processes ended besides the leader, by how they were. */
async function cleaned(): Promise<Record<string, number>> {
  const { text } = await fixture.raw("GET", "/metrics");
  const lines = [...text.matchAll(/^holdfast_run_cleanup_kill_total\{mode="(\w+)"\} (\d+)$/gm)];
  const counts = lines.map(([, mode = "", count]) => [mode, Number(count)] as const);
  return Object.fromEntries(counts.filter(([, count]) => count > 0));
}

test("cleaned-up processes are counted by how they were killed", async ({ skip }) => {
  if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
  expect(await cleaned()).toEqual({});

  // Nothing is left, so nothing is cleaned up.
  await fixture.client.exec({ body: { argv: ["true"] } });
  // Those who go when they are asked are asked one by one.
  await fixture.client.exec({ body: shellCommand("sleep 3017 & sleep 3017 & exit 0") });
  await waitFor("two are counted", async () => (await cleaned())["pid"] === 2);
  expect(await cleaned()).toEqual({ pid: 2 });

  await fixture.client.exec({ body: { ...shellCommand("sleep 3017 & exit 0"), graceMs: 0 } });
  await waitFor("one more is counted", async () => (await cleaned())["cgroup"] === 1);

  // Those of a stopped run that go when they are asked, the leader not counted.
  const stopped = await fixture.client.exec({
    body: { ...shellCommand("sleep 3017 & sleep 3017 & echo up; wait"), background: true },
  });
  const { runId } = stopped.run;
  await fixture.client.poll({ params: { runId }, query: { waitMs: 10_000 } });
  expect(await fixture.client.kill({ params: { runId }, body: {} })).toMatchObject({
    outcome: "gone",
  });
  await waitFor("two more are counted", async () => (await cleaned())["pid"] === 4);

  // The launcher kills the processes that a dead anchor leaves, the leader included.
  const { run } = await fixture.client.exec({ body: { argv: ["sleep", "3017"], background: true } });
  if (run.anchor === null) throw new Error("no anchor");
  signalProcess(run.anchor, "SIGKILL");
  expect((await waitForRunEnd(fixture.client, run.runId)).exit).toMatchObject({ reason: "lost" });
  await waitFor("the launcher's is counted", async () => (await cleaned())["cgroup"] === 2);
  expect(await cleaned()).toEqual({ pid: 4, cgroup: 2 });
});
