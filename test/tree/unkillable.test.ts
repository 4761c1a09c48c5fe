import { mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import type { RunRecord } from "../../src/store/run-record.js";
import { Crowd } from "./crowd.js";
import { isAlive, look, signal, until, type Living } from "./living.js";
import { copySetuid, nobody, root, Seat, tiers } from "./seat.js";
import { Supervised } from "./supervised.js";

const freezers = "/sys/fs/cgroup/freezer";
const graceMs = 200;
/** What is said of survivors comes with the next sweep after `killReportMs`, and sweeps are at most a second apart. */
const reportWithinMs = graceMs + defaults.killReportMs + 3_000;

/** A version-1 freezer, unlike today's, holds on to whoever is in it even against KILL. */
class Freezer implements AsyncDisposable {
  readonly #path = join(freezers, `hf-test-${randomBytes(6).toString("hex")}`);

  static readonly whyNot = ((): string | null => {
    if (root.whyNot !== null) return root.whyNot;
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

  freeze({ pid }: Living): void {
    writeFileSync(join(this.#path, "cgroup.procs"), String(pid));
    writeFileSync(join(this.#path, "freezer.state"), "FROZEN");
  }

  thaw(): void {
    writeFileSync(join(this.#path, "freezer.state"), "THAWED");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.thaw();
    await until("the freezer is empty", () => removeDirectory(this.#path));
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
      await using seat = Seat.take(root, tier);
      await using crowd = await Crowd.ofSleeper(seat);
      await using freezer = new Freezer();
      await using supervised = await Supervised.open(seat);
      const { record } = await startTwo(supervised, `sleep 100001.${crowd.token}`);
      const frozen = await sleeper(crowd);
      freezer.freeze(frozen);
      supervised.cancel({ actor: "test:me" });
      await staysExiting(supervised, record, {
        pid: frozen.pid,
        startTime: frozen.startTime,
        kind: "unkillable",
      });
      expect(isAlive(frozen)).toBe(true);
      freezer.thaw();
      await endsProven(supervised, crowd, { pid: frozen.pid, kind: "unkillable" });
    });

  test("of another user, without a cgroup: the run stays exiting and names it", async ({ skip }) => {
    if (nobody.whyNot !== null) skip(nobody.whyNot);
    if (nobody.uid === null) skip("only root can make a program that becomes root");
    await using seat = Seat.take(nobody, tiers.none);
    const becomeRoot = copySetuid(seat.directory);
    if (becomeRoot === null) skip("the temporary directory does not allow setuid programs");
    await using crowd = await Crowd.ofSleeper(seat);
    await using supervised = await Supervised.open(seat);
    const { record } = await startTwo(supervised, `${becomeRoot} --reuid=0 sleep 100001.${crowd.token}`);
    const foreign = await sleeper(crowd);
    supervised.cancel({ actor: "test:me" });
    const { pid, startTime } = foreign;
    await staysExiting(supervised, record, { pid, startTime, kind: "foreign-uid" });
    expect(isAlive(foreign)).toBe(true);
    signal(foreign, "SIGKILL");
    await endsProven(supervised, crowd, { pid, kind: "foreign-uid" });
  });

  test("of another user, in a cgroup: the cgroup kills it all the same", async ({ skip }) => {
    const whyNot = nobody.whyNot ?? tiers.cgroup.whyNot;
    if (whyNot !== null) skip(whyNot);
    if (nobody.uid === null) skip("only root can make a program that becomes root");
    await using seat = Seat.take(nobody, tiers.cgroup);
    const becomeRoot = copySetuid(seat.directory);
    if (becomeRoot === null) skip("the temporary directory does not allow setuid programs");
    await using crowd = await Crowd.ofSleeper(seat);
    await using supervised = await Supervised.open(seat);
    await startTwo(supervised, `${becomeRoot} --reuid=0 sleep 100001.${crowd.token}`);
    await sleeper(crowd);
    supervised.cancel({ actor: "test:me" });
    await endsProven(supervised, crowd, null);
  });

  test("is not claimed to be gone when its anchor is killed: the launcher stays until it is", async ({
    skip,
  }) => {
    if (Freezer.whyNot !== null) skip(Freezer.whyNot);
    await using seat = Seat.take(root, tiers.none);
    await using crowd = await Crowd.ofSleeper(seat);
    await using freezer = new Freezer();
    await using supervised = await Supervised.open(seat);
    const { record } = await startTwo(supervised, `sleep 100001.${crowd.token}`);
    const frozen = await sleeper(crowd);
    freezer.freeze(frozen);
    if (record.anchor !== null) signal(record.anchor, "SIGKILL");
    const ended = (await supervised.hear("ended")).record;
    expect(ended).toMatchObject({ exit: { reason: "lost" }, emptiness: "unproven" });
    expect(crowd.others().map(({ pid }) => pid)).toEqual([frozen.pid]);
    await supervised.close();
    expect(launchers(seat)).toHaveLength(1);
    freezer.thaw();
    await crowd.gone(5_000);
    expect(crowd.missing(), "the bystander").toEqual([]);
  });
});

function launchers(seat: Seat): Living[] {
  return seat.machinery().filter(({ argv }) => argv[1] === "launch");
}

/** A leader that dies of TERM, and this beside it. */
async function startTwo(supervised: Supervised, background: string): Promise<{ record: RunRecord }> {
  return supervised.spawn({ io: "pipe", argv: ["sh", "-c", `${background} & read -r _`] }, { graceMs });
}

async function sleeper(crowd: Crowd): Promise<Living> {
  return until("the sleeper sleeps", () => crowd.others().find(({ argv: [command] }) => command === "sleep"));
}

async function staysExiting(
  supervised: Supervised,
  { anchor }: RunRecord,
  survivor: { readonly pid: number; readonly startTime: number; readonly kind: string },
): Promise<void> {
  const began = performance.now();
  const { message } = await supervised.hear("problem", reportWithinMs);
  expect(performance.now() - began).toBeGreaterThan(graceMs + defaults.killReportMs - 100);
  expect(message).toContain(String(survivor.pid));
  const { state, survivors, record } = await supervised.look();
  expect(state).toBe("exiting");
  expect(survivors).toEqual([{ ...survivor, command: "sleep" }]);
  expect(record).toMatchObject({ state: "exiting", exit: null, emptiness: null, endedAt: null });
  expect(look(anchor?.pid ?? 0)?.startTime).toBe(anchor?.startTime);
}

async function endsProven(
  supervised: Supervised,
  crowd: Crowd,
  survivor: { readonly pid: number; readonly kind: string } | null,
): Promise<void> {
  const { record } = await supervised.hear("ended");
  expect(crowd.others(), "survivors").toEqual([]);
  expect(record).toMatchObject({
    state: "exited",
    emptiness: "proven",
    exit: { reason: "manual-cancel", actor: "test:me", signal: "SIGTERM" },
  });
  if (survivor !== null) expect(record.residue).toEqual([expect.objectContaining(survivor)]);
  const { events } = await supervised.list();
  expect(events.filter(({ type }) => type === "exit")).toHaveLength(1);
  await supervised.close();
  expect(crowd.missing(), "the bystander").toEqual([]);
}
