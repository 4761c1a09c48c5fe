import { spawn } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { anchorEnvironment } from "../../../src/anchor/one-shot-modes.js";
import { listMarkedProcesses, reapMarkedProcess } from "../../../src/anchor/inspect/marked-processes.js";
import { inspectCgroups } from "../../../src/anchor/inspect/cgroups-and-limits.js";
import { inspectProcesses } from "../../../src/anchor/inspect/processes.js";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { parseExit } from "../../../src/anchor/run-dir/parse-run-files.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import { rawField, rawFrame } from "../../support/anchor/raw-link.js";
import { canCompile, sanitizedAnchor, useSanitizedAnchor } from "../../support/anchor/sanitizers.js";
import { plantBystander } from "../../support/bystander.js";
import { repetitions } from "../../support/scale.js";
import {
  plantLookalike,
  readOutput,
  realSupervisor,
  shellInput,
} from "../../support/supervisor/real-supervisor.js";

useSanitizedAnchor();

/** Deterministic, so that a failure can be reproduced. */
function noise(seed: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let state = seed;
  for (let at = 0; at < length; at += 1) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    bytes[at] = state >>> 24;
  }
  return bytes;
}

/**
 * POLICY, RESIZE, ADOPT, SIGNAL or ACK with numbers at the limits of types. No time that would end the run within the
 * test.
 */
function extremeFrame(): Buffer {
  const edges = [16n, 31n, 32n, 47n, 48n, 53n, 63n, 64n].flatMap((bits) => [2n ** bits - 1n, 2n ** bits]);
  const numbers = edges.filter((number) => number < 2n ** 64n);
  const any = (): bigint => numbers[randomInt(numbers.length)] ?? 0n;
  const late = (): bigint => (randomInt(4) === 0 ? 0n : any() | (1n << 31n));
  const field = (tag: number, number: bigint): Buffer =>
    randomInt(20) === 0 ? rawField(tag, Buffer.alloc(randomInt(16), 255)) : rawField(tag, number);
  const frames = [
    () => rawFrame(10, field(60, late()), field(61, late()), field(62, late()), field(30, any())),
    () => rawFrame(8, field(38, any()), field(39, any())),
    () =>
      rawFrame(
        14,
        rawField(2, "run_x"),
        rawField(6, "k".repeat(40)),
        field(8, any()),
        field(9, any()),
        field(30, any()),
      ),
    () => rawFrame(15, field(32, any()), rawField(87, randomBytes(24)), rawField(87, Buffer.alloc(24, 255))),
    () => rawFrame(9, field(18, any()), field(19, any())),
    () => rawFrame(9, field(18, 1n), field(19, any())),
  ];
  return (frames[randomInt(frames.length)] ?? frames[0])?.() ?? Buffer.alloc(0);
}

/** Random bytes, and frames that are almost valid, which reach more code. */
function garbage(round: number, runId: string): Buffer {
  if (round % 3 === 0) return randomBytes(randomInt(1, 3000));
  const hello = encodeMessage("hello", {
    protocol: 1,
    runId,
    instanceId: "i",
    incarnation: "i",
    epoch: 9,
    key: "f".repeat(64),
  });
  const stop = encodeMessage("stop", { reason: "r", actor: "a", requestId: "q", graceMs: 0 });
  const members = encodeMessage("members", { requestId: "q" });
  const bytes = Buffer.concat([encodeMessage("hold", {}), hello, members, stop].slice(round % 2));
  for (let hits = randomInt(0, 6); hits > 0; hits--) bytes[randomInt(bytes.length)] = randomInt(256);
  return bytes.subarray(0, randomInt(1, bytes.length + 1));
}

/** Sends the bytes and waits for the end of the connection, but not for long, because some of them are valid starts. */
async function throwAt(path: string, bytes: Buffer): Promise<void> {
  const socket = connect(path);
  socket.on("error", () => {});
  await new Promise<void>((resolve) => {
    socket.once("close", () => resolve());
    socket.once("connect", () => socket.end(bytes));
    socket.setTimeout(20, () => socket.destroy());
    socket.resume();
  });
}

describe.skipIf(!canCompile)("under the sanitizers, without a report:", () => {
  test("odd command lines and environments", async () => {
    plantBystander("sleep", ["3044"], { ...process.env, SANITIZED: "odd" });
    const words = Array.from({ length: 300 }, (_, at) =>
      noise(at + 1, 90)
        .toString("latin1")
        .replaceAll("\0", ""),
    );
    const env = Object.fromEntries(words.map((word, at) => [`V${at}`, word]));
    const child = spawn("/bin/sh", ["-c", "echo up; read line", ...words], {
      stdio: ["pipe", "pipe", "ignore"],
      detached: true,
      env: { ...env, SANITIZED: "odd", BIG: "x".repeat(100_000) },
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    await once(child.stdout, "data");
    const [found] = await inspectProcesses(sanitizedAnchor, [child.pid ?? 0]);
    expect(found?.argv.length).toBeGreaterThan(50);
    const others = ["BIG", ...Array.from({ length: 15 }, (_, at) => `V${at}`)];
    const marked = await listMarkedProcesses(sanitizedAnchor, "SANITIZED", others);
    expect(marked.map(({ identity }) => identity)).toContainEqual(found?.identity);
    if (found === undefined) return;
    const request = { identity: found.identity, variable: "SANITIZED", value: "odd", graceMs: 500 };
    expect(await reapMarkedProcess(sanitizedAnchor, { ...request, value: "even" })).toMatchObject({
      verified: false,
    });
    expect(await reapMarkedProcess(sanitizedAnchor, request)).toMatchObject({ verified: true, killed: 1 });
  });

  test("a long input in many pieces, and invalid cgroups", async () => {
    const wanted = Array.from({ length: 30_000 }, (_, at) => (at % 5000 === 0 ? process.pid : 2 ** 23 + at));
    expect(await inspectProcesses(sanitizedAnchor, wanted)).toHaveLength(wanted.length);
    const paths = [
      "/",
      "/x",
      `/${"y".repeat(900)}`,
      "/holdfast-a/runs/b",
      "//",
      "/..",
      `/${"ü".repeat(400)}`,
    ];
    const answers = await inspectCgroups(
      sanitizedAnchor,
      paths.map((path) => ({ path, inode: "18446744073709551615" })),
    );
    expect(answers.every((answer) => answer === "gone" || answer === "unknown")).toBe(true);
  });

  test("random input is refused", async () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      const child = spawn(sanitizedAnchor, ["inspect"], {
        stdio: ["pipe", "ignore", "ignore"],
        env: anchorEnvironment(),
      });
      child.stdin.on("error", () => {});
      child.stdin.end(seed === 1 ? Buffer.alloc(200_000, "1") : noise(seed, seed * 7_000));
      expect((await once(child, "exit"))[0]).toBe(2);
    }
  });

  test("garbage on both sockets, and the run continues", async () => {
    const supervisor = await realSupervisor();
    const begun = await supervisor.spawn(shellInput("cat; exit 5"));
    const instance = join(supervisor.home, "instances", supervisor.instanceId);
    const sockets = [join(instance, "launcher.sock"), join(instance, "runs", begun.runId, "sock")];
    const rounds = repetitions(150, 5_000);
    for (let round = 0; round < rounds; round++)
      await Promise.all(sockets.map((path) => throwAt(path, garbage(round, begun.runId))));
    await begun.write("still here\n");
    await begun.closeStdin();
    expect((await readOutput(begun)).stdout).toBe("still here\n");
    expect((await begun.wait()).exit).toMatchObject({ reason: "exit", code: 5 });
    const runs = await readdir(join(instance, "runs"));
    expect(runs, "garbage is not a START").toEqual([begun.runId]);
  });

  test("frames of the owner with numbers at every limit, and the run continues", async () => {
    plantLookalike("sleep", "3052");
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "sleep 3052 & echo $!; read line; exit 6", { pty: 1 });
    const rounds = repetitions(400, 20_000);
    for (let round = 0; round < rounds; round++) {
      owner.send(extremeFrame());
      if (round % 50 !== 0) continue;
      owner.send(encodeMessage("status", {}));
      expect(await owner.receive("welcome")).toMatchObject({ phase: 2, reason: null });
    }
    owner.send(encodeMessage("write", { offset: 0, data: Buffer.from("on\n") }));
    expect(parseExit((await owner.receive("exited")).json)).toMatchObject({ leader: { code: 6 } });
  });
});
