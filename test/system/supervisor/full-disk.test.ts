import { readdir, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { OPEN_RUN_STATES } from "../../../src/model/run.js";
import type { Run, SpawnOptions, Supervisor } from "../../../src/supervisor/api.js";
import { openSupervisor } from "../../../src/supervisor/open.js";
import { bytePattern, hash } from "../../support/byte-pattern.js";
import { scaled } from "../../support/scale.js";
import { readExitFile, spoolUsage } from "../../support/run-files.js";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import {
  findProcessesOfRun,
  plantLookalike,
  shellInput,
  temporaryHome,
} from "../../support/supervisor/real-supervisor.js";
import { waitFor, withTimeout } from "../../support/wait-for.js";

const MIB = 1024 * 1024;

/** A supervisor whose state directory is on a disk of 8 MiB. */
class FullDisk {
  readonly supervisor: Supervisor;
  readonly #filler: string;
  readonly #elsewhere: string;

  private constructor(supervisor: Supervisor, filler: string, elsewhere: string) {
    this.supervisor = supervisor;
    this.#filler = filler;
    this.#elsewhere = elsewhere;
  }

  static async open(): Promise<FullDisk> {
    const disk = mountSmallDisk("8m");
    onTestFinished(() => disk[Symbol.asyncDispose]());
    // Failed writes to the store are expected.
    const supervisor = await openSupervisor({ home: disk.path, onProblem: () => {} });
    const full = new FullDisk(supervisor, join(disk.path, "..", "filler"), await temporaryHome());
    onTestFinished(async () => {
      await full.free();
      await supervisor.close();
    });
    return full;
  }

  /** Fills the disk except for `left` bytes. */
  async fill(left: number): Promise<void> {
    await writeFile(this.#filler, Buffer.alloc(8 * MIB)).catch(() => {});
    const { size } = await stat(this.#filler);
    await truncate(this.#filler, Math.max(0, size - left));
  }

  async free(): Promise<void> {
    await truncate(this.#filler, 0).catch(() => {});
  }

  /** Starts a script that can read `$file`, a file of the pattern on another disk, once the disk is filled. */
  async startOn(left: number, length: number, script: string, options: SpawnOptions = {}): Promise<Run> {
    const file = join(this.#elsewhere, "pattern");
    await writeFile(file, bytePattern(length));
    const run = await this.supervisor.spawn(shellInput(`file='${file}'; read line; ${script}`), options);
    await this.fill(left);
    await run.write("go\n");
    return run;
  }

  async waitUntilSpoolStops(run: Run, least: number): Promise<number> {
    let stored = 0;
    await waitFor("the spool has stopped growing", async () => {
      const before = stored;
      stored = (await spoolUsage(this.supervisor, run.runId)).end;
      return stored > least && stored === before;
    });
    return stored;
  }
}

const BACK_PRESSURE = { stdout: { policy: "back-pressure" } } as const;

describe.skipIf(whyNoMounts !== null)("on a full disk", () => {
  test("a start ends with a clear error or a run, whichever step finds no room", async () => {
    const disk = await FullDisk.open();
    const { supervisor } = disk;
    await (await supervisor.spawn({ io: "pipe", argv: ["true"] })).wait();
    for (let left = 0; left <= 96 * 1024; left += 4 * 1024) {
      await disk.fill(left);
      const answer = await withTimeout(
        5_000,
        `an answer with ${left} bytes left`,
        supervisor.spawn(shellInput("exit 3")).catch((error: unknown) => error),
      );
      await disk.free();
      if (answer instanceof Error)
        expect(answer, `${left} left`).toMatchObject({
          code: expect.stringMatching(/^(?:STATE_UNUSABLE|SPAWN_FAILED|ANCHOR_UNUSABLE)$/) as string,
          message: expect.stringMatching(/no space|full|ENOSPC/i) as string,
        });
      // With space again, the pending writes are repeated.
      else
        expect(await withTimeout(8_000, `the end with ${left} left`, (answer as Run).wait())).toMatchObject({
          exit: { reason: "exit", code: 3 },
        });
    }
    await waitFor(
      "every run has ended",
      async () => (await supervisor.listRuns({ states: OPEN_RUN_STATES })).length === 0,
    );
    const records = await supervisor.listRuns();
    for (const { exit } of records) expect(["exit", "spawn-error"]).toContain(exit?.reason);
    // A run without a record leaves no directory.
    const directories = await readdir(join(supervisor.home, "instances", supervisor.instanceId, "runs"));
    // The directories of warm anchors begin with a dot.
    const ofRuns = directories.filter((name) => !name.startsWith("."));
    expect(ofRuns.filter((id) => !records.some(({ runId }) => runId === id))).toEqual([]);
  });

  test("a spool that keeps the newest output ends with the run; kept bytes are true, lost ones counted", async () => {
    const disk = await FullDisk.open();
    const length = 12 * MIB;
    const run = await disk.startOn(2 * MIB, length, 'cat "$file"; exit 3');
    await waitFor("the program has ended", async () => (await findProcessesOfRun(run.runId)).length === 0);
    await disk.free();
    const record = await withTimeout(8_000, "the end", run.wait());
    expect(record).toMatchObject({ exit: { reason: "exit", code: 3 }, emptiness: "proven" });
    let at = 0;
    for await (const { offset, bytes } of run.follow({ streams: ["stdout"] })) {
      expect(offset).toBeGreaterThanOrEqual(at);
      expect(hash(bytes)).toBe(hash(bytePattern(bytes.length, offset)));
      at = offset + bytes.length;
    }
    const { stdout } = await readExitFile(disk.supervisor, run.runId).catch(() => ({ stdout: null }));
    if (stdout !== null) expect(stdout).toMatchObject({ end: length, dropped: stdout.start });
  });

  test("a stop of a run with back-pressure works at once, and unacknowledged output is kept", async () => {
    const disk = await FullDisk.open();
    plantLookalike("sleep", "3072");
    const options = { ...BACK_PRESSURE, graceMs: 200 };
    const run = await disk.startOn(2 * MIB, 4 * MIB, 'sleep 3072 & exec cat "$file"', options);
    const stored = await disk.waitUntilSpoolStops(run, MIB);
    expect(stored).toBeLessThan(3 * MIB);
    const began = performance.now();
    await run.cancel({ actor: "test" });
    await waitFor("no process of it is left", async () => (await findProcessesOfRun(run.runId)).length === 0);
    expect(performance.now() - began).toBeLessThan(scaled(3_000));
    await disk.free();
    const record = await withTimeout(8_000, "the end on record", run.wait());
    expect(record).toMatchObject({ exit: { reason: "manual-cancel", actor: "test" }, emptiness: "proven" });
    const chunks = [];
    for await (const chunk of run.follow({ streams: ["stdout"] })) chunks.push(chunk);
    const kept = Buffer.concat(chunks.map(({ bytes }) => bytes));
    expect(chunks[0]?.offset).toBe(0);
    expect(kept.length).toBeGreaterThanOrEqual(stored);
    expect(hash(kept)).toBe(hash(bytePattern(kept.length)));
  });

  test("a run with back-pressure continues without loss when there is space again", async () => {
    const disk = await FullDisk.open();
    const run = await disk.startOn(MIB, 4 * MIB, 'exec cat "$file"', BACK_PRESSURE);
    await disk.waitUntilSpoolStops(run, MIB / 2);
    await disk.free();
    const parts: Uint8Array[] = [];
    for await (const { bytes } of run.follow({ streams: ["stdout"], ack: true })) parts.push(bytes);
    expect(hash(Buffer.concat(parts))).toBe(hash(bytePattern(4 * MIB)));
    expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
  });

  test("neither supervisor nor anchor takes withheld output for silence of the program", async () => {
    const disk = await FullDisk.open();
    const noOutputTimeoutMs = 1_000;
    const options = { ...BACK_PRESSURE, noOutputTimeoutMs, graceMs: 100 };
    const run = await disk.startOn(MIB, 4 * MIB, 'cat "$file"; exit 3', options);
    await disk.waitUntilSpoolStops(run, MIB / 2);
    // Both deadlines would have fired by then.
    await new Promise((resolve) => setTimeout(resolve, noOutputTimeoutMs + defaults.backstopMs + 400));
    expect.soft(run.firstStop).toBeNull();
    await disk.free();
    for await (const _ of run.follow({ ack: true })) continue;
    expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 3 });
  });
});
