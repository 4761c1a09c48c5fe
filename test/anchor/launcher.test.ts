import { chmod, mkdir, mkdtemp, open, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Launcher } from "../../src/anchor/launcher.js";
import { connectToSocket } from "../../src/anchor/protocol/connection.js";
import { AnchorUnusable } from "../../src/errors.js";
import { FakePeer, launcherFrame } from "../support/anchor/fake-peer.js";

let instanceDir: string;

beforeEach(async () => {
  instanceDir = await mkdtemp(join(tmpdir(), "holdfast-launcher-"));
});

afterEach(async () => {
  await rm(instanceDir, { recursive: true, force: true });
});

async function script(text: string): Promise<string> {
  const path = join(instanceDir, "program");
  await writeFile(path, `#!/bin/sh\n${text}\n`);
  await chmod(path, 0o755);
  return path;
}

function launcherOf(anchorPath: string): Launcher {
  return new Launcher({ anchorPath, instanceDir, instanceId: "i" }, () => {});
}

test.each([
  ["ends at once", "exit 3", /exit 3/],
  ["says something else", "echo hello; sleep 0.2", /hello/],
  ["says what is wrong", `echo '{"ready":false,"message":"the directory is on fire"}'; sleep 0.2`, /on fire/],
  ["says it is ready but does not listen", `echo '{"ready":true}'`, /does not listen/],
])("a launcher that %s is unusable", async (_what, text, sentence) => {
  const failed = await launcherOf(await script(text))
    .hold()
    .catch((error: unknown) => error);
  expect(failed).toBeInstanceOf(AnchorUnusable);
  expect(String(failed)).toMatch(sentence);
});

test("the error about a binary that cannot be executed names it and says what to do", async () => {
  const path = await script("exit 0");
  await chmod(path, 0o644);
  await expect(launcherOf(path).hold()).rejects.toThrow(/may not be executed.*noexec/s);
  await expect(launcherOf(join(instanceDir, "none")).hold()).rejects.toThrow(/is gone/);
});

test("a failed start can be repeated", async () => {
  const launcher = launcherOf(await script("exit 3"));
  await expect(launcher.hold()).rejects.toThrow();
  await using _peer = await FakePeer.listen(launcher.socketPath, (_message, visitor) =>
    visitor.send(launcherFrame),
  );
  await launcher.hold();
  launcher.close();
});

test("a stale socket is removed before a launcher is started", async () => {
  const path = join(instanceDir, "launcher.sock");
  // Bound by a process that has ended: the file stays, as after a crash.
  const { spawnSync } = await import("node:child_process");
  spawnSync(process.execPath, [
    "-e",
    `require("net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`,
  ]);
  const launcher = launcherOf(
    await script(
      `test -e '${path}' && echo '{"ready":false,"message":"still there"}' || echo '{"ready":false,"message":"removed"}'`,
    ),
  );
  await expect(launcher.hold()).rejects.toThrow(/removed/);
});

test("a file that is not a socket is kept", async () => {
  await writeFile(join(instanceDir, "launcher.sock"), "mine");
  await expect(launcherOf(await script("exit 0")).hold()).rejects.toThrow(/not a socket/);
  await rm(join(instanceDir, "launcher.sock"));
  await symlink("/etc/passwd", join(instanceDir, "launcher.sock"));
  await expect(launcherOf(await script("exit 0")).hold()).rejects.toThrow(/is a symbolic link/);
});

test("a socket whose path is longer than a socket address can be reached", async () => {
  const deep = join(instanceDir, "d".repeat(80), "e".repeat(80));
  await mkdir(deep, { recursive: true });
  const server = createServer((socket) => socket.end("hi"));
  await using directory = await open(deep);
  await new Promise<void>((resolve) => server.listen(`/proc/self/fd/${directory.fd}/sock`, resolve));
  const said = await new Promise((resolve, reject) => {
    connectToSocket(join(deep, "sock"))
      .socket.on("data", (data) => resolve(data.toString()))
      .on("error", reject);
  });
  expect(said).toBe("hi");
  const missing = await new Promise((resolve) =>
    connectToSocket(join(deep, "gone", "sock")).socket.on("error", resolve),
  );
  expect(missing).toMatchObject({ code: "ENOENT" });
  await new Promise((resolve) => server.close(resolve));
});
