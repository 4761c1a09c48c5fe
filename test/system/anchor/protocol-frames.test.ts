import { readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { FRAME_MAX_BYTES, PROTOCOL } from "../../../src/anchor/protocol/messages.js";
import { GO, STATUS } from "../../support/anchor/owner-frames.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import { rawField, rawFrame, withFields } from "../../support/anchor/raw-link.js";
import { waitFor } from "../../support/wait-for.js";

const UNKNOWN_TAG = 200;
const UNKNOWN_FRAME = 42;
const stop = (change: Partial<Parameters<typeof encodeMessage<"stop">>[1]> = {}): Buffer =>
  encodeMessage("stop", { reason: "manual-cancel", actor: "test", requestId: "", graceMs: 0, ...change });

describe("frames", () => {
  test("may arrive byte by byte", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.connect();
    await owner.sendByteByByte(launcher.startFrame("run_a", "exit 3"));
    expect(await owner.receive("welcome")).toMatchObject({ phase: 1, epoch: 1 });
    const observer = await launcher.connectTo("run_a");
    await observer.sendByteByByte(launcher.helloFrame("run_a"));
    expect(await observer.receive("welcome")).toMatchObject({ phase: 1 });
    await owner.sendByteByByte(GO);
    expect(JSON.parse((await owner.receive("exited")).json)).toMatchObject({ leader: { code: 3 } });
  });

  test("may arrive many in one packet", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.start("run_a", "cat");
    const write = encodeMessage("write", { offset: 0, data: Buffer.from("all at once\n") });
    const close = encodeMessage("closeStdin", { offset: 12 });
    owner.send(STATUS, GO, write, STATUS, close);
    await owner.receive("exited");
    expect(await launcher.output("run_a")).toBe("all at once\n");
    expect(owner.received.filter(({ name }) => name === "welcome")).toHaveLength(3);
  });

  test("may have unknown fields", async () => {
    const launcher = await RawLauncher.start();
    const more = [rawField(UNKNOWN_TAG, "what is this"), rawField(UNKNOWN_TAG + 1, Buffer.alloc(1000, 1))];
    const owner = await launcher.connect();
    owner.send(withFields(launcher.startFrame("run_a", "cat"), ...more));
    await owner.receive("welcome");
    owner.send(withFields(GO, ...more));
    await owner.receive("started");
    const next = await launcher.connectTo("run_a");
    next.send(withFields(launcher.helloFrame("run_a", { epoch: 2 }), ...more), withFields(STATUS, ...more));
    expect(await next.receive("welcome")).toMatchObject({ epoch: 2 });
    next.send(withFields(stop({ requestId: "r" }), ...more));
    expect(await next.receive("stopping")).toMatchObject({ requestId: "r" });
    await next.receive("exited");
  });

  test("of type HOLD may have unknown fields, too", async () => {
    const launcher = await RawLauncher.start();
    const guest = await launcher.connect();
    guest.send(withFields(encodeMessage("hold", {}), rawField(UNKNOWN_TAG, "what is this")));
    await guest.receive("launcher");
    const owner = await launcher.run("run_a", "exit 0");
    await owner.receive("exited");
    expect(guest.isOpen).toBe(true);
  });

  test("of an unknown type are refused, and the connection stays open", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "exec sleep 3031");
    for (const type of [UNKNOWN_FRAME, 0, 255, 64]) {
      owner.send(rawFrame(type, rawField(UNKNOWN_TAG, "what is this")));
      expect(await owner.receive("refused")).toMatchObject({ codeName: "unknown-frame" });
    }
    owner.send(stop());
    await owner.receive("exited");
  });

  test.each([
    ["longer than the limit", head(FRAME_MAX_BYTES + 1)],
    ["as long as a number can say", head(0xffff_ffff)],
    ["of no length", Buffer.alloc(4)],
    ["with a field longer than itself", rawFrame(12, Buffer.from([9, 255, 255, 255, 255, 1]))],
    ["with half a field", rawFrame(12, Buffer.from([9, 1]))],
  ])("%s close their own connection and no other", async (_, bytes) => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    for (const observer of [await launcher.attach("run_a", 0), await launcher.connectTo("run_a")]) {
      observer.send(bytes);
      await observer.ended();
    }
    owner.send(STATUS);
    expect(await owner.receive("welcome")).toMatchObject({ phase: 2, epoch: 1 });
    owner.send(encodeMessage("closeStdin", { offset: 0 }));
    expect(JSON.parse((await owner.receive("exited")).json)).toMatchObject({ reason: "exit" });
  });

  test("of the maximal length are accepted", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    owner.send(rawFrame(12, rawField(UNKNOWN_TAG, Buffer.alloc(FRAME_MAX_BYTES - 6))));
    expect(await owner.receive("welcome")).toMatchObject({ phase: 2 });
    owner.send(stop());
    await owner.receive("exited");
  });
});

describe("a connection", () => {
  test.each([
    ["another key", "bad-key", { key: "f".repeat(64) }],
    ["an empty key", "bad-key", { key: "" }],
    ["a longer key", "bad-key", { key: "f".repeat(65) }],
    ["a very long key", "bad-key", { key: "f".repeat(5000) }],
    ["another run", "wrong-run", { runId: "run_b" }],
    ["an empty run", "wrong-run", { runId: "" }],
    ["protocol 0", "protocol", { protocol: 0 }],
    ["a protocol of the future", "protocol", { protocol: PROTOCOL + 1 }],
  ])("with %s is refused (%s), closed, and changes nothing", async (_, codeName, change) => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    const stranger = await launcher.connectTo("run_a");
    stranger.send(launcher.helloFrame("run_a", { epoch: 9, ...change }), stop());
    expect(await stranger.receive("refused")).toMatchObject({ codeName });
    await stranger.ended();
    owner.send(STATUS);
    expect(await owner.receive("welcome")).toMatchObject({ phase: 2, epoch: 1, reason: null });
    owner.send(stop({ actor: "owner" }));
    expect(JSON.parse((await owner.receive("exited")).json)).toMatchObject({ actor: "owner" });
  });

  test("without a key, or with a key that lacks its last character, is refused", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    const { key } = launcher.helloContent("run_a");
    const keyless = [rawField(1, 1), rawField(2, "run_a"), rawField(5, 9)];
    for (const fields of [keyless, [...keyless, rawField(6, key.slice(0, -1))]]) {
      const stranger = await launcher.connectTo("run_a");
      stranger.send(rawFrame(3, ...fields));
      expect(await stranger.receive("refused")).toMatchObject({ codeName: "bad-key" });
      await stranger.ended();
    }
    owner.send(stop());
    await owner.receive("exited");
  });

  test.each([
    ["STOP", stop()],
    ["STATUS", STATUS],
    ["GO", GO],
    ["WELCOME", rawFrame(64)],
    ["START", rawFrame(2, rawField(2, "run_a"))],
  ])("that starts with %s instead of HELLO is closed and changes nothing", async (_, frame) => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    const stranger = await launcher.connectTo("run_a");
    stranger.send(frame);
    await stranger.ended();
    expect(stranger.received).toEqual([]);
    owner.send(STATUS);
    expect(await owner.receive("welcome")).toMatchObject({ phase: 2, reason: null });
    owner.send(stop());
    await owner.receive("exited");
  });

  test("that sends nothing does not block others, and twenty do not either", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    for (let count = 0; count < 20; count++) await launcher.connectTo("run_a");
    owner.send(encodeMessage("write", { offset: 0, data: Buffer.from("still here\n") }));
    await waitFor(async () => (await launcher.output("run_a")) === "still here\n");
    const next = await launcher.attach("run_a", 2);
    await owner.ended();
    next.send(stop({ actor: "next" }));
    expect(JSON.parse((await next.receive("exited")).json)).toMatchObject({ actor: "next" });
  });

  test("to the launcher that sends nothing does not block others", async () => {
    const launcher = await RawLauncher.start();
    for (let count = 0; count < 20; count++) await launcher.connect();
    const owner = await launcher.run("run_a", "exit 0");
    await owner.receive("exited");
  });

  test("to the launcher that breaks in its first frame neither keeps it busy nor alive", async () => {
    const launcher = await RawLauncher.start();
    const guests = [1, 4, 5, 12].map(async (length) => {
      const guest = await launcher.connect();
      guest.send(launcher.startFrame("run_a", "exit 1").subarray(0, length));
      return guest;
    });
    await Promise.all(guests);
    const before = await cpuTicks(launcher.pid);
    const owner = await launcher.run("run_a", "sleep 0.3");
    await owner.receive("exited");
    expect((await cpuTicks(launcher.pid)) - before).toBeLessThan(10);
    // Every test checks at its end that the launcher exits.
  });

  test("that never reads its answers is closed, and its run continues for the next owner", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat", { ownerLossMs: 5_000 });
    owner.socket.pause();
    // Every empty DATA field causes one more answer.
    owner.send(rawFrame(6, rawField(19, 0), Buffer.concat(Array(20_000).fill(rawField(25, "")))));
    for (let count = 0; count < 3_000; count++) owner.send(STATUS);
    const next = await launcher.attach("run_a", 2);
    next.send(encodeMessage("write", { offset: 0, data: Buffer.from("next\n") }));
    await waitFor(async () => (await launcher.output("run_a")) === "next\n");
    next.send(stop());
    await next.receive("exited");
  });
});

test("a deleted socket is created again, also after its whole directory was deleted", async () => {
  const launcher = await RawLauncher.start();
  const [first, second] = [await launcher.run("run_a", "cat"), await launcher.run("run_b", "cat")];
  const sockets = ["run_a", "run_b"].map((runId) => join(launcher.runDirectory(runId), "sock"));
  const before = await Promise.all(sockets.map(inode));
  await rm(join(launcher.runDirectory("run_a"), "sock"));
  await rm(launcher.runDirectory("run_b"), { recursive: true });
  await waitFor(async () => !(await Promise.all(sockets.map(inode))).includes(null), 7_000);
  for (const [at, path] of sockets.entries()) {
    expect(await inode(path)).not.toBe(before[at]);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  }
  for (const [runId, former] of [
    ["run_a", first],
    ["run_b", second],
  ] as const) {
    const next = await launcher.attach(runId, 2);
    await former.ended();
    next.send(stop({ requestId: "r" }));
    await next.receive("exited");
    expect(await launcher.readRunFile(runId, "exit.json")).toMatchObject({ requestId: "r" });
  }
});

function head(length: number): Buffer {
  const bytes = Buffer.alloc(9, 12);
  bytes.writeUInt32LE(length, 0);
  return bytes;
}

/** CPU time of a process in hundredths of a second. */
async function cpuTicks(pid: number): Promise<number> {
  const line = await readFile(`/proc/${pid}/stat`, "utf8");
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

async function inode(path: string): Promise<number | null> {
  return stat(path).then(
    ({ ino }) => ino,
    () => null,
  );
}
