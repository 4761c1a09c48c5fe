import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { StdinClosed } from "../../../src/errors.js";
import type { Run } from "../../../src/supervisor/api.js";
import { Utf8Decoder } from "../../../src/text/utf8.js";
import { bytePattern, hash } from "../../support/byte-pattern.js";
import {
  findProcessesOfRun,
  plantLookalike,
  readOutput,
  realSupervisor,
  shellInput,
  waitForOutput,
} from "../../support/supervisor/real-supervisor.js";
import { waitFor, withTimeout } from "../../support/wait-for.js";
import { collect } from "./output-chunks.js";

const KIB = 1024;
const MIB = 1024 * KIB;

describe("input", () => {
  test("of 4 MiB passes cat unchanged, also with a slow reader", async () => {
    const supervisor = await realSupervisor();
    const length = 4 * MIB;
    const run = await supervisor.spawn(
      { io: "pipe", argv: ["cat"] },
      { stdout: { policy: "back-pressure", boundBytes: 256 * KIB } },
    );
    const written = (async () => {
      const sent = bytePattern(length);
      // One byte, a few, more than a frame, more than the anchor buffers.
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

  test("is followed in memory that the follower provides, in pieces of at most its size", async () => {
    const supervisor = await realSupervisor();
    const length = 3 * MIB + 5;
    const run = await supervisor.spawn(
      {
        io: "pipe",
        argv: ["sh", "-c", `head -c ${length} /dev/zero | tr '\\0' o; head -c 70001 /dev/zero >&2`],
      },
      { stdout: { policy: "back-pressure", boundBytes: 256 * KIB } },
    );
    const buffer = new Uint8Array(50_000);
    const got = { stdout: 0, stderr: 0 };
    for await (const { stream, offset, bytes } of run.follow({ ack: true, buffer })) {
      expect(bytes.buffer).toBe(buffer.buffer);
      expect(offset).toBe(got[stream]);
      got[stream] += bytes.length;
      const wanted = stream === "stdout" ? "o".charCodeAt(0) : 0;
      if (!bytes.every((byte) => byte === wanted)) expect.fail(`wrong bytes in ${stream} at ${offset}`);
      // The next chunk overwrites these bytes; those of the spool stay as they are.
      bytes.fill(1);
    }
    expect(got).toEqual({ stdout: length, stderr: 70_001 });
    expect((await run.wait()).exit).toMatchObject({ code: 0 });
    const none = run.follow({ buffer: new Uint8Array(0) })[Symbol.asyncIterator]();
    await expect(none.next()).rejects.toMatchObject({ code: "BAD_INPUT", field: "buffer" });
  });

  test("waits for a program that does not read", async () => {
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
    expect(done).toBe(false);
    process.kill(run.rootPid ?? 0, "SIGCONT");
    await written;
    await run.closeStdin();
    expect((await readOutput(run)).stdout).toBe(`ready\n${hash(bytePattern(length))}  -\n`);
    await run.wait();
  });

  test("that no program will read is rejected, and the run continues", async () => {
    const supervisor = await realSupervisor();
    const refused = async (run: Run, what: string): Promise<void> => {
      const answer = withTimeout(5_000, what, run.write(bytePattern(MIB)));
      await expect(answer, what).rejects.toBeInstanceOf(StdinClosed);
      await expect(answer, what).rejects.toMatchObject({ code: "STDIN_CLOSED", runId: run.runId });
      // Closing it again is not an error.
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
    await refused(leaving, "a program that exits in the middle");
    expect((await leaving.wait()).exit).toMatchObject({ reason: "exit", code: 4 });

    const none = await supervisor.spawn(shellInput("cat; exit 5"), { stdin: "null" });
    await refused(none, "a run without input");
    expect((await none.wait()).exit).toMatchObject({ reason: "exit", code: 5 });

    const closed = await supervisor.spawn(shellInput("cat >/dev/null; exit 6"));
    await closed.closeStdin();
    await refused(closed, "input that was closed here");
    expect((await closed.wait()).exit).toMatchObject({ reason: "exit", code: 6 });
  });
});

describe("the end of a run does not wait for a process that holds the output open", () => {
  test.each([
    ["a background job", "sleep 3043 & exit 3", "exit", "background"],
    [
      "a job that ignores TERM",
      "(trap '' TERM; echo deaf; sleep 3043 & wait) & sleep 0.1; exit 3",
      "exit",
      "background",
    ],
    ["a job that writes without end", "yes & exit 3", "exit", "background"],
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

  test("a process outside the run, which is not touched", async () => {
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
  test("of all 256 values pass unchanged in both directions and on both streams", async () => {
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

  test("of a character that is split by chunks, segments or writes form that character", async () => {
    const supervisor = await realSupervisor();
    // 1, 2, 3 and 4 bytes: consecutive borders are at different places of a character.
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

  test("of two merged streams are in the order in which they were written", async () => {
    const supervisor = await realSupervisor();
    const script = "i=0; while [ $i -lt 2000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    const run = await supervisor.spawn(shellInput(script), { merge: true });
    const wanted = Array.from({ length: 2_000 }, (_, at) => `out ${at}\nerr ${at}\n`).join("");
    expect(await readOutput(run)).toEqual({ stdout: wanted, stderr: "" });
    await run.wait();
  });
});

test("a program that closes its output ends the stream, but not the run", async () => {
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
