import { spawnSync } from "node:child_process";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";

const OTHER = 65_533;
const whyNoOtherUser = process.getuid?.() === 0 ? null : "becoming another user needs root";

/** Connects, sends a frame, and prints how many bytes came back before the connection was closed. */
const CALLER = `
  const [path, frame] = process.argv.slice(1);
  let bytes = 0;
  const socket = require("node:net").connect(path, () => socket.write(Buffer.from(frame, "hex")));
  socket.on("data", (part) => { bytes += part.length; socket.destroy(); });
  socket.on("error", (error) => { if (error.code !== "ECONNRESET" && error.code !== "EPIPE") bytes = error.code; });
  socket.on("close", () => { console.log(bytes); process.exit(); });
  setTimeout(() => { console.log("silent"); process.exit(); }, 5000);
`;

function callAs(uid: number, path: string, frame: Buffer): string {
  const { stdout } = spawnSync(process.execPath, ["-e", CALLER, path, frame.toString("hex")], {
    uid,
    gid: uid,
    cwd: "/",
    env: {},
    encoding: "utf8",
  });
  return stdout.trim();
}

/** As after a mistake of an administrator: then only the uid separates the two users. */
async function openToAll(launcher: RawLauncher, socket: string): Promise<string> {
  for (const path of ["", "runs", "runs/run_a"]) await chmod(join(launcher.directory, path), 0o755);
  const path = join(launcher.directory, socket);
  await chmod(path, 0o777);
  return path;
}

describe.skipIf(whyNoOtherUser !== null)("a process of another user", () => {
  test("gets no answer from a launcher, and starts nothing", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    const path = await openToAll(launcher, "launcher.sock");
    const hold = encodeMessage("hold", {});
    expect(callAs(0, path, hold)).toMatch(/^[1-9]\d*$/);
    expect(callAs(OTHER, path, hold)).toBe("0");
    owner.send(encodeMessage("closeStdin", { offset: 0 }));
    await owner.receive("exited");
  });

  test("gets no answer from an anchor, even with the run's key, and stops nothing", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    const path = await openToAll(launcher, "runs/run_a/sock");
    const hello = launcher.helloFrame("run_a", { epoch: 0 });
    const stop = encodeMessage("stop", { reason: "manual-cancel", actor: "x", requestId: "", graceMs: 0 });
    expect(callAs(0, path, hello)).toMatch(/^[1-9]\d*$/);
    expect(callAs(OTHER, path, Buffer.concat([hello, stop]))).toBe("0");
    owner.send(encodeMessage("closeStdin", { offset: 0 }));
    expect(JSON.parse((await owner.receive("exited")).json)).toMatchObject({ reason: "exit" });
  });
});
