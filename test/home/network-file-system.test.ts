import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { fuseTypeName, networkFileSystemOf, networkTypeName } from "../../src/home/network-file-system.js";

const mountinfo = [
  "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw",
  "40 22 0:50 / /mnt/remote rw,nosuid - fuse.sshfs host:/home rw,user_id=1000",
  "41 22 0:51 / /mnt/shared rw - virtiofs share rw",
  "42 22 0:300 / /container rw - fuse.fuse-overlayfs fuse-overlayfs rw",
].join("\n");

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
