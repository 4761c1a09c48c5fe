import { existsSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { START_MAX_BYTES } from "../../../src/anchor/protocol/messages.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import { rawField, rawFrame, withFields } from "../../support/anchor/raw-link.js";
import { waitFor } from "../../support/wait-for.js";

const KEY = "0123456789abcdef".repeat(4);
const START = 2;
const runId = (id: string): Buffer => rawField(2, id);
const CWD = rawField(50, "/");
/** Everything START needs except a command. */
const rest = [rawField(1, 1), rawField(3, "in_raw"), rawField(4, "one"), rawField(5, 1), rawField(6, KEY)];

/** After a refused start: no directory, no process except the launcher, and the next run works. */
async function nothingBehind(launcher: RawLauncher): Promise<void> {
  await waitFor(async () => (await childrenOf(launcher.pid)).length === 0);
  expect(await readdir(launcher.directory)).toEqual(
    expect.arrayContaining(["launcher.json", "launcher.sock", "runs"]),
  );
  expect(await readdir(launcher.directory)).toHaveLength(3);
  expect(await readdir(join(launcher.directory, "runs"))).toEqual([]);
  const owner = await launcher.run("run_next", "exit 0");
  expect(JSON.parse((await owner.receive("exited")).json)).toMatchObject({ leader: { code: 0 } });
}

async function childrenOf(pid: number): Promise<string[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
  return text.split(" ").filter((word) => word !== "");
}

describe("a START that cannot be carried out leaves nothing behind", () => {
  test.each([
    ["no command", []],
    ["a NUL inside the run id", [rawField(48, "/bin/true")], "run\0a"],
    ["a NUL inside an argument", [rawField(48, "/bin/sh"), rawField(48, "a\0b")]],
    ["a NUL inside a variable", [rawField(48, "/bin/sh"), rawField(49, "A=b\0c")]],
  ])("%s: FAILED, with the step", async (_, command, id = "run_a") => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.connect();
    owner.send(rawFrame(START, runId(id), ...rest, ...command));
    expect(await owner.receive("failed")).toMatchObject({ errno: 22, step: "spec" });
    await owner.ended();
    await nothingBehind(launcher);
  });

  test.each([
    ["another protocol", { protocol: 9 }],
    ["epoch 0", { epoch: 0 }],
    ["a key that is too short", { key: "short" }],
    ["a key that is too long", { key: "k".repeat(1000) }],
  ])("%s: FAILED", async (_, change) => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.connect();
    owner.send(launcher.startFrame("run_a", "exit 0", change));
    expect(await owner.receive("failed")).toMatchObject({ step: "spec" });
    await owner.ended();
    await nothingBehind(launcher);
  });

  test.each([
    ["a directory that is not there", { cwd: "/nonexistent" }, "cwd", 2],
    ["a directory that is a file", { cwd: "/etc/passwd" }, "cwd", 20],
  ])("%s: FAILED", async (_, change, step, errno) => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.connect();
    owner.send(launcher.startFrame("run_a", "exit 0", change));
    expect(await owner.receive("failed")).toMatchObject({ step, errno });
    await owner.ended();
    await nothingBehind(launcher);
  });

  test.each([
    ["a way up", "../x"],
    ["a way down", "a/b"],
    ["an absolute path", "/tmp/x"],
    ["a dot", "."],
    ["two dots", ".."],
    ["nothing", ""],
    ["a space", "run a"],
    ["a newline", "run\na"],
    ["an option", "--dir=/tmp"],
    ["too many characters", "r".repeat(64)],
    ["far too many characters", "r".repeat(5000)],
  ])("a run id that is %s: closed without an answer", async (what, id) => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.connect();
    owner.send(rawFrame(START, runId(id), ...rest, rawField(48, "/bin/true")));
    await owner.ended();
    expect(owner.received, what).toEqual([]);
    expect(existsSync(join(launcher.directory, "x"))).toBe(false);
    await nothingBehind(launcher);
  });

  test("a second run id in the same frame creates no second directory", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.connect();
    owner.send(withFields(launcher.startFrame("run_a", "cat"), runId("../../elsewhere")));
    expect(await owner.receive("welcome")).toMatchObject({ phase: 1 });
    expect(await readdir(join(launcher.directory, "runs"))).toEqual(["run_a"]);
    owner.close();
    await waitFor(async () => (await launcher.readRunFile("run_a", "exit.json")) !== null);
  });

  test("a run id that is not the first field: closed without an answer", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.connect();
    owner.send(rawFrame(START, ...rest, runId("run_a"), rawField(48, "/bin/true")));
    await owner.ended();
    expect(owner.received).toEqual([]);
    await nothingBehind(launcher);
  });

  test("a frame that is longer than allowed, or malformed: closed", async () => {
    const launcher = await RawLauncher.start();
    const head = rawFrame(START, runId("run_a"));
    head.writeUInt32LE(START_MAX_BYTES + 1, 0);
    const broken = rawFrame(START, runId("run_a"), Buffer.from([48, 255, 0, 0, 0, 1]));
    for (const bytes of [head, broken]) {
      const owner = await launcher.connect();
      owner.send(bytes);
      await owner.ended();
      expect(owner.received).toEqual([]);
    }
    await nothingBehind(launcher);
  });

  test("more arguments than the kernel accepts: FAILED at GO, and no partial command", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.connect();
    const argument = Buffer.alloc(START_MAX_BYTES / 2, "a");
    owner.send(
      rawFrame(START, runId("run_a"), ...rest, rawField(48, "/bin/true"), rawField(48, argument), CWD),
    );
    await owner.receive("welcome");
    owner.send(encodeMessage("go", {}));
    expect(await owner.receive("failed")).toMatchObject({ errno: 7, step: "exec" });
    expect(JSON.parse((await owner.receive("exited")).json)).toMatchObject({ executed: false });
  });

  test("an owner that disconnects inside its START", async () => {
    const launcher = await RawLauncher.start();
    const frame = launcher.startFrame("run_a", "exit 0");
    for (const length of [80, 200, frame.length - 1]) {
      const owner = await launcher.connect();
      owner.send(frame.subarray(0, length));
      await waitFor(async () => (await childrenOf(launcher.pid)).length === 1);
      owner.close();
      await waitFor(async () => (await childrenOf(launcher.pid)).length === 0);
    }
    await nothingBehind(launcher);
  });
});

test("an existing run directory is not reused: FAILED, and it stays unchanged", async () => {
  const launcher = await RawLauncher.start();
  const first = await launcher.run("run_a", "exit 5");
  await first.ended();
  await writeFile(join(launcher.runDirectory("run_a"), "note"), "mine");
  const before = await readdir(launcher.runDirectory("run_a"));
  const again = await launcher.connect();
  again.send(launcher.startFrame("run_a", "exit 0"));
  expect(await again.receive("failed")).toMatchObject({ step: "directory", errno: 17 });
  await again.ended();
  expect(await readdir(launcher.runDirectory("run_a"))).toEqual(before);
  expect(await launcher.readRunFile("run_a", "exit.json")).toMatchObject({ leader: { code: 5 } });
});

test("two concurrent STARTs for one run id: one run, and the other is refused", async () => {
  const launcher = await RawLauncher.start();
  const owners = await Promise.all([launcher.connect(), launcher.connect()]);
  const frame = launcher.startFrame("run_a", "exit 6");
  for (const owner of owners) owner.send(frame);
  const welcomed = await Promise.any(owners.map((owner) => owner.receive("welcome").then(() => owner)));
  welcomed.send(encodeMessage("go", {}));
  await Promise.all(owners.map((owner) => owner.ended()));
  const names = owners.map(({ received: all }) => all.map(({ name }) => name));
  expect(names.filter((heard) => heard.includes("failed"))).toHaveLength(1);
  expect(names.filter((heard) => heard.includes("exited"))).toHaveLength(1);
  expect(await launcher.readRunFile("run_a", "exit.json")).toMatchObject({ leader: { code: 6 } });
});
