import { spawn, spawnSync } from "node:child_process";
import { chownSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  isAlive,
  findByCommandLine,
  readProcess,
  signalProcess,
  type LiveProcess,
} from "../../support/live-processes.js";
import { asUserCommand, copySetuid, nobodyUser, Sandbox, tiers } from "../../support/sandbox.js";
import { RecoveryFixture } from "../../support/cli/recovery-fixture.js";
import { collectOutput, cliPath, type CliResult, type CliProcess } from "../../support/cli/cli-fixture.js";
import { scaled } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

/** A mount namespace whose /proc shows the processes of other users only to root. */
const hidden = (...words: readonly string[]): string[] => [
  "--mount",
  "--propagation=private",
  "sh",
  "-c",
  'mount -t proc -o hidepid=2 proc /proc && exec "$@"',
  "sh",
  ...words,
];

const whyNot =
  nobodyUser.whyNot ??
  (nobodyUser.uid === null
    ? "only root can make a program that becomes root"
    : spawnSync("unshare", hidden(...asUserCommand(nobodyUser.uid), "test", "!", "-e", "/proc/1")).status ===
        0
      ? null
      : "/proc cannot be mounted with hidepid here");

/** Many commands in a row, on a loaded machine. */
const TIMEOUT_MS = 180_000;
const GRACE_MS = 200;
/** The bound of every stopping command. Survivors are reported with the next sweep after grace and `killReportMs`. */
const ANSWER_MS = 20_000;

/** A state directory of an ordinary user; /proc hides the processes of other users from it. */
class HiddenFixture extends RecoveryFixture {
  readonly #weaken: string;
  readonly #cgroup: string | null;

  constructor(home: string, weaken: string, cgroup: string | null) {
    super(home);
    this.#weaken = weaken;
    this.#cgroup = cgroup;
  }

  /** `cgroup`: delegated to the user. */
  static async of(weaken: string, cgroup: string | null = null): Promise<HiddenFixture> {
    const home = await mkdtemp(join(tmpdir(), "hf-"));
    if (nobodyUser.uid !== null) chownSync(home, nobodyUser.uid, nobodyUser.uid);
    return new HiddenFixture(home, weaken, cgroup);
  }

  override get env(): NodeJS.ProcessEnv {
    return { ...super.env, HOME: this.home, HOLDFAST_ANCHOR_WEAKEN: this.#weaken };
  }

  override startWith(env: NodeJS.ProcessEnv, ...args: readonly string[]): CliProcess {
    const words = hidden(...asUserCommand(nobodyUser.uid ?? 0), process.execPath, cliPath, ...args);
    const enter = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', this.#cgroup ?? ""];
    const [command = "", ...rest] = [...(this.#cgroup === null ? [] : enter), "unshare", ...words];
    return collectOutput(
      spawn(command, rest, {
        env: { ...this.env, ...env },
        cwd: this.home,
        stdio: ["pipe", "pipe", "pipe"],
      }),
    );
  }
}

async function sleeper(seconds: string): Promise<LiveProcess> {
  const found = (): LiveProcess | undefined =>
    findByCommandLine(seconds).find(({ argv: [command] }) => command === "sleep");
  await waitFor(`sleep ${seconds} runs`, () => found() !== undefined);
  const one = found();
  if (one === undefined) throw new Error("it has ended");
  return one;
}

async function timed(finished: Promise<CliResult>): Promise<CliResult & { readonly tookMs: number }> {
  const began = performance.now();
  return { ...(await finished), tookMs: performance.now() - began };
}

describe.concurrent("a process of another user, hidden by hidepid=2", { timeout: TIMEOUT_MS }, () => {
  for (const [at, [name, weaken]] of [
    ["with unique ids", "cgroup"],
    ["without unique ids", "cgroup,inode"],
    ["without process handles", "cgroup,pidfd"],
  ].entries())
    test(`${name}: every view names it, cancel and abandon answer with it`, async ({ skip }) => {
      if (whyNot !== null) skip(whyNot);
      await using fixture = await HiddenFixture.of(weaken ?? "");
      const becomeRoot = copySetuid(fixture.home);
      if (becomeRoot === null) skip("the temporary directory does not allow setuid programs");
      const [secret, open] = [`7041.${at}${process.pid}`, `7042.${at}${process.pid}`];
      const gateway = await fixture.gateway();
      const script = `${becomeRoot} --reuid=0 sleep ${secret} & sleep ${open} & wait`;
      const started = await fixture.holdfast("run", "-d", "--", "sh", "-c", script);
      expect(started, started.stderr).toMatchObject({ code: 0 });
      const runId = started.stdout.trim();
      const foreign = await sleeper(secret);
      try {
        const { pid } = foreign;
        await sleeper(open);
        expect((await fixture.holdfast("ps")).stdout).toMatch(new RegExp(` ${pid} +[├└]─ \\(hidden\\)`));
        expect((await fixture.holdfast("runs", "show", runId)).stdout).toMatch(
          new RegExp(`─ ${pid} \\(hidden\\)`),
        );
        const who = await fixture.holdfast("who", String(pid));
        expect(who, who.stderr).toMatchObject({ code: 0 });
        expect(who.stdout).toContain(`${pid} is a process of ${runId}`);
        expect(who.stdout).toContain("hidden");
        expect((await fixture.holdfast("doctor")).stdout).toContain("hidepid");

        const cancelled = await timed(fixture.holdfast("runs", "cancel", runId, "--grace", `${GRACE_MS}ms`));
        expect(cancelled, cancelled.stderr).toMatchObject({ code: 3 });
        expect(cancelled.stdout).toContain(`  ${pid} (hidden: cannot be inspected)\n`);
        expect(cancelled.tookMs).toBeLessThan(scaled(ANSWER_MS));
        expect(isAlive(foreign)).toBe(true);
        expect(await fixture.record(runId)).toMatchObject({ state: "exiting", exit: null });
        expect((await fixture.holdfast("ps")).stdout).toContain(String(pid));

        const abandoned = await timed(fixture.holdfast("runs", "abandon", runId, "--yes"));
        expect(abandoned).toMatchObject({
          code: 0,
          stdout: `${runId} was abandoned; left: ${pid} (hidden: cannot be inspected)\n`,
        });
        expect(abandoned.tookMs).toBeLessThan(scaled(ANSWER_MS));
        const ended = await fixture.waitForEnd(runId);
        expect(ended).toMatchObject({ exit: { reason: "lost" }, emptiness: "unproven" });
        expect(ended.residue).toEqual([expect.objectContaining({ pid, kind: "hidden", command: "" })]);
        expect(isAlive(foreign)).toBe(true);
      } finally {
        signalProcess(foreign, "SIGKILL");
        await waitFor("it is gone", () => readProcess(foreign.pid) === null);
        await gateway.kill("SIGTERM");
      }
    });

  test("the run ends, proven empty, when it has gone", async ({ skip }) => {
    if (whyNot !== null) skip(whyNot);
    await using fixture = await HiddenFixture.of("cgroup,children");
    const becomeRoot = copySetuid(fixture.home);
    if (becomeRoot === null) skip("the temporary directory does not allow setuid programs");
    const secret = `7043.${process.pid}`;
    const gateway = await fixture.gateway();
    const script = `${becomeRoot} --reuid=0 sleep ${secret} & wait`;
    const runId = (await fixture.holdfast("run", "-d", "--", "sh", "-c", script)).stdout.trim();
    const foreign = await sleeper(secret);
    try {
      // Without children files the process is known to exist, but not which one it is.
      const cancelled = await timed(fixture.holdfast("runs", "cancel", runId, "--grace", `${GRACE_MS}ms`));
      expect(cancelled, cancelled.stderr).toMatchObject({ code: 3 });
      expect(cancelled.stdout).toContain("  a process that cannot be inspected\n");
      expect(cancelled.tookMs).toBeLessThan(scaled(ANSWER_MS));
      expect(isAlive(foreign)).toBe(true);
    } finally {
      signalProcess(foreign, "SIGKILL");
    }
    expect(await fixture.waitForEnd(runId)).toMatchObject({
      exit: { reason: "manual-cancel" },
      emptiness: "proven",
    });
    await gateway.kill("SIGTERM");
  });

  test("as the command itself: it is shown, and named when it survives", async ({ skip }) => {
    if (whyNot !== null) skip(whyNot);
    await using fixture = await HiddenFixture.of("cgroup");
    const becomeRoot = copySetuid(fixture.home);
    if (becomeRoot === null) skip("the temporary directory does not allow setuid programs");
    const secret = `7044.${process.pid}`;
    const gateway = await fixture.gateway();
    const command = [becomeRoot ?? "", "--reuid=0", "sleep", secret];
    const runId = (await fixture.holdfast("run", "-d", "--", ...command)).stdout.trim();
    const foreign = await sleeper(secret);
    try {
      const shown = await fixture.holdfast("runs", "show", runId);
      expect(shown.stdout).toMatch(new RegExp(`leader +pid ${foreign.pid}, .*: alive, verified`));
      expect(shown.stdout).toContain(`─ ${foreign.pid} (hidden)  (the command)`);
      const killed = await fixture.holdfast("process", "kill", runId, "--grace", `${GRACE_MS}ms`);
      expect(killed, killed.stderr).toMatchObject({ code: 3 });
      expect(killed.stdout).toContain(`  ${foreign.pid} (hidden: cannot be inspected)\n`);
      expect(isAlive(foreign)).toBe(true);
    } finally {
      signalProcess(foreign, "SIGKILL");
    }
    expect(await fixture.waitForEnd(runId)).toMatchObject({
      exit: { reason: "manual-cancel", signal: "SIGKILL" },
      emptiness: "proven",
    });
    await gateway.kill("SIGTERM");
  });

  test("is not taken for gone when its anchor dies: the end is unproven", async ({ skip }) => {
    if (whyNot !== null) skip(whyNot);
    await using fixture = await HiddenFixture.of("cgroup");
    const becomeRoot = copySetuid(fixture.home);
    if (becomeRoot === null) skip("the temporary directory does not allow setuid programs");
    const secret = `7045.${process.pid}`;
    const gateway = await fixture.gateway();
    const script = `${becomeRoot} --reuid=0 sleep ${secret} & wait`;
    const runId = (await fixture.holdfast("run", "-d", "--", "sh", "-c", script)).stdout.trim();
    const foreign = await sleeper(secret);
    try {
      const { anchor } = await fixture.record(runId);
      if (anchor !== null) signalProcess(anchor, "SIGKILL");
      expect(await fixture.waitForEnd(runId, 30_000)).toMatchObject({
        exit: { reason: "lost" },
        emptiness: "unproven",
      });
      expect(isAlive(foreign)).toBe(true);
    } finally {
      signalProcess(foreign, "SIGKILL");
    }
    await gateway.kill("SIGTERM");
  });

  test("in a cgroup of the run: it is shown, and the cgroup ends it", async ({ skip }) => {
    const why = whyNot ?? tiers.cgroup.whyNot;
    if (why !== null) skip(why);
    await using sandbox = Sandbox.create(nobodyUser, tiers.cgroup);
    await using fixture = await HiddenFixture.of("", sandbox.cgroup);
    const becomeRoot = copySetuid(fixture.home);
    if (becomeRoot === null) skip("the temporary directory does not allow setuid programs");
    const secret = `7046.${process.pid}`;
    const gateway = await fixture.gateway();
    const script = `${becomeRoot} --reuid=0 sleep ${secret} & wait`;
    const runId = (await fixture.holdfast("run", "-d", "--", "sh", "-c", script)).stdout.trim();
    const foreign = await sleeper(secret);
    expect((await fixture.record(runId)).tier).toMatch(tiers.cgroup.recorded);
    expect((await fixture.holdfast("ps")).stdout).toMatch(new RegExp(` ${foreign.pid} +[├└]─ \\(hidden\\)`));
    const cancelled = await fixture.holdfast("runs", "cancel", runId, "--grace", `${GRACE_MS}ms`);
    expect(cancelled, cancelled.stderr).toMatchObject({ code: 0 });
    expect(readProcess(foreign.pid)).toBeNull();
    expect(await fixture.waitForEnd(runId)).toMatchObject({ emptiness: "proven" });
    await gateway.kill("SIGTERM");
  });
});
