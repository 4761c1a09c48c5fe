import { spawn, spawnSync } from "node:child_process";
import { mkdtemp } from "node:fs/promises";
import { tmpdir, uptime } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readProcess } from "../../support/live-processes.js";
import { RecoveryFixture, GatewayRun, TWO_PROCESSES } from "../../support/cli/recovery-fixture.js";
import { collectOutput, cliPath, type CliResult, type CliProcess } from "../../support/cli/cli-fixture.js";
import { soak } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

const unshare = (seconds: number): string[] => [
  "--time",
  `--monotonic=${seconds}`,
  `--boottime=${seconds}`,
  "--",
];

const whyNot =
  spawnSync("unshare", [...unshare(100_000), "true"]).status === 0
    ? null
    : "time namespaces cannot be made here";

/** `holdfast` on the same state directory, in a time namespace whose clocks differ by so many seconds. */
class Elsewhen {
  readonly #field: RecoveryFixture;
  readonly #seconds: number;

  constructor(fixture: RecoveryFixture, seconds: number) {
    this.#field = fixture;
    this.#seconds = seconds;
  }

  startWith(env: NodeJS.ProcessEnv, ...args: readonly string[]): CliProcess {
    const words = [...unshare(this.#seconds), process.execPath, cliPath, ...args];
    return collectOutput(
      spawn("unshare", words, { env: { ...this.#field.env, ...env }, stdio: ["pipe", "pipe", "pipe"] }),
    );
  }

  async holdfast(...args: readonly string[]): Promise<CliResult> {
    const { child, finished } = this.startWith({}, ...args);
    child.stdin.end();
    return finished;
  }

  async json<Value>(...args: readonly string[]): Promise<Value> {
    const { stdout, stderr, code } = await this.holdfast(...args, "--json");
    if (stdout === "") throw new Error(`${args.join(" ")} ended with ${code}: ${stderr}`);
    return JSON.parse(stdout) as Value;
  }

  async gateway(): Promise<GatewayRun & AsyncDisposable> {
    const gateway = new GatewayRun(this, {});
    await gateway.ready;
    return Object.assign(gateway, { [Symbol.asyncDispose]: async () => void (await gateway.kill()) });
  }
}

class WeakField extends RecoveryFixture {
  static override async open(): Promise<WeakField> {
    return new WeakField(await mkdtemp(join(tmpdir(), "hf-")));
  }

  /** As on a kernel before 6.9: only start times tell processes with the same number apart. */
  override get env(): NodeJS.ProcessEnv {
    return { ...super.env, HOLDFAST_ANCHOR_WEAKEN: "inode,cgroup" };
  }
}

/** A task and a service of the gateway that runs. */
async function startTwo(fixture: RecoveryFixture): Promise<[task: string, service: string]> {
  const task = await fixture.holdfast("run", "-d", "--", "sh", "-c", TWO_PROCESSES);
  const service = await fixture.holdfast("run", "--service", "--", "sh", "-c", TWO_PROCESSES);
  expect([task.code, service.code], task.stderr + service.stderr).toEqual([0, 0]);
  return [task.stdout.trim(), service.stdout.trim()];
}

async function areAlive(fixture: RecoveryFixture, ...runIds: readonly string[]): Promise<void> {
  for (const runId of runIds) {
    await waitFor(
      `${runId} has its three processes`,
      async () => (await fixture.membersOf(runId)).length === 3,
    );
    expect(await fixture.record(runId)).toMatchObject({ state: "running", exit: null });
  }
}

const OFFSETS = [
  ["ahead", () => 100_000],
  ["behind", () => -Math.floor(uptime() / 2)],
] as const;

/** Many commands in a row, on a loaded machine. */
const TIMEOUT_MS = 180_000;

describe("in another time namespace", { timeout: TIMEOUT_MS }, () => {
  for (const [where, offset] of OFFSETS) {
    for (const [name, open, told] of [
      ["unique ids", () => RecoveryFixture.open(), true],
      ["start times only", () => WeakField.open(), false],
    ] as const) {
      if (!soak && told !== (where === "ahead")) continue;
      test(`whose clocks are ${where}, with ${name}: no other process takes runs of a live gateway, and every command works`, async ({
        skip,
      }) => {
        if (whyNot !== null) skip(whyNot);
        await using fixture = await open();
        const elsewhen = new Elsewhen(fixture, offset());
        const gateway = await fixture.gateway();
        const [task, service] = await startTwo(fixture);
        await areAlive(fixture, task, service);
        const before = await Promise.all([fixture.record(task), fixture.record(service)]);

        expect(await elsewhen.holdfast("runs", "cleanup", "--all-orphans", "--yes")).toMatchObject({
          code: 0,
          stderr: "holdfast: there is nothing to clean up\n",
        });
        expect(await elsewhen.holdfast("run", "--in-process", "--", "sh", "-c", "exit 7")).toMatchObject({
          code: 7,
          stderr: "",
        });
        await areAlive(fixture, task, service);
        for (const { runId, ownerInstanceId, leaseEpoch } of before)
          expect(await fixture.record(runId)).toMatchObject({ ownerInstanceId, leaseEpoch });

        const shown = await elsewhen.holdfast("runs", "show", task);
        expect(shown).toMatchObject({ code: 0, stderr: "" });
        expect(shown.stdout).not.toMatch(/unowned|: gone|none is alive/);
        expect(shown.stdout).toMatch(told ? /─ \d+ sleep/ : /not inspected: .* another time namespace/);
        const { stdout: ps } = await elsewhen.holdfast("ps");
        expect(ps).not.toContain("unowned");
        // The gateway answers. It can compare its own times even where this command line cannot.
        expect(ps).toMatch(/─ sleep/);
        const [pid = 0] = await fixture.membersOf(service);
        expect(await elsewhen.json("who", String(pid))).toMatchObject({ verified: told, runId: service });
        expect(await elsewhen.holdfast("process", "kill", task)).toMatchObject({ code: 0 });
        expect(await fixture.waitForEnd(task)).toMatchObject({
          exit: { reason: "manual-cancel" },
          emptiness: "proven",
        });
        expect(await elsewhen.holdfast("runs", "cancel", service)).toMatchObject({ code: 0 });
        expect(await fixture.waitForEnd(service)).toMatchObject({ exit: { reason: "manual-cancel" } });
        await gateway.kill("SIGTERM");
      });
    }

    if (!soak && where === "behind") continue;
    test(`whose clocks are ${where}, the next gateway continues every run, and so does a later one in the initial namespace`, async ({
      skip,
    }) => {
      if (whyNot !== null) skip(whyNot);
      await using fixture = await RecoveryFixture.open();
      const elsewhen = new Elsewhen(fixture, offset());
      const first = await fixture.gateway();
      const [task, service] = await startTwo(fixture);
      await areAlive(fixture, task, service);
      await first.kill();
      const at = async (from: { json: RecoveryFixture["json"] }): Promise<unknown> =>
        (
          await from.json<{ runs: { runId: string; decision: object }[] }>(
            "runs",
            "cleanup",
            "--all-orphans",
            "--dry-run",
          )
        ).runs.map(({ runId, decision }) => ({ runId, decision }));
      expect(await at(elsewhen)).toEqual(await at(fixture));
      await using second = await elsewhen.gateway();
      expect(await second.waitForEvent("ready")).toMatchObject({ held: 2 });
      await areAlive(fixture, task, service);
      await second.kill();
      const third = await fixture.gateway();
      expect(await third.waitForEvent("ready")).toMatchObject({ held: 2 });
      await areAlive(fixture, task, service);
      for (const runId of [task, service])
        expect(await fixture.holdfast("process", "kill", runId)).toMatchObject({ code: 0 });
      expect(third.events.filter(({ type }) => type === "problem")).toEqual([]);
      await third.kill("SIGTERM");
    });

    test(`whose clocks are ${where}, a process known by its start time only is left alone when nothing answers for it`, async ({
      skip,
    }) => {
      if (whyNot !== null) skip(whyNot);
      await using fixture = await WeakField.open();
      const elsewhen = new Elsewhen(fixture, offset());
      const [runId = ""] = await fixture.leaveOrphans([TWO_PROCESSES]);
      const { anchor, root } = await fixture.record(runId);
      process.kill(readProcess(anchor?.pid ?? 0)?.parentPid ?? 0, "SIGKILL");
      process.kill(anchor?.pid ?? 0, "SIGKILL");
      await waitFor("the anchor is gone", async () => readProcess(anchor?.pid ?? 0) === null);
      const left = await elsewhen.holdfast("runs", "cleanup", "--all-orphans", "--yes");
      expect(left.code).toBe(3);
      expect(left.stdout).toContain("another time namespace");
      expect(readProcess(root?.pid ?? 0)?.startTime).toBe(root?.startTime);
      expect(await fixture.record(runId)).toMatchObject({ state: "running", exit: null });
      const ended = await fixture.holdfast("runs", "cleanup", "--all-orphans", "--yes");
      expect(ended.stdout).toContain("emptiness unproven");
      expect(readProcess(root?.pid ?? 0)).toBeNull();
      expect(await fixture.record(runId)).toMatchObject({ state: "exited", exit: { reason: "lost" } });
      // Without a cgroup the one in a session of its own is not found; it is the test's to end.
      for (const pid of await fixture.membersOf(runId)) process.kill(pid, "SIGKILL");
    });
  }
});
