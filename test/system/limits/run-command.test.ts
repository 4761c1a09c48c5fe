import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import { whyNoLimits } from "../../support/anchor/cgroups.js";
import { CliFixture } from "../../support/cli/cli-fixture.js";
import { tiers } from "../../support/sandbox.js";

const hog = fileURLToPath(new URL("children/hog.mjs", import.meta.url));

test("`holdfast run --memory` reports the limit that ended the run, and `runs show` its limit and usage", async ({
  skip,
}) => {
  const whyNot = whyNoLimits ?? tiers.cgroup.whyNot;
  if (whyNot !== null) skip(whyNot);
  await using cliFixture = await CliFixture.open();
  const command = ["--memory", "64M", "--pids", "50", "--json", "--", process.execPath, hog, "256"];
  const { code, stdout, stderr } = await cliFixture.holdfast("run", ...command);
  const { runId, limits, exit, usage } = JSON.parse(stdout) as RunRecord;
  expect({ code, stderr }).toEqual({
    code: 137,
    stderr: "holdfast: ended by signal SIGKILL: over its memory limit of 64 MiB (--memory)\n",
  });
  expect(limits).toEqual({ memoryBytes: 64 * 1024 ** 2, pids: 50, cpus: null });
  expect(exit).toMatchObject({ reason: "signal", limitHit: "memory" });
  expect(usage?.peakTasks).toBeGreaterThan(1);
  const shown = (await cliFixture.holdfast("runs", "show", runId)).stdout;
  expect(shown).toMatch(/^ {2}limits +memory 64 MiB, 50 pids$/m);
  expect(shown).toMatch(/^ {2}limit hit +memory$/m);
  expect(shown).toMatch(
    /^ {2}usage .* of CPU, .* MiB at its peak, processes seen: 1, at most \d+ at one time/m,
  );
});
