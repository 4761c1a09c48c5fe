import { readFile, stat, statfs } from "node:fs/promises";

/** Numbers of statfs(2) on Linux. On these file systems locks are advisory, delayed, or local to one machine. */
const networkTypes: ReadonlyMap<number, string> = new Map([
  [0x6969, "nfs"],
  [0x517b, "smb"],
  [0xfe534d42, "smb2"],
  [0xff534d42, "cifs"],
  [0x01021997, "9p"],
  [0x00c36400, "ceph"],
  [0x0bd00bd0, "lustre"],
  [0x47504653, "gpfs"],
  [0x5346414f, "afs"],
  [0x6b414653, "afs"],
  [0x73757245, "coda"],
  [0x564c, "ncp"],
  [0x786f4256, "vboxsf"],
]);

/** All FUSE file systems have this number: sshfs and virtiofs, but also the root of some containers. */
const FUSE = 0x65735546;
const localFuse: ReadonlySet<string> = new Set([
  "fuseblk",
  "fuse.fuse-overlayfs",
  "fuse.bindfs",
  "fuse.gocryptfs",
]);

/** The name of the network file system that a directory lies on; null when it is local. */
export async function networkFileSystemOf(dir: string): Promise<string | null> {
  // A drive letter of a network share looks like a local one.
  if (process.platform === "win32") return isShare(dir) ? "smb" : null;
  if (process.platform !== "linux") return null;
  const type = (await statfs(dir)).type >>> 0;
  if (type !== FUSE) return networkTypeName(type);
  const { dev } = await stat(dir);
  return fuseTypeName(await readFile("/proc/self/mountinfo", "utf8"), dev);
}

/** True for `\\server\share`, also with the prefix of long paths. */
export function isShare(path: string): boolean {
  return /^\\\\(?:[^?.]|[?.]\\UNC\\)/i.test(path);
}

export function networkTypeName(type: number): string | null {
  return networkTypes.get(type) ?? null;
}

/** From proc(5) mountinfo: `36 35 0:32 / /mnt rw - fuse.sshfs host:/ rw`. An unknown FUSE file system counts as remote. */
export function fuseTypeName(mountinfo: string, dev: number): string | null {
  const device = `${(dev >>> 8) & 0xfff}:${(dev & 0xff) | ((dev >>> 12) & 0xfff00)}`;
  for (const line of mountinfo.split("\n")) {
    const [mount = "", file = ""] = line.split(" - ");
    if (mount.split(" ")[2] !== device) continue;
    const type = file.split(" ")[0] ?? "fuse";
    return localFuse.has(type) ? null : type;
  }
  return "fuse";
}
