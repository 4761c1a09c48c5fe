import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { RunIo } from "../../../src/model/run.js";
import type { CommandInput } from "../../../src/supervisor/api.js";
import {
  TokenProcesses,
  scenarioScript,
  type ProcessRole,
} from "../../support/supervisor/token-processes.js";
import { signalProcess, type LiveProcess } from "../../support/live-processes.js";
import {
  nobodyUser,
  rootUser,
  Sandbox,
  tiers,
  type SandboxTier,
  type SandboxUser,
} from "../../support/sandbox.js";
import { LibraryProcess } from "../../support/supervisor/library-process.js";
import { scaled, soak } from "../../support/scale.js";
import { type End, ends } from "./run-ends.js";

const graceMs = 250;
const ownerLossMs = 250;
/** Time of a loaded machine beyond grace period and owner loss. */
const slackMs = 5_000;

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
      await using sandbox = Sandbox.create(user, tier);
      await using tokenProcesses = await TokenProcesses.withScenario(sandbox);
      await using libraryProcess = await LibraryProcess.open(sandbox);
      const { record } = await libraryProcess.spawn(
        { io, argv: ["sh", scenarioScript, tokenProcesses.token] } as CommandInput,
        {
          graceMs,
          ownerLossMs,
          labels: { crowd: tokenProcesses.token },
          ...end.options?.(),
        },
      );
      const roles = await tokenProcesses.waitForAllRoles();
      expect(roles.get("leader")?.pid).toBe(record.root?.pid);
      const began = performance.now();
      await end.cause(libraryProcess, record);

      if (end.orphaned === true) {
        await tokenProcesses.waitUntilGone(graceMs + ownerLossMs + slackMs);
        await using successor = await LibraryProcess.open(sandbox);
        successor.order("recover");
        await successor.receive("recovered");
        await checkFacts(successor, tokenProcesses, roles, { end, io, tier });
      } else {
        const ended = (await libraryProcess.receive("ended")).record;
        // At once: `proven` means this moment.
        expect(tokenProcesses.ofRuns()).toEqual([]);
        expect(performance.now() - began).toBeLessThan(scaled(2_000 + graceMs + slackMs));
        expect(ended).toMatchObject({ runId: record.runId, state: "exited" });
        await checkFacts(libraryProcess, tokenProcesses, roles, { end, io, tier });
      }
      expect(tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
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
  await setTimeout(graceMs);
  const survivors = tokenProcesses.ofRuns();
  expect(pids(survivors)).toEqual(new Set([roles.get("session")?.pid, roles.get("daemon")?.pid]));
  expect(tokenProcesses.missingBystanders()).toEqual([]);
  for (const survivor of survivors) signalProcess(survivor, "SIGKILL");
  await tokenProcesses.waitUntilGone(slackMs);
});

async function checkFacts(
  libraryProcess: LibraryProcess,
  tokenProcesses: TokenProcesses,
  roles: ReadonlyMap<ProcessRole, LiveProcess>,
  { end, io, tier }: { end: End; io: RunIo; tier: SandboxTier },
): Promise<void> {
  const { runs, events } = await libraryProcess.list();
  expect(runs).toHaveLength(1);
  const [run] = runs;
  expect(run).toMatchObject({ state: "exited", io, emptiness: "proven", exit: { ...end.exit, errno: null } });
  expect(run?.tier).toMatch(tier.recorded);
  const inCgroup = run?.tier?.startsWith("cgroup") === true;
  expect(run?.boundary?.cgroup !== null).toBe(inCgroup);
  // A weaker boundary always has a note.
  expect(run?.boundary?.note === null).toBe(inCgroup);

  const residue = run?.residue ?? [];
  const expected = (end.residue?.[io] ?? []).map((role) => ({
    pid: roles.get(role)?.pid ?? 0,
    startTime: roles.get(role)?.startTime ?? 0,
    kind: role === "plain" || role === "deaf" ? "background" : "detached",
    command: "sleep",
  }));
  // Without pidfds only the anchor's own children can be signalled, so other processes may outlive the leader.
  const numbersOnly = run?.tier?.endsWith("number") === true;
  if (numbersOnly) expect(residue).toEqual(expect.arrayContaining(expected));
  else expect(byPid(residue)).toEqual(byPid(expected));
  expect(run?.residueCount).toBe(residue.length);

  const types = events.map(({ type }) => type).filter((type) => type !== "output");
  expect(types.filter((type) => !numbersOnly || end.events.includes(type) || type !== "escape")).toEqual([
    "spawn",
    ...end.events,
  ]);
  const { reason, actor, code } = end.exit;
  expect(events.at(-1)).toMatchObject({
    type: "exit",
    rootPid: roles.get("leader")?.pid,
    data: { reason, actor, code, emptiness: "proven" },
  });
  for (const event of events) {
    if (event.type === "cancel") expect(event.data).toMatchObject({ reason, actor });
    if (event.type === "cleanup")
      expect(event.data).toMatchObject(
        end.residue === null ? { survivors: 0 } : { residue: residue.length, survivors: 0 },
      );
    if (event.type === "escape" && end.events.includes("escape"))
      expect(pids(event.data.residue)).toEqual(
        new Set([roles.get("session")?.pid, roles.get("daemon")?.pid]),
      );
  }
  if (end.residue !== null) expect(events.at(-1)?.descendants).toBeGreaterThanOrEqual(4);

  await libraryProcess.close();
  expect(libraryProcess.problems).toEqual([]);
  expect(tokenProcesses.ofRuns()).toEqual([]);
}

function pids(processes: readonly { readonly pid: number }[]): Set<number | undefined> {
  return new Set(processes.map(({ pid }) => pid));
}

function byPid<Process extends { readonly pid: number }>(residue: readonly Process[]): readonly Process[] {
  return residue.toSorted((one, other) => one.pid - other.pid);
}
