import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Null: possible here. Otherwise the reason to skip. */
export const whyNoMounts: string | null = (() => {
  if (process.platform !== "linux") return "small and read-only file systems are made with Linux mounts";
  const point = mkdtempSync(join(tmpdir(), "hf-mount-"));
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", point]).status === 0;
  if (mounted) spawnSync("umount", [point]);
  rmSync(point, { recursive: true });
  return mounted ? null : "mounting a file system needs root";
})();

interface SmallDisk extends AsyncDisposable {
  readonly path: string;
  /** The same directory through a read-only mount. */
  readonly readOnlyPath: string;
}

/** An in-memory file system with a writable and a read-only mount. */
export function mountSmallDisk(size: string): SmallDisk {
  const writable = mkdtempSync(join(tmpdir(), "hf-"));
  const readOnly = mkdtempSync(join(tmpdir(), "hf-"));
  runCommand("mount", "-t", "tmpfs", "-o", `size=${size},mode=0700`, "tmpfs", writable);
  runCommand("mount", "--bind", writable, readOnly);
  runCommand("mount", "-o", "remount,bind,ro", readOnly);
  mkdirSync(join(writable, "home"), { mode: 0o700 });
  return {
    path: join(writable, "home"),
    readOnlyPath: join(readOnly, "home"),
    async [Symbol.asyncDispose]() {
      for (const point of [readOnly, writable]) {
        // Lazily: handles that only a garbage collection closes may still be open.
        runCommand("umount", "--lazy", point);
        rmSync(point, { recursive: true });
      }
    },
  };
}

function runCommand(command: string, ...args: readonly string[]): void {
  const { status, stderr } = spawnSync(command, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${stderr}`);
}
