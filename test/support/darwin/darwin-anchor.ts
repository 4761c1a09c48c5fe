import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, chmodSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { anchorDirectory, anchorSources } from "../../../scripts/anchor-sources.mjs";
import { whyNoCompiler } from "../native-programs.js";
import type { SandboxTier } from "../sandbox.js";

const project = fileURLToPath(new URL("../../..", import.meta.url));
const shim = fileURLToPath(new URL("shim", import.meta.url));

/** Null: the files of the anchor for macOS run here, over shims of kqueue and libproc. Otherwise the reason to skip. */
export const whyNoDarwinShim: string | null =
  process.platform !== "linux"
    ? "the shims are for Linux"
    : process.getuid?.() !== 0
      ? "only root may see the forks of all processes"
      : whyNoCompiler;

/** Lineages as on macOS. */
export const lineageTier: SandboxTier = {
  name: "lineage",
  weaken: "",
  recorded: /^lineage\+launcher\+unique$/,
  delegated: false,
  whyNot: whyNoDarwinShim,
};

/** Headers are not looked at one by one. */
function isFresh(output: string, sources: readonly string[]): boolean {
  const built = statSync(output, { throwIfNoEntry: false });
  const folders = [...new Set(sources.map((source) => dirname(source))), fileURLToPath(import.meta.url)];
  const inputs = folders.flatMap((folder) =>
    statSync(folder).isDirectory() ? readdirSync(folder).map((name) => join(folder, name)) : [folder],
  );
  return built !== undefined && inputs.every((input) => statSync(input).mtimeMs < built.mtimeMs);
}

export function compile(output: string, flags: readonly string[], sources: readonly string[]): void {
  const cc = process.env["CC"]?.trim() || "cc";
  const all = [
    "-std=c11",
    "-D_GNU_SOURCE",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-O1",
    "-g",
    ...flags,
    "-o",
    output,
  ];
  if (isFresh(output, sources)) return;
  const line = `exec ${cc} "$@"`;
  const { status, stderr } = spawnSync("sh", ["-c", line, "sh", ...all, ...sources], { encoding: "utf8" });
  if (status !== 0) throw new Error(`${output}: ${stderr}`);
}

const common = ["connection.c", "proc-stat.c"].map((name) => join(shim, name));

const build = join(project, "build");
const anchorPath = join(build, "anchor-darwin-shim");
const kernelPath = join(build, "darwin-shim-kernel");

function buildPrograms(): void {
  mkdirSync(build, { recursive: true });
  compile(
    anchorPath,
    [
      ...["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"],
      `-I${anchorDirectory}`,
      ...["-isystem", join(shim, "include"), "-include", join(shim, "include/macos.h")],
    ],
    [
      ...anchorSources("darwin", ".c"),
      ...common,
      ...["kqueue.c", "libproc.c", "system.c"].map((name) => join(shim, name)),
    ],
  );
  compile(kernelPath, [], [join(shim, "kernel.c"), ...common]);
}

/** Uses the anchor for macOS in this file, with sanitizers, whose reports fail the test. */
export function useDarwinAnchor(): void {
  let directory = "";
  let kernel: ChildProcess | null = null;
  beforeAll(async () => {
    if (whyNoDarwinShim !== null) return;
    directory = mkdtempSync(join(tmpdir(), "hf-"));
    chmodSync(directory, 0o1777);
    buildPrograms();
    kernel = spawn(kernelPath, [], { stdio: ["pipe", "pipe", "inherit"] });
    await once(kernel.stdout ?? kernel, "data");
    process.env["HOLDFAST_ANCHOR"] = anchorPath;
    process.env["ASAN_OPTIONS"] = `log_path=${directory}/asan:exitcode=99:detect_leaks=0`;
    process.env["UBSAN_OPTIONS"] = `log_path=${directory}/ubsan:halt_on_error=1:print_stacktrace=1`;
  });
  afterEach(() => {
    const reports =
      directory === "" ? [] : readdirSync(directory).filter((name) => /^(?:asan|ubsan)\./.test(name));
    expect(reports.map((name) => readFileSync(join(directory, name), "utf8"))).toEqual([]);
  });
  afterAll(async () => {
    for (const name of ["HOLDFAST_ANCHOR", "ASAN_OPTIONS", "UBSAN_OPTIONS"]) delete process.env[name];
    if (directory === "") return;
    // The files that the kernel and the anchors of this pid namespace wrote: `path_of`, `shim_confstr`. The next kernel starts
    // when this one has ended.
    const prefix = `hf-darwin-${statSync("/proc/self/ns/pid").ino}`;
    for (const folder of ["/dev/shm", "/tmp"])
      for (const name of readdirSync(folder))
        if (name.startsWith(`${prefix}.`) || name.startsWith(`${prefix}-`))
          rmSync(join(folder, name), { recursive: true, force: true });
    if (kernel !== null) {
      const exited = once(kernel, "exit");
      kernel.stdin?.end();
      await exited;
    }
    rmSync(directory, { recursive: true, force: true });
  });
}
