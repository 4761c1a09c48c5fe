import { execFile, spawnSync } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, expect } from "vitest";

export const project = fileURLToPath(new URL("../../..", import.meta.url));
export const sanitizedAnchor = join(project, "build/anchor-asan");
export const compiler = process.env["CC"] ?? "cc";
export const canCompile = spawnSync(compiler, ["--version"], { stdio: "ignore", shell: true }).status === 0;
export const execute = promisify(execFile);

/** Builds the anchor with sanitizers and uses it in this file. A report of a sanitizer fails the test. */
export function useSanitizedAnchor(): { readonly reports: () => string } {
  let reports = "";
  beforeAll(async () => {
    reports = await mkdtemp(join(tmpdir(), "hf-reports-"));
    process.env["ASAN_OPTIONS"] = `log_path=${reports}/asan:exitcode=99`;
    process.env["UBSAN_OPTIONS"] = `log_path=${reports}/ubsan:halt_on_error=1:print_stacktrace=1`;
    process.env["HOLDFAST_ANCHOR"] = sanitizedAnchor;
    if (canCompile) await execute(process.execPath, [join(project, "scripts/build-anchor.mjs"), "--asan"]);
  });
  afterEach(async () => {
    const names = await readdir(reports);
    const found = await Promise.all(names.map((name) => readFile(join(reports, name), "utf8")));
    await Promise.all(names.map((name) => rm(join(reports, name))));
    expect(found).toEqual([]);
  });
  afterAll(async () => {
    for (const name of ["ASAN_OPTIONS", "UBSAN_OPTIONS", "HOLDFAST_ANCHOR"]) delete process.env[name];
    await rm(reports, { recursive: true, force: true });
  });
  return { reports: () => reports };
}
