import { expect } from "vitest";
import type { RunIo } from "../../../src/model/run.js";
import type { CommandInput } from "../../../src/supervisor/api.js";
import type { LiveProcess } from "../../support/live-processes.js";
import { Sandbox, type SandboxTier, type SandboxUser } from "../../support/sandbox.js";
import { scaled } from "../../support/scale.js";
import { LibraryProcess } from "../../support/supervisor/library-process.js";
import {
  type ProcessRole,
  scenarioScript,
  TokenProcesses,
} from "../../support/supervisor/token-processes.js";
import type { End } from "./run-ends.js";

export const graceMs = 250;
const ownerLossMs = 250;
/** Time of a loaded machine beyond grace period and owner loss. */
export const slackMs = 5_000;

interface EndCase {
  readonly end: End;
  readonly io: RunIo;
  readonly user: SandboxUser;
  readonly tier: SandboxTier;
}

/** Runs the scenario, ends it, and checks that no process is left but the bystanders, and what the record says. */
export async function checkNothingIsLeft({ end, io, user, tier }: EndCase): Promise<void> {
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
}

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
  const bounded = /^(?:cgroup|lineage)/.test(run?.tier ?? "");
  expect(run?.boundary?.cgroup !== null).toBe(bounded);
  // A weaker boundary always has a note.
  expect(run?.boundary?.note === null).toBe(bounded);

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
  // Without a subreaper only the processes that lived at one time are counted, not those that were reaped.
  const counted = tier.name === "lineage" ? residue.length - 1 : 4;
  if (end.residue !== null) expect(events.at(-1)?.descendants).toBeGreaterThanOrEqual(counted);

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
