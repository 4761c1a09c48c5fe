import { mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { RunRecord } from "../../../src/model/run.js";
import { TokenProcesses } from "../../support/supervisor/token-processes.js";
import { isAlive, readProcess, signalProcess, type LiveProcess } from "../../support/live-processes.js";
import { copySetuid, nobodyUser, rootUser, Sandbox, tiers } from "../../support/sandbox.js";
import { LibraryProcess } from "../../support/supervisor/library-process.js";
import { waitFor } from "../../support/wait-for.js";

const freezers = "/sys/fs/cgroup/freezer";
const graceMs = 200;
/** The report about survivors comes with the next sweep after `killReportMs`, and sweeps are at most a second apart. */
const reportWithinMs = graceMs + defaults.killReportMs + 3_000;

/** A version-1 freezer, unlike that of version 2, holds its processes even against KILL. */
class Freezer implements AsyncDisposable {
  readonly #path = join(freezers, `hf-test-${randomBytes(6).toString("hex")}`);

  static readonly whyNot = ((): string | null => {
    if (rootUser.whyNot !== null) return rootUser.whyNot;
    const probe = join(freezers, `hf-probe-${randomBytes(4).toString("hex")}`);
    try {
      mkdirSync(probe);
      writeFileSync(join(probe, "freezer.state"), "THAWED");
      return null;
    } catch {
      return "there is no version-1 freezer cgroup to make a process unkillable with";
    } finally {
      removeDirectory(probe);
    }
  })();

  constructor() {
    mkdirSync(this.#path);
  }

  freeze({ pid }: LiveProcess): void {
    writeFileSync(join(this.#path, "cgroup.procs"), String(pid));
    writeFileSync(join(this.#path, "freezer.state"), "FROZEN");
  }

  thaw(): void {
    writeFileSync(join(this.#path, "freezer.state"), "THAWED");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.thaw();
    await waitFor("the freezer is empty", () => removeDirectory(this.#path));
  }
}

function removeDirectory(path: string): boolean {
  try {
    rmdirSync(path);
    return true;
  } catch {
    return false;
  }
}

describe.concurrent("a process that cannot be killed", () => {
  for (const tier of [tiers.cgroup, tiers.none])
    test(`keeps its run exiting, is named, and the run ends when it has gone, tier ${tier.name}`, async ({
      skip,
    }) => {
      const whyNot = Freezer.whyNot ?? tier.whyNot;
      if (whyNot !== null) skip(whyNot);
      await using sandbox = Sandbox.create(rootUser, tier);
      await using tokenProcesses = await TokenProcesses.withSleeper(sandbox);
      await using freezer = new Freezer();
      await using libraryProcess = await LibraryProcess.open(sandbox);
      const { record } = await startTwo(libraryProcess, `sleep 100001.${tokenProcesses.token}`);
      const frozen = await sleeper(tokenProcesses);
      freezer.freeze(frozen);
      libraryProcess.cancel({ actor: "test:me" });
      await staysExiting(libraryProcess, record, {
        pid: frozen.pid,
        startTime: frozen.startTime,
        kind: "unkillable",
      });
      expect(isAlive(frozen)).toBe(true);
      freezer.thaw();
      await endsProven(libraryProcess, tokenProcesses, { pid: frozen.pid, kind: "unkillable" });
    });

  test("of another user, without a cgroup: the run stays exiting and names it", async ({ skip }) => {
    if (nobodyUser.whyNot !== null) skip(nobodyUser.whyNot);
    if (nobodyUser.uid === null) skip("only root can make a program that becomes root");
    await using sandbox = Sandbox.create(nobodyUser, tiers.none);
    const becomeRoot = copySetuid(sandbox.directory);
    if (becomeRoot === null) skip("the temporary directory does not allow setuid programs");
    await using tokenProcesses = await TokenProcesses.withSleeper(sandbox);
    await using libraryProcess = await LibraryProcess.open(sandbox);
    const { record } = await startTwo(
      libraryProcess,
      `${becomeRoot} --reuid=0 sleep 100001.${tokenProcesses.token}`,
    );
    const foreign = await sleeper(tokenProcesses);
    libraryProcess.cancel({ actor: "test:me" });
    const { pid, startTime } = foreign;
    await staysExiting(libraryProcess, record, { pid, startTime, kind: "foreign-uid" });
    expect(isAlive(foreign)).toBe(true);
    signalProcess(foreign, "SIGKILL");
    await endsProven(libraryProcess, tokenProcesses, { pid, kind: "foreign-uid" });
  });

  test("of another user, in a cgroup: the cgroup kills it all the same", async ({ skip }) => {
    const whyNot = nobodyUser.whyNot ?? tiers.cgroup.whyNot;
    if (whyNot !== null) skip(whyNot);
    if (nobodyUser.uid === null) skip("only root can make a program that becomes root");
    await using sandbox = Sandbox.create(nobodyUser, tiers.cgroup);
    const becomeRoot = copySetuid(sandbox.directory);
    if (becomeRoot === null) skip("the temporary directory does not allow setuid programs");
    await using tokenProcesses = await TokenProcesses.withSleeper(sandbox);
    await using libraryProcess = await LibraryProcess.open(sandbox);
    await startTwo(libraryProcess, `${becomeRoot} --reuid=0 sleep 100001.${tokenProcesses.token}`);
    await sleeper(tokenProcesses);
    libraryProcess.cancel({ actor: "test:me" });
    await endsProven(libraryProcess, tokenProcesses, null);
  });

  test("is not claimed to be gone when its anchor is killed: the launcher stays until it is", async ({
    skip,
  }) => {
    if (Freezer.whyNot !== null) skip(Freezer.whyNot);
    await using sandbox = Sandbox.create(rootUser, tiers.none);
    await using tokenProcesses = await TokenProcesses.withSleeper(sandbox);
    await using freezer = new Freezer();
    await using libraryProcess = await LibraryProcess.open(sandbox);
    const { record } = await startTwo(libraryProcess, `sleep 100001.${tokenProcesses.token}`);
    const frozen = await sleeper(tokenProcesses);
    freezer.freeze(frozen);
    if (record.anchor !== null) signalProcess(record.anchor, "SIGKILL");
    const ended = (await libraryProcess.receive("ended")).record;
    expect(ended).toMatchObject({ exit: { reason: "lost" }, emptiness: "unproven" });
    expect(tokenProcesses.ofRuns().map(({ pid }) => pid)).toEqual([frozen.pid]);
    await libraryProcess.close();
    expect(launchers(sandbox)).toHaveLength(1);
    freezer.thaw();
    await tokenProcesses.waitUntilGone(5_000);
    expect(tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
  });
});

function launchers(sandbox: Sandbox): LiveProcess[] {
  return sandbox.holdfastProcesses().filter(({ argv }) => argv[1] === "launch");
}

/** A leader that dies of TERM, and this beside it. */
async function startTwo(libraryProcess: LibraryProcess, background: string): Promise<{ record: RunRecord }> {
  return libraryProcess.spawn({ io: "pipe", argv: ["sh", "-c", `${background} & read -r _`] }, { graceMs });
}

async function sleeper(tokenProcesses: TokenProcesses): Promise<LiveProcess> {
  return waitFor("the sleeper sleeps", () =>
    tokenProcesses.ofRuns().find(({ argv: [command] }) => command === "sleep"),
  );
}

async function staysExiting(
  libraryProcess: LibraryProcess,
  { anchor }: RunRecord,
  survivor: { readonly pid: number; readonly startTime: number; readonly kind: string },
): Promise<void> {
  const began = performance.now();
  const { message } = await libraryProcess.receive("problem", reportWithinMs);
  expect(performance.now() - began).toBeGreaterThan(graceMs + defaults.killReportMs - 100);
  expect(message).toContain(String(survivor.pid));
  const { state, survivors, record } = await libraryProcess.inspect();
  expect(state).toBe("exiting");
  expect(survivors).toEqual([{ ...survivor, command: "sleep" }]);
  expect(record).toMatchObject({ state: "exiting", exit: null, emptiness: null, endedAt: null });
  expect(readProcess(anchor?.pid ?? 0)?.startTime).toBe(anchor?.startTime);
}

async function endsProven(
  libraryProcess: LibraryProcess,
  tokenProcesses: TokenProcesses,
  survivor: { readonly pid: number; readonly kind: string } | null,
): Promise<void> {
  const { record } = await libraryProcess.receive("ended");
  expect(tokenProcesses.ofRuns(), "survivors").toEqual([]);
  expect(record).toMatchObject({
    state: "exited",
    emptiness: "proven",
    exit: { reason: "manual-cancel", actor: "test:me", signal: "SIGTERM" },
  });
  if (survivor !== null) expect(record.residue).toEqual([expect.objectContaining(survivor)]);
  const { events } = await libraryProcess.list();
  expect(events.filter(({ type }) => type === "exit")).toHaveLength(1);
  await libraryProcess.close();
  expect(tokenProcesses.missingBystanders(), "the bystander").toEqual([]);
}
