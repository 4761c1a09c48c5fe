import { expect, test } from "vitest";
import type { PsRow } from "../../../src/cli/runs/ps-table.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { findByCommandLine } from "../../support/live-processes.js";
import { waitFor } from "../../support/wait-for.js";

test("holdfast service adopt, of a process and of a run", async () => {
  await using gatewayFixture = await BackgroundGateway.started();
  const run = await gatewayFixture.startScript("sh -c 'sleep 7311 & wait' & sleep 7312 & wait");
  const find = (number: number) => findByCommandLine(`sleep\0${number}`)[0];
  await waitFor("all are there", () => find(7311) !== undefined && find(7312) !== undefined);
  const sleeper = find(7311);
  const parent = sleeper?.parentPid ?? 0;

  const { code, stdout, stderr } = await gatewayFixture.holdfast("service", "adopt", String(parent));
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^run_\w{12}\n$/) as string });
  expect(stderr).toContain(`its stdout is a pipe of ${run}`);
  const service = stdout.trim();

  const rows = await gatewayFixture.json<PsRow[]>("ps");
  const processes = Object.fromEntries(
    rows.map((row) => [row.runId, row.processes.map(({ command }) => command)]),
  );
  expect(processes).toEqual({ [run]: ["sh", "sleep"], [service]: ["sh", "sleep"] });
  expect((await gatewayFixture.holdfast("runs", "show", service)).stdout).not.toContain(
    `${find(7312)?.pid} sleep`,
  );
  const who = await gatewayFixture.json<{ runId: string }>("who", String(sleeper?.pid));
  expect(who.runId).toBe(service);

  // It is the first process of a run now.
  expect(await gatewayFixture.holdfast("service", "adopt", String(parent))).toMatchObject({
    code: 2,
    stdout: "",
  });

  expect(await gatewayFixture.holdfast("service", "adopt", run)).toMatchObject({
    code: 0,
    stdout: `${run}\n`,
  });
  expect(await gatewayFixture.record(run)).toMatchObject({ kind: "service" });
  for (const runId of [run, service])
    expect((await gatewayFixture.holdfast("service", "stop", runId, "--grace", "0")).code).toBe(0);
  expect([find(7311), find(7312)]).toEqual([undefined, undefined]);
});
