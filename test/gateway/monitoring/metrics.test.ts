import { expect, test } from "vitest";
import { TWO_PROCESSES } from "../../support/cli/recovery-fixture.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { scrapeMetrics, type MetricSeries } from "../../support/gateway/scrape-metrics.js";
import { waitFor } from "../../support/wait-for.js";

const SPAWNED = { holdfast_run_spawn_total: 1, holdfast_run_spawn_seconds_count: 1 };

test("each cause changes only its own metrics, once", async () => {
  await using fixture = await BackgroundGateway.started();
  const client = await fixture.client();
  let idle = "";
  await moves(
    fixture,
    "a start",
    { ...SPAWNED, 'holdfast_runs{state="running"}': 1, holdfast_processes: 1 },
    async () => {
      idle = await fixture.startScript("echo up; exec sleep 7001");
      await fixture.waitForOutput(idle, "up");
    },
  );
  const { boundary } = await fixture.record(idle);
  const killed = (boundary?.cgroup ?? null) === null ? "pid" : "cgroup";

  await moves(
    fixture,
    "a cancel",
    {
      'holdfast_run_exit_total{reason="manual-cancel"}': 1,
      holdfast_run_stop_seconds_count: 1,
      'holdfast_runs{state="running"}': -1,
      holdfast_processes: -1,
    },
    async () => {
      await client.kill({ params: { runId: idle }, body: {} });
    },
  );
  await moves(fixture, "an exit", { ...SPAWNED, 'holdfast_run_exit_total{reason="exit"}': 1 }, async () => {
    await client.exec({ body: { argv: ["true"] } });
  });
  await moves(
    fixture,
    "a signal",
    { ...SPAWNED, 'holdfast_run_exit_total{reason="signal"}': 1 },
    async () => {
      await client.exec({ body: { argv: ["sh", "-c", "kill -9 $$"] } });
    },
  );
  await moves(
    fixture,
    "a command that is not there",
    { 'holdfast_run_exit_total{reason="spawn-error"}': 1 },
    async () => {
      await client.exec({ body: { argv: ["/nowhere/at/all"] } });
    },
  );
  await moves(
    fixture,
    "its time is over",
    {
      ...SPAWNED,
      'holdfast_run_exit_total{reason="overall-timeout"}': 1,
      'holdfast_run_timeout_total{type="overall"}': 1,
      holdfast_run_stop_seconds_count: 1,
    },
    async () => {
      await client.exec({ body: { argv: ["sleep", "7003"], timeoutMs: 100, graceMs: 200 } });
    },
  );
  await moves(
    fixture,
    "it is silent for too long",
    {
      ...SPAWNED,
      'holdfast_run_exit_total{reason="no-output-timeout"}': 1,
      'holdfast_run_timeout_total{type="no_output"}': 1,
      holdfast_run_stop_seconds_count: 1,
    },
    async () => {
      await client.exec({ body: { argv: ["sleep", "7004"], noOutputTimeoutMs: 100, graceMs: 200 } });
    },
  );
  await moves(
    fixture,
    "two are left behind in the background",
    {
      ...SPAWNED,
      'holdfast_run_exit_total{reason="exit"}': 1,
      'holdfast_run_cleanup_kill_total{mode="pid"}': 2,
    },
    async () => {
      await client.exec({ body: { argv: ["sh", "-c", "sleep 7005 & sleep 7006 & exit 0"], graceMs: 200 } });
    },
  );
  await moves(
    fixture,
    "one is left behind that does not mind TERM",
    {
      ...SPAWNED,
      'holdfast_run_exit_total{reason="exit"}': 1,
      [`holdfast_run_cleanup_kill_total{mode="${killed}"}`]: 1,
    },
    async () => {
      const stubborn = "trap '' TERM; sleep 7008 & exit 0";
      await client.exec({ body: { argv: ["sh", "-c", stubborn], graceMs: 100 } });
    },
  );
  await moves(
    fixture,
    "one is left behind detached",
    {
      ...SPAWNED,
      'holdfast_run_exit_total{reason="ownership-escape"}': 1,
      holdfast_run_ownership_escape_total: 1,
      'holdfast_run_cleanup_kill_total{mode="pid"}': 1,
    },
    async () => {
      await client.exec({ body: { argv: ["sh", "-c", "setsid sleep 7007 & sleep 0.1"], graceMs: 200 } });
    },
  );
  await moves(
    fixture,
    "a run is taken from a killed supervisor",
    {
      ...SPAWNED,
      holdfast_run_reconcile_orphans_total: 1,
      holdfast_run_lease_steal_total: 1,
      'holdfast_runs{state="running"}': 1,
      holdfast_processes: 3,
    },
    async () => {
      const [runId = ""] = await fixture.leaveOrphans([TWO_PROCESSES]);
      await waitFor("it is taken over", async () => (await fixture.record(runId)).leaseEpoch === 2, 30_000);
    },
  );
});

/** Waits until these have moved that far; by then nothing else may have moved. */
async function moves(
  fixture: BackgroundGateway,
  cause: string,
  expected: Readonly<Record<string, number>>,
  act: () => Promise<void>,
): Promise<void> {
  const before = await scrapeMetrics(fixture);
  await act();
  let moved: Readonly<Record<string, number>> = {};
  await waitFor(`${cause} is counted`, async () => {
    moved = difference(before, await scrapeMetrics(fixture));
    return Object.entries(expected).every(([name, by]) => (moved[name] ?? 0) >= by);
  });
  expect(moved, cause).toEqual(expected);
}

function difference(before: MetricSeries, after: MetricSeries): Record<string, number> {
  // Tasks have a test of their own; the age of a renewal moves by itself.
  const names = [...after.keys()].filter(
    (name) => !/_bucket|_sum|^holdfast_task|^holdfast_store_renewal_age/.test(name),
  );
  return Object.fromEntries(
    names
      .map((name) => [name, (after.get(name) ?? 0) - (before.get(name) ?? 0)] as const)
      .filter(([, by]) => by !== 0),
  );
}
