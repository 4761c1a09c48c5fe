import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { publint } from "publint";
import { beforeAll, describe, expect, test } from "vitest";
import { inspectProcesses } from "../../../src/anchor/inspect/processes.js";
import { reap } from "../../../src/anchor/inspect/reap.js";
import { plantBystander } from "../../support/bystander.js";
import { execFileAsync, isInstalled, packTarballs, temporaryDirectoryForFile } from "./packages.js";

const EM_AARCH64 = 183;
const QEMU = "qemu-aarch64-static";
const hasTools = isInstalled("aarch64-linux-gnu-gcc") && isInstalled(QEMU) && process.arch === "x64";

/** User-mode emulation has no subreaper, so the anchor starts no runs here; the other modes are tested. */
describe.skipIf(!hasTools)("the arm64 package's anchor", () => {
  let contents: string;
  let emulated: string;

  beforeAll(async () => {
    const directory = await temporaryDirectoryForFile();
    const packed = await packTarballs(["linux-arm64"], join(directory, "packages"));
    await execFileAsync("tar", ["-xzf", packed.anchors[0] ?? "", "-C", directory]);
    contents = join(directory, "package");
    emulated = join(directory, "anchor");
    await writeFile(emulated, `#!/bin/sh\nexec ${QEMU} '${contents}/bin/anchor' "$@"\n`, { mode: 0o755 });
    // Zig compiles its C library for a target that it has not built before: a minute of CPU time.
  }, 600_000);

  test("is for that processor, and so is its package", async () => {
    expect((await readFile(join(contents, "bin/anchor"))).readUInt16LE(18)).toBe(EM_AARCH64);
    expect(JSON.parse(await readFile(join(contents, "package.json"), "utf8"))).toMatchObject({
      name: "@holdfast/anchor-linux-arm64",
      os: ["linux"],
      cpu: ["arm64"],
    });
    expect((await publint({ pkgDir: contents, pack: false, strict: true })).messages).toEqual([]);
  });

  test("verifies a process and ends its tree, and no other process", async () => {
    plantBystander("sleep", ["1000"]);
    const executed = `while [ "$(cat /proc/$!/comm)" != sleep ]; do :; done`;
    const script = `trap '' TERM; sleep 1000 & ${executed}; echo up; wait`;
    const leader = spawn("sh", ["-c", script], { detached: true, stdio: ["ignore", "pipe", "ignore"] });
    const ended = once(leader, "exit");
    await once(leader.stdout, "data");
    const [evidence] = await inspectProcesses(emulated, [leader.pid ?? 0]);
    const root = evidence?.identity ?? expect.fail("the process was not found");
    const request = { root, cgroup: null, leaseId: null, graceMs: 50 };
    // With unique ids, the start time does not count.
    const stranger =
      root.uniqueId === null ? { ...root, startTime: root.startTime + 1 } : { ...root, uniqueId: "1" };
    expect(await reap(emulated, { ...request, root: stranger })).toMatchObject({
      verified: false,
      killed: 0,
    });
    expect(await reap(emulated, request)).toMatchObject({
      verified: true,
      killed: 2,
      residue: [{ command: "sleep", kind: "background" }],
      survivors: [],
    });
    expect((await ended)[1]).toBe("SIGKILL");
  });

  test("works as the first process of a container", () => {
    const { status } = spawnSync(emulated, ["init", "--", "sh", "-c", "exit 3"]);
    expect(status).toBe(3);
  });
});
