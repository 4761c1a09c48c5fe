import { readFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { OutputChunk, Run } from "../../../src/supervisor/api.js";
import { bytePattern, hash, numberedLines } from "../../support/byte-pattern.js";
import { scaled } from "../../support/scale.js";
import { readExitFile, spoolUsage } from "../../support/run-files.js";
import {
  findProcessesOfRun,
  plantLookalike,
  readOutput,
  realSupervisor,
  shellInput,
  temporaryHome,
} from "../../support/supervisor/real-supervisor.js";
import { waitFor, withTimeout } from "../../support/wait-for.js";
import { collect, joined, patternFile, type Stretch, stretch } from "./output-chunks.js";

const KIB = 1024;
const MIB = 1024 * KIB;

/** The bytes that a pipe holds between the program and its anchor. */
const PIPE = 64 * KIB;

describe("a stream that keeps the newest", () => {
  // Below the smallest limit of a spool, not a multiple of a segment, and the common case.
  test.each([1, 100_001, MIB])(
    "with a limit of %i bytes has exactly the newest bytes, and counts the dropped ones",
    async (boundBytes) => {
      const supervisor = await realSupervisor();
      const length = 3 * MIB + 17;
      const file = await patternFile(supervisor, length);
      const run = await supervisor.spawn(shellInput(`cat '${file}'; echo written >&2; read line`), {
        stdout: { policy: "keep-newest", boundBytes },
      });
      await waitFor(
        "the whole output in the spool",
        async () => (await spoolUsage(supervisor, run.runId)).end === length,
      );
      const least = 8 * KIB;
      const bound = Math.max(boundBytes, least);
      const onDisk = (await spoolUsage(supervisor, run.runId)).bytes;
      expect(onDisk).toBeLessThanOrEqual(bound);
      // Whole segments are dropped: an eighth of the limit, or a page.
      expect(onDisk).toBeGreaterThanOrEqual(bound - Math.max(bound / 8, 4 * KIB) - 1);
      await run.write("go\n");
      const kept = joined(await collect(run));
      await run.wait();
      expect(kept).toEqual(stretch(length - onDisk, length));
      expect(await readExitFile(supervisor, run.runId)).toMatchObject({
        stdout: { start: length - onDisk, end: length, dropped: length - onDisk },
      });
    },
  );

  test("gives a slow reader the kept bytes, each at its true offset", async () => {
    const supervisor = await realSupervisor();
    const file = await patternFile(supervisor, 4 * MIB);
    const run = await supervisor.spawn(shellInput(`for i in 1 2 3 4 5 6; do cat '${file}'; done`), {
      stdout: { policy: "keep-newest", boundBytes: 64 * KIB },
    });
    const wrong: number[] = [];
    let [at, gaps] = [0, 0];
    for await (const { offset, bytes } of run.follow({ streams: ["stdout"] })) {
      expect(offset).toBeGreaterThanOrEqual(at);
      if (offset > at) gaps += 1;
      // The file begins anew every 4 MiB.
      let done = 0;
      while (done < bytes.length) {
        const from = (offset + done) % (4 * MIB);
        const length = Math.min(bytes.length - done, 4 * MIB - from);
        if (!bytePattern(length, from).equals(bytes.subarray(done, done + length))) wrong.push(offset);
        done += length;
      }
      at = offset + bytes.length;
      await setTimeout(3);
    }
    expect({ wrong, at }).toEqual({ wrong: [], at: 24 * MIB });
    expect(gaps).toBeGreaterThan(0);
  });

  test("shows the same bytes to two readers, a late one, and the next supervisor", async () => {
    const home = await temporaryHome();
    const first = await realSupervisor({ home, instanceId: "in_same" });
    const length = 500_000;
    const file = await patternFile(first, length);
    const { runId } = await first.spawn(shellInput(`cat '${file}'; echo written >&2; read line; exit 4`), {
      stdout: { policy: "keep-newest", boundBytes: 100_000 },
    });
    const run = first.run(runId) ?? expect.fail("no such run");
    await waitFor(
      "the whole output in the spool",
      async () => (await spoolUsage(first, runId)).end === length,
    );
    const kept = (await spoolUsage(first, runId)).bytes;
    const wanted = stretch(length - kept, length);

    const readAll = async (reader: Run, pieces: number): Promise<Stretch> => {
      const chunks: OutputChunk[] = [];
      for (let offset = 0; ;) {
        const chunk = await reader.read("stdout", { offset, maxBytes: pieces });
        if (chunk.bytes.length === 0) return joined(chunks);
        chunks.push(chunk);
        offset = chunk.offset + chunk.bytes.length;
      }
    };
    expect(await Promise.all([readAll(run, 211), readAll(run, 65_536)])).toEqual([wanted, wanted]);
    await first.close({ leaveRuns: true });

    const second = await realSupervisor({ home, instanceId: "in_same" });
    const [again] = await second.recover();
    expect(again?.runId).toBe(runId);
    if (again === undefined) return;
    expect(await readAll(again, 4_097)).toEqual(wanted);
    await again.write("go\n");
    expect(joined(await collect(again))).toEqual(wanted);
    expect((await again.wait()).exit).toMatchObject({ reason: "exit", code: 4 });
    expect(joined(await collect(again))).toEqual(wanted);
  });
});

/** The bytes that the leader has written, read or not. */
async function writtenBy(run: Run): Promise<number> {
  const io = await readFile(`/proc/${run.rootPid ?? 0}/io`, "utf8");
  return Number(/^wchar: (\d+)$/m.exec(io)?.[1]);
}

async function sleeps(run: Run): Promise<boolean> {
  const stat = await readFile(`/proc/${run.rootPid ?? 0}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).startsWith("S");
}

async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s*(\d+) kB$/m.exec(status)?.[1]) * KIB;
}

describe("a stream with back-pressure", () => {
  test("makes the program wait at the limit, and continue exactly as far as output is acknowledged", async () => {
    const supervisor = await realSupervisor();
    const boundBytes = 256 * KIB;
    const file = await patternFile(supervisor, 4 * MIB);
    const run = await supervisor.spawn(
      { io: "pipe", argv: ["cat", file] },
      { stdout: { policy: "back-pressure", boundBytes } },
    );
    let acked = 0;
    for (const step of [0, 1, 100_000, 5 * KIB, 256 * KIB]) {
      acked += step;
      run.ack("stdout", acked);
      const full = acked + boundBytes;
      await waitFor(`${full} bytes in the spool`, async () => {
        return (await spoolUsage(supervisor, run.runId)).end === full;
      });
      await waitFor("the program waits", () => sleeps(run));
      expect(await writtenBy(run)).toBeLessThanOrEqual(full + PIPE + 4 * KIB);
      expect((await spoolUsage(supervisor, run.runId)).end).toBe(full);
    }
    const rest = joined(await collect(run, { ack: true, offsets: { stdout: acked } }));
    expect(rest).toEqual(stretch(acked, 4 * MIB));
    expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
    expect((await readExitFile(supervisor, run.runId)).stdout).toMatchObject({ end: 4 * MIB, dropped: 0 });
  });

  test("loses nothing to a slow reader, in bounded disk and memory", async () => {
    const supervisor = await realSupervisor();
    const boundBytes = 128 * KIB;
    const length = 6 * MIB;
    const file = await patternFile(supervisor, length);
    const run = await supervisor.spawn(shellInput(`cat '${file}'; cat '${file}' >&2`), {
      stdout: { policy: "back-pressure", boundBytes },
      stderr: { policy: "back-pressure", boundBytes },
    });
    const anchor = (await supervisor.getRun(run.runId))?.anchor?.pid ?? 0;
    const seen = { stdout: 0, stderr: 0 };
    let [disk, memory] = [0, 0];
    for await (const { stream, offset, bytes } of run.follow({ ack: true })) {
      expect(offset).toBe(seen[stream]);
      if (!bytePattern(bytes.length, offset).equals(bytes))
        expect.fail(`wrong bytes at ${offset} of ${stream}`);
      seen[stream] += bytes.length;
      disk = Math.max(disk, (await spoolUsage(supervisor, run.runId, stream)).bytes);
      if (run.state === "running") memory = Math.max(memory, await residentBytes(anchor).catch(() => 0));
      await setTimeout(1);
    }
    expect(seen).toEqual({ stdout: length, stderr: length });
    // Acknowledged bytes are removed by whole segments, an eighth of the limit; the last drain adds a pipe's content.
    expect(disk).toBeLessThanOrEqual(boundBytes + boundBytes / 8 + PIPE);
    expect(memory).toBeGreaterThan(0);
    expect(memory).toBeLessThanOrEqual(4 * MIB);
  });

  test("blocks only its own writes, not those of the other stream", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(shellInput("yes >&2 & seq 1 100000; kill $!; echo over"), {
      stderr: { policy: "back-pressure", boundBytes: 64 * KIB },
    });
    const { stdout } = await readOutput(run, { streams: ["stdout"] });
    expect(hash(stdout)).toBe(hash(`${numberedLines(100_000)}over\n`));
    await run.wait();
  });

  test("does not delay a cancel without acknowledgements; the output read before is kept", async () => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3041");
    const file = await patternFile(supervisor, 4 * MIB);
    const run = await supervisor.spawn(shellInput(`sleep 3041 & exec cat '${file}'`), {
      stdout: { policy: "back-pressure", boundBytes: 64 * KIB },
      graceMs: 20_000,
    });
    await waitFor("the limit", async () => (await spoolUsage(supervisor, run.runId)).end === 64 * KIB);
    await waitFor("the program waits", () => sleeps(run));
    const began = performance.now();
    await run.cancel({ actor: "test" });
    const record = await withTimeout(2_000, "the end", run.wait());
    expect(performance.now() - began).toBeLessThan(scaled(2_000));
    expect(record).toMatchObject({ exit: { reason: "manual-cancel", actor: "test", signal: "SIGTERM" } });
    // The stop lifts the limit for the bytes in the pipe.
    expect(joined(await collect(run))).toEqual(stretch(0, 64 * KIB + PIPE));
    expect(await findProcessesOfRun(run.runId)).toEqual([]);
  });

  test("blocks a program that writes at its end no longer than the grace period", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(
      shellInput("trap 'echo last words; exit 3' TERM; while :; do echo busy; done"),
      {
        stdout: { policy: "back-pressure", boundBytes: 64 * KIB },
        graceMs: 300,
      },
    );
    await waitFor("the limit", async () => (await spoolUsage(supervisor, run.runId)).end === 64 * KIB);
    await waitFor("the program waits", () => sleeps(run));
    await run.cancel();
    const record = await withTimeout(2_000, "the end", run.wait());
    expect(record).toMatchObject({ exit: { reason: "manual-cancel" }, emptiness: "proven" });
    const { stdout } = await readOutput(run, { streams: ["stdout"] });
    expect(stdout).toMatch(/^(?:busy\n)+(?:b|bu|bus|busy)?(?:last words\n)?$/);
  });

  test("stops the no-output clock while the program is blocked: with an owner, without one, and for the next", async () => {
    const home = await temporaryHome();
    const first = await realSupervisor({ home, instanceId: "in_same" });
    const noOutputTimeoutMs = 300;
    const file = await patternFile(first, MIB);
    const { runId } = await first.spawn(shellInput(`cat '${file}'; sleep 3042`), {
      stdout: { policy: "back-pressure", boundBytes: 64 * KIB },
      noOutputTimeoutMs,
      graceMs: 100,
    });
    await waitFor("the limit", async () => (await spoolUsage(first, runId)).end === 64 * KIB);
    // The anchor enforces the timeout `backstopMs` after the owner should have.
    await setTimeout(noOutputTimeoutMs + defaults.backstopMs + 500);
    expect(await first.getRun(runId)).toMatchObject({ state: "running" });
    await first.close({ leaveRuns: true });
    await setTimeout(2 * noOutputTimeoutMs);
    const second = await realSupervisor({ home, instanceId: "in_same" });
    const [run = expect.fail("not recovered")] = await second.recover();
    expect(run).toMatchObject({ state: "running", firstStop: null });
    const began = performance.now();
    expect(joined(await collect(run, { ack: true }))).toEqual(stretch(0, MIB));
    expect((await run.wait()).exit).toMatchObject({ reason: "no-output-timeout" });
    expect(performance.now() - began).toBeGreaterThanOrEqual(noOutputTimeoutMs - 1);
    expect(performance.now() - began).toBeLessThan(scaled(noOutputTimeoutMs + defaults.backstopMs));
  });
});
