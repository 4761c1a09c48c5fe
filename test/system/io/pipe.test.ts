import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { StdinClosed } from "../../../src/errors.js";
import { Utf8Decoder } from "../../../src/text/utf8.js";
import type { OutputChunk, Run, Supervisor } from "../../../src/supervisor/api.js";
import type { FollowOptions } from "../../../src/supervisor/run-options.js";
import {
  plantLookalike,
  waitForOutput,
  findProcessesOfRun,
  realSupervisor,
  shellInput,
  temporaryHome,
  readOutput,
} from "../../support/supervisor/real-supervisor.js";
import { hash, numberedLines, bytePattern } from "../../support/byte-pattern.js";
import { readExitFile, spoolUsage } from "../../support/run-files.js";
import { scaled } from "../../support/scale.js";
import { waitFor, withTimeout } from "../../support/wait-for.js";

const KIB = 1024;
const MIB = 1024 * KIB;

/** What a pipe holds between the program and its anchor. */
const PIPE = 64 * KIB;

/** A file with `length` bytes of the pattern, for programs to print. */
async function patternFile({ home }: Supervisor, length: number): Promise<string> {
  const path = join(home, `pattern-${length}`);
  await writeFile(path, bytePattern(length));
  return path;
}

async function collect(run: Run, options: FollowOptions = {}): Promise<OutputChunk[]> {
  const chunks: OutputChunk[] = [];
  for await (const chunk of run.follow({ streams: ["stdout"], ...options })) chunks.push(chunk);
  return chunks;
}

interface Stretch {
  readonly start: number;
  readonly end: number;
  readonly hash: string;
}

/** All chunks as one, which they must be. */
function joined(chunks: readonly OutputChunk[]): Stretch {
  const bytes = Buffer.concat(chunks.map((chunk) => chunk.bytes));
  const start = chunks[0]?.offset ?? 0;
  for (const [at, chunk] of chunks.entries()) {
    const before = chunks[at - 1];
    if (before !== undefined) expect(chunk.offset).toBe(before.offset + before.bytes.length);
  }
  return { start, end: start + bytes.length, hash: hash(bytes) };
}

/** The pattern from `start` to `end`. */
function stretch(start: number, end: number): Stretch {
  return { start, end, hash: hash(bytePattern(end - start, start)) };
}

describe("a stream that keeps the newest", () => {
  // Below the least the spool can do, not a multiple of a segment, and the common case.
  test.each([1, 10_000, 64 * KIB, 100_001, MIB])(
    "bound to %i bytes: what is kept is the newest, exactly, and the rest is counted",
    async (boundBytes) => {
      const supervisor = await realSupervisor();
      const length = 3 * MIB + 17;
      const file = await patternFile(supervisor, length);
      const run = await supervisor.spawn(shellInput(`cat '${file}'; echo written >&2; read line`), {
        stdout: { policy: "keep-newest", boundBytes },
      });
      for await (const _ of run.follow({ streams: ["stderr"] })) break;
      await waitFor(
        "all of it in the spool",
        async () => (await spoolUsage(supervisor, run.runId)).end === length,
      );
      const least = 8 * KIB;
      const bound = Math.max(boundBytes, least);
      const onDisk = (await spoolUsage(supervisor, run.runId)).bytes;
      expect(onDisk).toBeLessThanOrEqual(bound);
      // It goes by whole segments, an eighth of the bound or a page each.
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

  test("gives a reader that is too slow what is there, each byte at its true offset", async () => {
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

  test("shows the same bytes to two readers, a late one, and a supervisor that takes over", async () => {
    const home = await temporaryHome();
    const first = await realSupervisor({ home, instanceId: "in_same" });
    const length = 500_000;
    const file = await patternFile(first, length);
    const { runId } = await first.spawn(shellInput(`cat '${file}'; echo written >&2; read line; exit 4`), {
      stdout: { policy: "keep-newest", boundBytes: 100_000 },
    });
    const run = first.run(runId) ?? expect.fail("it is not there");
    await waitFor("all of it in the spool", async () => (await spoolUsage(first, runId)).end === length);
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

/** How much the run's first process has written, whether or not anybody has read it. */
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
  test("makes the program wait at the bound, and go on exactly as far as is acked", async () => {
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
      // cat writes up to 128 KiB at once; the part of it that is in the pipe is counted when all of it is.
      await waitFor("the program waits", () => sleeps(run));
      const written = await writtenBy(run);
      expect(written).toBeLessThanOrEqual(full + PIPE + 4 * KIB);
      await setTimeout(50);
      expect([await writtenBy(run), (await spoolUsage(supervisor, run.runId)).end]).toEqual([written, full]);
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
    // Acked bytes go by whole segments, an eighth of the bound each; the last drain takes a pipe's worth more.
    expect(disk).toBeLessThanOrEqual(boundBytes + boundBytes / 8 + PIPE);
    expect(memory).toBeGreaterThan(0);
    expect(memory).toBeLessThanOrEqual(4 * MIB);
  });

  test("holds back only itself: the other stream flows", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(shellInput("yes >&2 & seq 1 100000; kill $!; echo over"), {
      stderr: { policy: "back-pressure", boundBytes: 64 * KIB },
    });
    const { stdout } = await readOutput(run, { streams: ["stdout"] });
    expect(hash(stdout)).toBe(hash(`${numberedLines(100_000)}over\n`));
    await run.wait();
  });

  test("does not delay a cancel, although nobody ever acks; what was read before is kept", async () => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3041");
    const file = await patternFile(supervisor, 4 * MIB);
    const run = await supervisor.spawn(shellInput(`sleep 3041 & exec cat '${file}'`), {
      stdout: { policy: "back-pressure", boundBytes: 64 * KIB },
      graceMs: 20_000,
    });
    await waitFor("the bound", async () => (await spoolUsage(supervisor, run.runId)).end === 64 * KIB);
    await waitFor("the program waits", () => sleeps(run));
    const began = performance.now();
    await run.cancel({ actor: "test" });
    const record = await withTimeout(2_000, "the end", run.wait());
    expect(performance.now() - began).toBeLessThan(scaled(2_000));
    expect(record).toMatchObject({ exit: { reason: "manual-cancel", actor: "test", signal: "SIGTERM" } });
    // The stop lifts the bound for what the pipe still held.
    expect(joined(await collect(run))).toEqual(stretch(0, 64 * KIB + PIPE));
    expect(await findProcessesOfRun(run.runId)).toEqual([]);
  });

  test("holds a program that writes as it ends no longer than its grace, although nobody acks", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(
      shellInput("trap 'echo last words; exit 3' TERM; while :; do echo busy; done"),
      {
        stdout: { policy: "back-pressure", boundBytes: 64 * KIB },
        graceMs: 300,
      },
    );
    await waitFor("the bound", async () => (await spoolUsage(supervisor, run.runId)).end === 64 * KIB);
    await waitFor("the program waits", () => sleeps(run));
    await run.cancel();
    const record = await withTimeout(2_000, "the end", run.wait());
    expect(record).toMatchObject({ exit: { reason: "manual-cancel" }, emptiness: "proven" });
    const { stdout } = await readOutput(run, { streams: ["stdout"] });
    expect(stdout).toMatch(/^(?:busy\n)+(?:b|bu|bus|busy)?(?:last words\n)?$/);
  });

  test("stops the clock of silence while it withholds reading, for owner and anchor, and then starts it", async () => {
    const supervisor = await realSupervisor();
    const noOutputTimeoutMs = 300;
    const file = await patternFile(supervisor, MIB);
    const run = await supervisor.spawn(shellInput(`cat '${file}'; sleep 3042`), {
      stdout: { policy: "back-pressure", boundBytes: 64 * KIB },
      noOutputTimeoutMs,
      graceMs: 100,
    });
    await waitFor("the bound", async () => (await spoolUsage(supervisor, run.runId)).end === 64 * KIB);
    // The anchor enforces it `backstopMs` after the owner should have: past that, neither has.
    await setTimeout(noOutputTimeoutMs + defaults.backstopMs + 500);
    expect(run.state).toBe("running");
    expect(run.firstStop).toBeNull();
    const began = performance.now();
    expect(joined(await collect(run, { ack: true })).end).toBe(MIB);
    expect((await run.wait()).exit).toMatchObject({ reason: "no-output-timeout" });
    expect(performance.now() - began).toBeGreaterThanOrEqual(noOutputTimeoutMs - 1);
    expect(performance.now() - began).toBeLessThan(scaled(noOutputTimeoutMs + defaults.backstopMs));
  });

  test("stops the clock of silence also when its owner is gone, and for the next one", async () => {
    const home = await temporaryHome();
    const first = await realSupervisor({ home, instanceId: "in_same" });
    const file = await patternFile(first, MIB);
    const { runId } = await first.spawn(shellInput(`cat '${file}'; exit 8`), {
      stdout: { policy: "back-pressure", boundBytes: 64 * KIB },
      noOutputTimeoutMs: 200,
    });
    await waitFor("the bound", async () => (await spoolUsage(first, runId)).end === 64 * KIB);
    await first.close({ leaveRuns: true });
    await setTimeout(600);
    const second = await realSupervisor({ home, instanceId: "in_same" });
    const [run] = await second.recover();
    await setTimeout(600);
    expect((await second.getRun(runId))?.exit).toBeNull();
    if (run === undefined) return;
    expect(joined(await collect(run, { ack: true }))).toEqual(stretch(0, MIB));
    expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 8 });
  });
});

describe("input", () => {
  test("of 10 MiB goes through cat byte for byte, however slowly it is read", async () => {
    const supervisor = await realSupervisor();
    const length = 10 * MIB;
    const run = await supervisor.spawn(
      { io: "pipe", argv: ["cat"] },
      { stdout: { policy: "back-pressure", boundBytes: 256 * KIB } },
    );
    const written = (async () => {
      const sent = bytePattern(length);
      // Pieces of every kind: one byte, a few, more than a frame, more than the anchor holds.
      const sizes = [1, 5, 4_096, 65_537, 300_001];
      for (let at = 0, turn = 0; at < length; turn += 1) {
        const piece = sent.subarray(at, at + (sizes[turn % sizes.length] ?? 1));
        await run.write(piece);
        at += piece.length;
      }
      await run.closeStdin();
    })();
    let [at, turn] = [0, 0];
    for await (const { offset, bytes } of run.follow({ streams: ["stdout"], ack: true })) {
      expect(offset).toBe(at);
      if (!bytePattern(bytes.length, offset).equals(bytes)) expect.fail(`wrong bytes at ${offset}`);
      at += bytes.length;
      turn += 1;
      if (turn % 8 === 0) await setTimeout(5);
    }
    await written;
    expect(at).toBe(length);
    expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 0 });
  });

  test("is held back by a program that does not read, and taken when it does", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(shellInput("echo ready; kill -STOP $$; exec sha256sum"));
    await waitForOutput(run, "ready");
    const length = 2 * MIB;
    let done = false;
    const written = run.write(bytePattern(length)).then(() => (done = true));
    written.catch(() => {});
    await waitFor("the program has stopped itself", async () => {
      const stat = await readFile(`/proc/${run.rootPid ?? 0}/stat`, "utf8");
      return stat.slice(stat.lastIndexOf(")") + 2).startsWith("T");
    });
    await setTimeout(100);
    expect(done).toBe(false);
    process.kill(run.rootPid ?? 0, "SIGCONT");
    await written;
    await run.closeStdin();
    expect((await readOutput(run)).stdout).toBe(`ready\n${hash(bytePattern(length))}  -\n`);
    await run.wait();
  });

  test("that nobody will read is refused to its writer, and the run is none the worse", async () => {
    const supervisor = await realSupervisor();
    const refused = async (run: Run, what: string): Promise<void> => {
      const answer = withTimeout(5_000, what, run.write(bytePattern(MIB)));
      await expect(answer, what).rejects.toBeInstanceOf(StdinClosed);
      await expect(answer, what).rejects.toMatchObject({ code: "STDIN_CLOSED", runId: run.runId });
      // To close what is closed is no mistake.
      await run.closeStdin();
    };
    const alive = await supervisor.spawn(
      shellInput("exec <&-; echo ready; sleep 0.4; echo still here; exit 3"),
    );
    await waitForOutput(alive, "ready");
    await refused(alive, "a program that closed it");
    expect((await readOutput(alive)).stdout).toBe("ready\nstill here\n");
    expect((await alive.wait()).exit).toMatchObject({ reason: "exit", code: 3 });
    await refused(alive, "a run that has ended");

    const leaving = await supervisor.spawn(shellInput("head -c 100000 >/dev/null; exit 4"));
    await refused(leaving, "a program that leaves in the middle");
    expect((await leaving.wait()).exit).toMatchObject({ reason: "exit", code: 4 });

    const none = await supervisor.spawn(shellInput("cat; exit 5"), { stdin: "null" });
    await refused(none, "a run without input");
    expect((await none.wait()).exit).toMatchObject({ reason: "exit", code: 5 });

    const closed = await supervisor.spawn(shellInput("cat >/dev/null; exit 6"));
    await closed.closeStdin();
    await refused(closed, "what we closed ourselves");
    expect((await closed.wait()).exit).toMatchObject({ reason: "exit", code: 6 });
  });
});

describe("who holds the output open does not hang the end", () => {
  test.each([
    ["a background job", "sleep 3043 & exit 3", "exit", "background"],
    [
      "one that ignores TERM",
      "(trap '' TERM; echo deaf; sleep 3043 & wait) & sleep 0.1; exit 3",
      "exit",
      "background",
    ],
    ["one that writes without end", "yes & exit 3", "exit", "background"],
    ["a daemon", "setsid sleep 3043 & exit 3", "ownership-escape", "detached"],
  ])("%s", async (_, script, reason, kind) => {
    const supervisor = await realSupervisor();
    plantLookalike("sleep", "3043");
    const run = await supervisor.spawn(shellInput(script), { graceMs: 200 });
    const ended = collect(run);
    const record = await withTimeout(3_000, "the end", run.wait());
    await withTimeout(1_000, "the end of the output", ended);
    expect(record).toMatchObject({ exit: { reason, code: 3 }, emptiness: "proven" });
    expect(new Set(record.residue.map((each) => each.kind))).toEqual(new Set([kind]));
    expect(await findProcessesOfRun(run.runId)).toEqual([]);
  });

  test("a stranger outside the run, who is left alone", async () => {
    const supervisor = await realSupervisor();
    const run = await supervisor.spawn(shellInput("echo ready; read line; echo last words; exit 3"));
    await waitForOutput(run, "ready");
    const stranger = spawn(
      "sh",
      ["-c", `exec 3>/proc/$0/fd/1; echo holding; exec sleep 3044`, String(run.rootPid)],
      { stdio: ["ignore", "pipe", "ignore"] },
    );
    onTestFinished(() => void stranger.kill("SIGKILL"));
    await once(stranger.stdout, "data");
    await run.write("go\n");
    const record = await withTimeout(defaults.drainMs + 3_000, "the end", run.wait());
    expect(record).toMatchObject({ exit: { reason: "exit", code: 3 }, residueCount: 0, emptiness: "proven" });
    expect((await readOutput(run)).stdout).toBe("ready\nlast words\n");
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
  });
});

describe("bytes", () => {
  test("of all 256 values pass unchanged, in both directions and on both streams", async () => {
    const supervisor = await realSupervisor();
    const all = Buffer.from(Array.from({ length: 256 }, (_, value) => value));
    const run = await supervisor.spawn(shellInput("tee /dev/stderr"));
    await run.write(all);
    await run.closeStdin();
    const parts: Record<"stdout" | "stderr", Uint8Array[]> = { stdout: [], stderr: [] };
    for await (const { stream, bytes } of run.follow()) parts[stream].push(bytes);
    expect(Buffer.concat(parts.stdout)).toEqual(all);
    expect(Buffer.concat(parts.stderr)).toEqual(all);
  });

  test("of a character that is cut by chunks, segments or writes still make that character", async () => {
    const supervisor = await realSupervisor();
    // 1, 2, 3 and 4 bytes: no border falls on the same place of a character twice in a row.
    const text = "aß€𝄞".repeat(3_000);
    const file = join(supervisor.home, "text");
    await writeFile(file, text);
    // Segments of 4 KiB; the program writes 7 bytes at a time for a while.
    const run = await supervisor.spawn(
      shellInput(`dd if='${file}' bs=7 count=300 status=none; tail -c +2101 '${file}'`),
      {
        stdout: { policy: "back-pressure", boundBytes: 8 * KIB },
      },
    );
    const decoder = new Utf8Decoder();
    let [followed, chunks] = ["", 0];
    for await (const { bytes } of run.follow({ streams: ["stdout"], ack: true })) {
      followed += decoder.push(bytes);
      chunks += 1;
    }
    expect(followed + decoder.end()).toBe(text);
    expect(chunks).toBeGreaterThan(2);
    await run.wait();

    const again = await supervisor.spawn({ io: "pipe", argv: ["cat", file] });
    await again.wait();
    for (const maxBytes of [1, 2, 3, 5, 4_095]) {
      const reader = new Utf8Decoder();
      let read = "";
      for (let offset = 0; offset < 3_000; offset += maxBytes)
        read += reader.push(
          (await again.read("stdout", { offset, maxBytes: Math.min(maxBytes, 3_000 - offset) })).bytes,
        );
      expect(read + reader.end()).toBe("aß€𝄞".repeat(300));
    }
  });

  test("of two streams that are merged come as one, in the order in which they were written", async () => {
    const supervisor = await realSupervisor();
    const script = "i=0; while [ $i -lt 2000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    const run = await supervisor.spawn(shellInput(script), { merge: true });
    const wanted = Array.from({ length: 2_000 }, (_, at) => `out ${at}\nerr ${at}\n`).join("");
    expect(await readOutput(run)).toEqual({ stdout: wanted, stderr: "" });
    await run.wait();
  });
});

test("a program that closes its output and lives on: the stream ends, the run does not", async () => {
  const supervisor = await realSupervisor();
  const run = await supervisor.spawn(
    shellInput("echo a; exec >&-; read line; echo b >&2; exec 2>&-; read line; exit 7"),
  );
  expect(
    Buffer.concat(
      (await withTimeout(3_000, "the end of stdout", collect(run))).map((c) => c.bytes),
    ).toString(),
  ).toBe("a\n");
  expect(run.state).toBe("running");
  await run.write("go\n");
  expect(await withTimeout(3_000, "the end of both", readOutput(run))).toEqual({
    stdout: "a\n",
    stderr: "b\n",
  });
  expect(run.state).toBe("running");
  await run.write("go\n");
  expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 7 });
});
