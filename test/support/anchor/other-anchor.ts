import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { anchorDirectory, anchorSources } from "../../../scripts/anchor-sources.mjs";
import { compile } from "../darwin/darwin-anchor.js";
import { whyNoCompiler } from "../native-programs.js";
import type { SandboxTier } from "../sandbox.js";

/** Only the process group of a run, as on POSIX systems that the anchor does not know. */
export const groupTier: SandboxTier = {
  name: "group",
  weaken: "",
  recorded: /^group\+launcher\+number$/,
  delegated: false,
  whyNot: process.platform === "linux" ? whyNoCompiler : "it is built for Linux",
};

/** Uses the anchor of `os/other` in this file, with sanitizers, whose reports fail the test. */
export function useOtherAnchor(): void {
  let directory = "";
  const before: NodeJS.ProcessEnv = {};
  beforeAll(() => {
    if (groupTier.whyNot !== null) return;
    directory = mkdtempSync(join(tmpdir(), "hf-"));
    chmodSync(directory, 0o1777);
    const path = join(directory, "anchor-other");
    compile(
      path,
      [
        ...["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"],
        `-I${anchorDirectory}`,
      ],
      anchorSources("other", ".c"),
    );
    const env = {
      HOLDFAST_ANCHOR: path,
      ASAN_OPTIONS: `log_path=${directory}/asan:exitcode=99:detect_leaks=0`,
      UBSAN_OPTIONS: `log_path=${directory}/ubsan:halt_on_error=1:print_stacktrace=1`,
    };
    for (const [name, value] of Object.entries(env)) {
      before[name] = process.env[name];
      process.env[name] = value;
    }
  });
  afterEach(() => {
    const reports =
      directory === "" ? [] : readdirSync(directory).filter((name) => /^(?:asan|ubsan)\./.test(name));
    expect(reports.map((name) => readFileSync(join(directory, name), "utf8"))).toEqual([]);
  });
  afterAll(() => {
    for (const [name, value] of Object.entries(before))
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    if (directory !== "") rmSync(directory, { recursive: true, force: true });
  });
}
