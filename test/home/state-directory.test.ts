import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { chmod, chown, mkdir, readdir, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { StateUnusable } from "../../src/errors.js";
import { longestSocketPath, resolveHome, socketPathLimit } from "../../src/home/state-directory.js";
import {
  fuseTypeName,
  isShare,
  networkFileSystemOf,
  networkTypeName,
} from "../../src/home/network-file-system.js";
import { findStateDirectory, openStateDirectory } from "../../src/store/open-state-directory.js";
import { mountSmallDisk, whyNoMounts } from "../support/small-disk.js";
import { temporaryDirectory, type TemporaryDirectory } from "../support/temporary-directory.js";

test("the limit is the system's, less the final zero", () => {
  expect(socketPathLimit("linux")).toBe(107);
  expect(socketPathLimit("darwin")).toBe(103);
  expect(socketPathLimit("win32")).toBe(Number.POSITIVE_INFINITY);
});

test("lengths are counted in bytes, not letters", () => {
  expect(longestSocketPath("/h")).toBe("/h/instances/123456789012/runs/1234567890123456/sock".length);
  expect(longestSocketPath("/hä")).toBe(longestSocketPath("/ha") + 1);
});

test.runIf(process.platform === "linux")("the longest path allowed can be listened on", async () => {
  const dir = mkdtempSync(join(tmpdir(), "hf-"));
  const path = join(dir, "s".repeat(socketPathLimit("linux") - dir.length - 1));
  const server = createServer().listen(path);
  await once(server, "listening");
  server.close();
  rmSync(dir, { recursive: true });
});

const NOBODY = 65_534;
const asNobody = ["setpriv", "--reuid", String(NOBODY), "--regid", String(NOBODY), "--clear-groups"] as const;
/** The user nobody may be unmapped in a user namespace. */
const whyNoOtherUser =
  spawnSync(asNobody[0], [...asNobody.slice(1), "true"]).status === 0
    ? null
    : "becoming another user needs root";

let parent: TemporaryDirectory;
let home: string;

beforeEach(async () => {
  parent = await temporaryDirectory();
  home = join(parent.path, "state", "home");
});
afterEach(() => parent[Symbol.asyncDispose]());

async function refused(
  path: string,
  sentence: string,
  ...ways: ((path: string) => Promise<unknown>)[]
): Promise<void> {
  for (const way of ways.length > 0 ? ways : [openStateDirectory, findStateDirectory]) {
    await expect(way(path)).rejects.toBeInstanceOf(StateUnusable);
    await expect(way(path)).rejects.toThrow(sentence);
    await expect(way(path)).rejects.toMatchObject({
      message: expect.stringContaining("Nothing was started.") as string,
    });
  }
}

describe("the path", () => {
  test("is HOLDFAST_HOME on every platform", () => {
    for (const platform of ["linux", "darwin", "win32"] as const) {
      expect(resolveHome({ HOLDFAST_HOME: "/x", HOME: "/home/a" }, platform)).toBe("/x");
    }
  });

  test("is the platform's convention otherwise", () => {
    expect(resolveHome({ HOME: "/home/a" }, "linux")).toBe("/home/a/.local/state/holdfast");
    expect(resolveHome({ HOME: "/home/a", HOLDFAST_HOME: "" }, "linux")).toBe(
      "/home/a/.local/state/holdfast",
    );
    expect(resolveHome({ HOME: "/home/a", XDG_STATE_HOME: "/state" }, "linux")).toBe("/state/holdfast");
    expect(resolveHome({ HOME: "/home/a", XDG_STATE_HOME: "state" }, "linux")).toBe(
      "/home/a/.local/state/holdfast",
    );
    expect(resolveHome({ HOME: "/Users/a" }, "darwin")).toBe("/Users/a/Library/Application Support/holdfast");
    expect(resolveHome({ HOME: "/Users/elisabeth" }, "darwin")).toBe(
      "/Users/elisabeth/Library/Application Support/holdfast",
    );
    expect(resolveHome({ LOCALAPPDATA: "C:\\Local" }, "win32")).toBe("C:\\Local\\holdfast");
    expect(resolveHome({ USERPROFILE: "C:\\a" }, "win32")).toBe("C:\\a\\AppData\\Local\\holdfast");
  });
});

test("on macOS, a user with a long name gets a directory in which sockets can be created", () => {
  const place = resolveHome({ HOME: "/Users/elisabetta" }, "darwin");
  expect(place).toBe("/Users/elisabetta/.holdfast");
  for (const length of [10, 20, 30]) {
    const longer = resolveHome({ HOME: `/Users/${"x".repeat(length)}` }, "darwin");
    expect(longestSocketPath(longer)).toBeLessThanOrEqual(socketPathLimit("darwin"));
  }
});

test("a new directory is private, and opening it again changes nothing", async () => {
  const opened = await openStateDirectory(home);
  expect(opened).toEqual({
    home,
    storePath: join(home, "store.sqlite"),
    instancesPath: join(home, "instances"),
  });
  expect((await stat(home)).mode & 0o777).toBe(0o700);
  expect(await openStateDirectory(`${home}/`)).toEqual(opened);
  expect(await findStateDirectory(home)).toEqual(opened);
});

test("finding a directory creates nothing", async () => {
  expect(await findStateDirectory(home)).toBeNull();
  expect(await readdir(parent.path)).toEqual([]);
});

test("a relative path is refused", () => refused("state", "is a relative path"));

test("a file is refused, and a directory below a file cannot be created", async () => {
  const file = join(parent.path, "file");
  await writeFile(file, "");
  await refused(file, "is not a directory");
  await refused(join(file, "home"), "cannot be created (ENOTDIR)", openStateDirectory);
  expect(await findStateDirectory(join(file, "home"))).toBeNull();
});

test("a symbolic link is refused, to whatever it points and however it is written", async () => {
  const target = join(parent.path, "target");
  await mkdir(target, { mode: 0o700 });
  await symlink(target, join(parent.path, "link"));
  await symlink(join(parent.path, "nowhere"), join(parent.path, "dangling"));
  await refused(join(parent.path, "link"), "is a symbolic link");
  await refused(`${join(parent.path, "link")}/`, "is a symbolic link");
  await refused(join(parent.path, "dangling"), "is a symbolic link", findStateDirectory);
  await refused(join(parent.path, "dangling"), "is a symbolic link", openStateDirectory);
  await refused(join(parent.path, "dangling", "home"), "cannot be created (ENOENT)", openStateDirectory);
});

test("a directory that others can write is refused, with the command that corrects it", async () => {
  for (const mode of [0o770, 0o702]) {
    await openStateDirectory(home);
    await chmod(home, mode);
    await refused(home, `mode 0${mode.toString(8)}). Run \`chmod 700 '${home}'\``);
    await chmod(home, 0o700);
  }
  await openStateDirectory(home);
});

test("a directory of another user is refused", async (context) => {
  if (whyNoOtherUser !== null) context.skip(whyNoOtherUser);
  await openStateDirectory(home);
  await chown(home, NOBODY, NOBODY);
  await refused(home, `belongs to uid ${NOBODY}, and this is uid 0`);
});

test("a path too long for sockets is refused with the numbers, and nothing is created", async () => {
  // The sockets inside need 50 bytes more.
  const fits = join(parent.path, "f".repeat(107 - 50 - parent.path.length - 1));
  await openStateDirectory(fits);
  await refused(`${fits}ab`, "paths of 109 bytes, and the system allows 107", openStateDirectory);
  await refused(`${fits}ab`, "a path of at most 57 bytes", openStateDirectory);
  expect(await readdir(parent.path)).toHaveLength(1);
});

test("a read-only disk is refused for writing and accepted for reading", async (context) => {
  if (whyNoMounts !== null) context.skip(whyNoMounts);
  await using disk = mountSmallDisk("64k");
  await refused(disk.readOnlyPath, "is on a read-only file system", openStateDirectory);
  await refused(join(disk.readOnlyPath, "new"), "the file system is read-only", openStateDirectory);
  expect(await findStateDirectory(disk.readOnlyPath)).toMatchObject({ home: disk.readOnlyPath });
});

test("a directory that its owner may not write is refused", async (context) => {
  // Root ignores permissions, so this needs another user.
  if (whyNoOtherUser !== null) context.skip(whyNoOtherUser);
  await openStateDirectory(home);
  await chmod(home, 0o500);
  for (const path of [parent.path, join(parent.path, "state"), home]) await chown(path, NOBODY, NOBODY);
  const script = `
    const { openStateDirectory } = await import(${JSON.stringify(pathToFileURL(resolve("dist/store/open-state-directory.js")).href)});
    console.log(await openStateDirectory(${JSON.stringify(home)}).catch((error) => error.code + " " + error.message));`;
  const node = [process.execPath, "--input-type=module", "-e", script];
  const { stdout, stderr } = spawnSync(asNobody[0], [...asNobody.slice(1), ...node], { encoding: "utf8" });
  expect(stdout, stderr).toContain("STATE_UNUSABLE");
  expect(stdout).toContain("is not writable for this user");
});

const mountinfo = [
  "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw",
  "40 22 0:50 / /mnt/remote rw,nosuid - fuse.sshfs host:/home rw,user_id=1000",
  "41 22 0:51 / /mnt/shared rw - virtiofs share rw",
  "42 22 0:300 / /container rw - fuse.fuse-overlayfs fuse-overlayfs rw",
].join("\n");

test("a share of Windows is recognized, also with the prefix of long paths", () => {
  const shares = [String.raw`\\server\share\x`, String.raw`\\?\UNC\server\share`, String.raw`\\.\unc\s\x`];
  expect(shares.map(isShare)).toEqual([true, true, true]);
  expect([String.raw`C:\x`, String.raw`\\?\C:\x`, String.raw`C:\UNC\x`].map(isShare)).toEqual([
    false,
    false,
    false,
  ]);
});

test("network file systems are recognized by their number", () => {
  const numbers = [0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x01021997];
  expect(numbers.map(networkTypeName)).toEqual(["nfs", "smb", "cifs", "smb2", "9p"]);
  // ext4, tmpfs, btrfs, xfs, overlayfs
  for (const local of [0xef53, 0x01021994, 0x9123683e, 0x58465342, 0x794c7630])
    expect(networkTypeName(local)).toBeNull();
});

test("known local FUSE file systems are local, and others count as remote", () => {
  expect(fuseTypeName(mountinfo, 50)).toBe("fuse.sshfs");
  expect(fuseTypeName(mountinfo, 51)).toBe("virtiofs");
  // Device 0:300, as stat(2) packs it.
  expect(fuseTypeName(mountinfo, (300 & 0xff) | ((300 & ~0xff) << 12))).toBeNull();
  expect(fuseTypeName(mountinfo, 99)).toBe("fuse");
});

test("a directory on a local disk is local", async () => {
  expect(await networkFileSystemOf(tmpdir())).toBeNull();
});
