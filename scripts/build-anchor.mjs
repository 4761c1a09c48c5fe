// Compiles anchor/ to build/anchor (anchor.exe on Windows), or with --asan to build/anchor-asan. CC names another
// compiler; without any, Zig is fetched from npm.
//
// With --target SYSTEM-ARCHITECTURE, such as linux-x64: by Zig to build/anchor-<target>, for a package. With --gcc too,
// to build/anchor-<target>-gcc by Debian's compiler for that target, where it is installed.

import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { anchorDirectory, anchorSources } from "./anchor-sources.mjs";
import { zigProgram } from "./zig.mjs";

/** Leaves out what is not used, of libc too. */
const STATIC = ["-static", "-Wl,--gc-sections"];
const LIBRARIES = ["ws2_32", "iphlpapi", "psapi", "advapi32", "bcrypt", "ntdll", "shell32"].map(
  (name) => `-l${name}`,
);
/** A build that is older is one that was killed, whose pid another process has now. */
const LOCK_MS = 15 * 60_000;
/** `gcc`: Debian's compilers, native or cross: gcc-x86-64-linux-gnu, gcc-aarch64-linux-gnu. */
const TARGETS = {
  "linux-x64": {
    zig: "x86_64-linux-musl",
    gcc: "x86_64-linux-gnu-gcc",
    flags: STATIC,
    libraries: [],
    suffix: "",
  },
  "linux-arm64": {
    zig: "aarch64-linux-musl",
    gcc: "aarch64-linux-gnu-gcc",
    flags: STATIC,
    libraries: [],
    suffix: "",
  },
  "darwin-x64": {
    zig: "x86_64-macos.11.0",
    gcc: null,
    flags: ["-Wl,-dead_strip"],
    libraries: [],
    suffix: "",
  },
  "darwin-arm64": {
    zig: "aarch64-macos.11.0",
    gcc: null,
    flags: ["-Wl,-dead_strip"],
    libraries: [],
    suffix: "",
  },
  "win32-x64": { zig: "x86_64-windows-gnu", gcc: null, flags: [], libraries: LIBRARIES, suffix: ".exe" },
  "win32-arm64": {
    zig: "aarch64-windows-gnu",
    gcc: null,
    flags: [],
    libraries: LIBRARIES,
    suffix: ".exe",
  },
};
const FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", `-I${anchorDirectory}`];
const ASAN_FLAGS = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined"];

class BuildFailed extends Error {}

const self = fileURLToPath(import.meta.url);
const root = dirname(dirname(self));

try {
  build(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof BuildFailed)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}

function build(options) {
  if (options.includes("--fuzz")) throw new BuildFailed("--fuzz is reserved; nothing is built with it yet");
  const asan = options[0] === "--asan" && options.length === 1;
  const named = options[0] === "--target" ? options[1] : null;
  const gcc = named === null ? null : TARGETS[named]?.gcc;
  const wantsGcc = options[2] === "--gcc" && options.length === 3;
  const known = options.length === 0 || asan || (named in TARGETS && (options.length === 2 || wantsGcc));
  if (!known)
    throw new BuildFailed(
      `unknown option ${options.join(" ")}; the options are --asan and --target ${Object.keys(TARGETS).join(", ")}, with --gcc`,
    );
  const target = named ?? `${process.platform}-${process.arch}`;
  const system = target.replace(/-.*/, "");
  const sources = anchorSources(system, ".c");
  const suffix = TARGETS[target]?.suffix ?? "";
  const variant = asan ? "-asan" : named === null ? "" : `-${named}${wantsGcc ? "-gcc" : ""}`;
  const output = join(root, "build", `anchor${variant}${suffix}`);
  const inputs = [...sources, ...anchorSources(system, ".h"), self];
  if (isFresh(output, inputs)) return;
  mkdirSync(dirname(output), { recursive: true });
  whileLocked(`${output}.lock`, () => {
    // Another build may have just finished.
    if (isFresh(output, inputs)) return;
    // Renamed when complete: a build that fails or is interrupted keeps the previous binary.
    const unfinished = `${output}.${process.pid}.tmp${suffix}`;
    try {
      const files = ["-o", unfinished, ...sources];
      if (named === null) compileHere(asan, target, files);
      else if (wantsGcc && gcc && works(gcc)) compileForTarget([gcc], target, files);
      else compileWithZig(target, files);
      renameSync(unfinished, output);
    } finally {
      rmSync(unfinished, { force: true });
    }
    console.log(`built ${output}`);
  });
}

/** With the compiler of this machine, if it has one. Windows' compilers have other flags, or lack headers. */
function compileHere(asan, target, files) {
  const cc = process.platform === "win32" ? null : systemCompiler();
  if (asan) {
    if (cc === null) throw new BuildFailed("--asan needs a C compiler: install one, or name it in CC");
    mustRun(cc, [...ASAN_FLAGS, ...files]);
    return;
  }
  if (cc === null) {
    compileWithZig(target, files);
    return;
  }
  const flags = TARGETS[target]?.flags ?? STATIC;
  const linked = run(cc, ["-O2", ...flags, ...files]);
  process.stderr.write(linked.status === 0 ? linked.said : "");
  if (linked.status === 0) return;
  // Without a static libc the sources may still compile. If they do not, the second failure shows it.
  mustRun(cc, ["-O2", ...files]);
  console.log(
    `note: ${cc.join(" ")} cannot link with ${flags.join(" ")}; the binary depends on this system's libc`,
  );
}

/** A package must not depend on the libc of the build system. */
function compileForTarget(compiler, target, files) {
  const { flags, libraries } = TARGETS[target];
  mustRun(compiler, ["-O2", "-s", ...flags, ...files, ...libraries]);
}

function compileWithZig(target, files) {
  if (!(target in TARGETS))
    throw new BuildFailed(`no C compiler found, and none can be fetched for ${target}: install cc`);
  let zig;
  try {
    zig = zigProgram();
  } catch (error) {
    throw new BuildFailed(`${error.message}; the anchor for ${target} was not built`);
  }
  compileForTarget([zig, "cc", "-target", TARGETS[target].zig], target, files);
}

/** Waits while another process builds the same file. The lock of a process that is gone counts for nothing. */
function whileLocked(lock, work) {
  for (;;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: "wx" });
      break;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
      if (isAbandoned(lock)) rmSync(lock, { force: true });
      else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
    }
  }
  try {
    work();
  } finally {
    rmSync(lock, { force: true });
  }
}

function isAbandoned(lock) {
  try {
    if (Date.now() - statSync(lock).mtimeMs > LOCK_MS) return true;
    const pid = Number(readFileSync(lock, "utf8"));
    // An empty lock is being written.
    if (pid === 0) return false;
    // oxlint-disable-next-line no-restricted-properties -- signal 0 only asks.
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error.code === "ESRCH";
  }
}

/** Returns words, because CC may contain flags. Null if there is no compiler. */
function systemCompiler() {
  const named = process.env.CC?.trim();
  if (named) return named.split(/\s+/);
  const found = ["cc", "gcc", "clang"].find(works);
  return found === undefined ? null : [found];
}

function works(compiler) {
  return spawnSync(compiler, ["--version"], { stdio: "ignore" }).status === 0;
}

function mustRun(compiler, args) {
  const { status, said, line } = run(compiler, args);
  if (status !== 0) throw new BuildFailed(`${said}the anchor was not built; this failed:\n  ${line}`);
  process.stderr.write(said);
}

function run([command, ...words], args) {
  const all = [...words, ...FLAGS, ...args];
  const { status, error, stdout, stderr } = spawnSync(command, all, { cwd: root, encoding: "utf8" });
  const said = error ? `${error.message}\n` : stdout + stderr;
  return { status: status ?? 1, said, line: [command, ...all].join(" ") };
}

function isFresh(output, inputs) {
  const built = statSync(output, { throwIfNoEntry: false });
  return built !== undefined && inputs.every((input) => statSync(input).mtimeMs < built.mtimeMs);
}
