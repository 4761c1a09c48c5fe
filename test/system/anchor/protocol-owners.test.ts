import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { exitOf, GO, STATUS } from "../../support/anchor/owner-frames.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import type { RawLink } from "../../support/anchor/raw-link.js";
import { waitFor } from "../../support/wait-for.js";

const STOP = encodeMessage("stop", { reason: "manual-cancel", actor: "test", requestId: "", graceMs: 0 });
const STDIN_BUFFER = 64 * 1024;

function write(offset: number, data: string | Buffer): Buffer {
  return encodeMessage("write", { offset, data: Buffer.from(data) }, data.length + 64);
}

const steering: readonly (readonly [string, Buffer])[] = [
  ["GO", GO],
  ["WRITE", write(0, "no\n")],
  ["CLOSE_STDIN", encodeMessage("closeStdin", { offset: 0 })],
  ["RESIZE", encodeMessage("resize", { rows: 7, cols: 7 })],
  ["ACK", encodeMessage("ack", { stream: 1, offset: 1 })],
  [
    "POLICY",
    encodeMessage("policy", {
      overallMs: 1,
      noOutputMs: 1,
      ownerLossMs: 0,
      kind: null,
      onEscape: null,
      graceMs: 0,
    }),
  ],
  ["HEARTBEAT", encodeMessage("heartbeat", {})],
  ["SIGNAL", encodeMessage("signal", { signal: 9, members: [] })],
];

describe("epochs", () => {
  test("a higher epoch takes over and closes the former owner's connection", async () => {
    const launcher = await RawLauncher.start();
    const first = await launcher.run("run_a", "cat");
    const second = await launcher.attach("run_a", 2);
    await first.ended();
    const tenth = await launcher.attach("run_a", 10);
    await second.ended();
    tenth.send(STATUS);
    expect(await tenth.receive("welcome")).toMatchObject({ epoch: 10, phase: 2 });
    tenth.send(STOP);
    await tenth.receive("exited");
  });

  test("an equal and a lower epoch are refused with the highest one, and change nothing", async () => {
    const launcher = await RawLauncher.start();
    const former = await launcher.run("run_a", "cat");
    const owner = await launcher.attach("run_a", 7);
    await former.ended();
    for (const epoch of [7, 6, 1]) {
      const late = await launcher.connectTo("run_a");
      late.send(launcher.helloFrame("run_a", { epoch }), GO, STOP);
      expect(await late.receive("refused")).toMatchObject({ codeName: "stale-epoch", epoch: 7 });
      await late.ended();
    }
    owner.send(write(0, "mine\n"));
    await waitFor(async () => (await launcher.output("run_a")) === "mine\n");
    owner.send(encodeMessage("closeStdin", { offset: 5 }));
    expect(await exitOf(owner)).toMatchObject({ reason: "exit", leader: { code: 0 } });
  });

  test("a disconnected owner cannot return with the same epoch", async () => {
    const launcher = await RawLauncher.start();
    const former = await launcher.run("run_a", "cat");
    const owner = await launcher.attach("run_a", 3);
    await former.ended();
    owner.close();
    const again = await launcher.connectTo("run_a");
    again.send(launcher.helloFrame("run_a", { epoch: 3 }));
    expect(await again.receive("refused")).toMatchObject({ codeName: "stale-epoch", epoch: 3 });
    const next = await launcher.attach("run_a", 4);
    next.send(STOP);
    await next.receive("exited");
  });

  test("a higher epoch closes the former owner's connection while the gate is closed, too", async () => {
    const launcher = await RawLauncher.start();
    const former = await launcher.start("run_a", "exit 0");
    await launcher.attach("run_a", 2);
    await former.ended();
  });

  test("a former owner's GO has no effect", async () => {
    const launcher = await RawLauncher.start();
    const mark = join(launcher.directory, "mark");
    const former = await launcher.start("run_a", `: > '${mark}'`);
    const owner = await launcher.attach("run_a", 2);
    former.send(GO, GO);
    owner.send(STATUS);
    expect(await owner.receive("welcome")).toMatchObject({ phase: 1 });
    owner.send(STOP);
    expect(await exitOf(owner)).toMatchObject({ executed: false });
    expect(existsSync(mark)).toBe(false);
  });

  test("a former owner's WRITE and RESIZE have no effect", async () => {
    const launcher = await RawLauncher.start();
    const former = await launcher.run("run_a", "read line; echo $line; stty size", { pty: 1 });
    const owner = await launcher.attach("run_a", 2);
    former.send(write(0, "former\n"), encodeMessage("resize", { rows: 7, cols: 7 }));
    await former.ended();
    owner.send(encodeMessage("resize", { rows: 33, cols: 44 }), write(0, "owner\n"));
    await owner.receive("exited");
    expect(await launcher.output("run_a")).toBe("owner\r\nowner\r\n33 44\r\n");
  });

  test("in a race of forty owners for one stdin, each byte comes from the owner at that time", async () => {
    const launcher = await RawLauncher.start();
    const links: { link: RawLink; offset: number; line: string }[] = [];
    let former = await launcher.run("run_a", "cat");
    const racing = new Set<RawLink>([former]);
    for (let epoch = 2; epoch < 42; epoch++) {
      const link = await launcher.connectTo("run_a");
      const line = `owner ${String(epoch).padStart(3, "0")}\n`;
      link.send(launcher.helloFrame("run_a", { epoch }));
      // The former owner keeps writing at the offset that its successor will use.
      for (const each of racing) each.send(write(links.at(-1)?.offset ?? 0, "x".repeat(50)));
      const { offset } = await link.receive("welcome");
      for (const each of racing) each.send(write(offset, "y".repeat(50)), GO, STATUS);
      link.send(write(offset, line));
      links.push({ link, offset, line });
      racing.add(link);
      former = link;
    }
    const { offset: end } = await former.receive("stdin");
    former.send(encodeMessage("closeStdin", { offset: end }));
    expect(await exitOf(former)).toMatchObject({ leader: { code: 0 } });
    const output = await launcher.output("run_a");
    expect(output).toHaveLength(end);
    // An owner's bytes start at the offset it was told: no other bytes came between.
    for (const { offset, line } of links) expect(output.slice(offset, offset + line.length)).toBe(line);
    expect(output).not.toContain("y");
  });
});

describe("an observer", () => {
  test.each(steering)("may not control the run: %s is refused and has no effect", async (_, frame) => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "stty size; cat", { pty: 1, outPolicy: 1 });
    const observer = await launcher.attach("run_a", 0);
    observer.send(frame, STATUS);
    expect(await observer.receive("refused")).toMatchObject({ codeName: "not-owner", epoch: 1 });
    expect(await observer.receive("welcome")).toMatchObject({
      phase: 2,
      offset: 0,
      outAcked: 0,
      reason: null,
    });
    owner.send(STOP);
    expect(await exitOf(owner)).toMatchObject({ reason: "manual-cancel", actor: "test" });
  });

  test("may not open the gate, and the owner still may", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.start("run_a", "exit 4");
    const observer = await launcher.attach("run_a", 0);
    observer.send(GO);
    expect(await observer.receive("refused")).toMatchObject({ codeName: "not-owner" });
    owner.send(GO);
    expect(await exitOf(owner)).toMatchObject({ leader: { code: 4 } });
    expect(await exitOf(observer)).toMatchObject({ leader: { code: 4 } });
  });

  test("may ask for the state, and may stop", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    const observer = await launcher.attach("run_a", 0);
    observer.send(STATUS);
    expect(await observer.receive("welcome")).toMatchObject({ phase: 2, epoch: 1 });
    observer.send(STOP);
    expect(await owner.receive("stopping")).toMatchObject({ actor: "test" });
    expect(await exitOf(owner)).toMatchObject({ reason: "manual-cancel", actor: "test" });
  });

  test("does not keep a task alive", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "exec sleep 3031");
    const observer = await launcher.attach("run_a", 0);
    owner.close();
    expect(await exitOf(observer)).toMatchObject({ reason: "owner-lost", actor: "anchor" });
  });
});

describe("input", () => {
  test("that is repeated is accepted once, and new bytes after a repetition are accepted", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    owner.send(write(0, "one "), write(0, "one "), write(2, "e two "), write(0, "one two three"));
    owner.send(write(3, ""), write(0, ""), encodeMessage("closeStdin", { offset: 13 }));
    await owner.receive("exited");
    expect(await launcher.output("run_a")).toBe("one two three");
    expect(owner.received.filter(({ name }) => name === "refused")).toEqual([]);
  });

  test("after a gap is refused completely", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    owner.send(write(0, "one "), write(5, "gap"));
    expect(await owner.receive("refused")).toMatchObject({ codeName: "stdin-gap" });
    owner.send(write(4, "two"), encodeMessage("closeStdin", { offset: 7 }));
    await owner.receive("exited");
    expect(await launcher.output("run_a")).toBe("one two");
  });

  test("beyond the limit is refused, and input up to it waits for the program", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.start("run_a", "cat");
    const full = Buffer.alloc(STDIN_BUFFER, "a");
    owner.send(write(0, Buffer.concat([full, Buffer.from("b")])));
    expect(await owner.receive("refused")).toMatchObject({ codeName: "stdin-limit" });
    owner.send(write(0, full));
    expect(await owner.receive("stdin")).toMatchObject({ offset: STDIN_BUFFER, limit: STDIN_BUFFER });
    owner.send(write(STDIN_BUFFER, "b"));
    expect(await owner.receive("refused")).toMatchObject({ codeName: "stdin-limit" });
    owner.send(GO, encodeMessage("closeStdin", { offset: STDIN_BUFFER }));
    expect(await exitOf(owner)).toMatchObject({ stdout: { end: STDIN_BUFFER } });
    expect(await launcher.output("run_a")).toBe(full.toString());
  });

  test("ends at the announced offset, however early it was announced", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    owner.send(encodeMessage("closeStdin", { offset: 4 }), write(0, "ab"), write(2, "cd"));
    await owner.receive("exited");
    expect(await launcher.output("run_a")).toBe("abcd");
  });

  test("of one owner is continued by the next, byte by byte", async () => {
    const launcher = await RawLauncher.start();
    let owner = await launcher.run("run_a", "cat");
    const text = Array.from({ length: 40 }, (_, at) => `line ${at}\n`).join("");
    let sent = 0;
    for (let epoch = 2; sent < text.length; epoch++) {
      owner.send(write(sent, text.slice(sent, sent + 11)));
      owner.close();
      owner = await launcher.connectTo("run_a");
      owner.send(launcher.helloFrame("run_a", { epoch }));
      sent = (await owner.receive("welcome")).offset;
    }
    owner.send(encodeMessage("closeStdin", { offset: text.length }));
    await owner.receive("exited");
    expect(await launcher.output("run_a")).toBe(text);
  });
});
