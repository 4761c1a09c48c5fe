import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { TokenProcesses, scenarioScript } from "../../support/supervisor/token-processes.js";
import { signalProcess } from "../../support/live-processes.js";
import {
  nobodyUser,
  rootUser,
  Sandbox,
  tiers,
  type SandboxTier,
  type SandboxUser,
} from "../../support/sandbox.js";
import { soak } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";
import { checkNothingIsLeft, graceMs, slackMs } from "./check-end.js";
import { ends } from "./run-ends.js";

const everywhere: readonly (readonly [SandboxUser, SandboxTier])[] = [
  [rootUser, tiers.cgroup],
  [rootUser, tiers.none],
  [nobodyUser, tiers.cgroup],
  [nobodyUser, tiers.none],
];
const inPlaces: readonly (readonly [SandboxUser, SandboxTier])[] = [
  [rootUser, tiers.noInode],
  [rootUser, tiers.noPidfd],
  [rootUser, tiers.cgroupNoPidfd],
  [nobodyUser, tiers.noPidfd],
  [nobodyUser, tiers.noChildren],
  [nobodyUser, tiers.asFound],
];
const someEnds = ends.filter(({ name }) =>
  ["cancel", "leader exits, escapes fail", "SIGKILL of the supervisor", "SIGKILL of the anchor"].includes(
    name,
  ),
);

const matrix = [
  ...everywhere.flatMap(([user, tier], place) =>
    ends.flatMap((end, at) => {
      const isOrdinary = at % 4 === place || at % 4 === (place + 3) % 4;
      // The terminal does not depend on the user: one tier for each is enough.
      const hasTerminal =
        (user === rootUser) === (tier === tiers.cgroup) && (soak || someEnds.indexOf(end) % 2 === place % 2);
      return [
        ...(soak || isOrdinary ? [{ end, io: "pipe" as const, user, tier }] : []),
        ...(hasTerminal ? [{ end, io: "pty" as const, user, tier }] : []),
      ];
    }),
  ),
  ...inPlaces.flatMap(([user, tier], place) =>
    someEnds
      .filter((_, at) => soak || at === place % someEnds.length)
      .map((end) => ({ end, io: "pipe" as const, user, tier })),
  ),
];

describe.concurrent("nothing is left", () => {
  test.for(matrix.map((each) => [each.end.name, each.io, each.user.name, each.tier.name, each] as const))(
    "after %s: %s, %s, tier %s",
    async ([, , , , { end, io, user, tier }], { skip }) => {
      const whyNot = user.whyNot ?? tier.whyNot;
      if (whyNot !== null) skip(whyNot);
      await checkNothingIsLeft({ end, io, user, tier });
    },
  );
});

test("control: a signal to the process group leaves survivors, and this test finds them", async () => {
  await using sandbox = Sandbox.create({ name: "anybody", uid: null, whyNot: null }, tiers.none);
  await using tokenProcesses = await TokenProcesses.withScenario(sandbox);
  const leader = spawn("sh", [scenarioScript, tokenProcesses.token], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  const ended = once(leader, "exit");
  const roles = await tokenProcesses.waitForAllRoles();
  const group = -(leader.pid ?? Number.NaN);
  process.kill(group, "SIGTERM");
  await ended;
  await setTimeout(graceMs);
  process.kill(group, "SIGKILL");
  await waitFor("the process group is gone", () => tokenProcesses.ofRuns().length <= 2);
  const survivors = tokenProcesses.ofRuns();
  expect(pids(survivors)).toEqual(new Set([roles.get("session")?.pid, roles.get("daemon")?.pid]));
  expect(tokenProcesses.missingBystanders()).toEqual([]);
  for (const survivor of survivors) signalProcess(survivor, "SIGKILL");
  await tokenProcesses.waitUntilGone(slackMs);
});

function pids(processes: readonly { readonly pid: number }[]): Set<number | undefined> {
  return new Set(processes.map(({ pid }) => pid));
}
