import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

const cli = join(import.meta.dirname, "../../../dist/cli/main.js");

/** A marked process, a profile whose owner is in a pid file, and what `foreign list` thinks of that owner. */
function fateWith(write: (pidFile: string) => void): { readonly kind: string; readonly why: string } {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-foreign-"));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const pidFile = join(directory, "owner.pid");
  const config = join(directory, "config.toml");
  writeFileSync(
    config,
    `[[foreign]]\nname = "tool"\nmarker = "TOOL_TEST_MARK"\nowner = { pid-file = "${pidFile}" }\n`,
  );
  const marked = spawn("sleep", ["60"], { env: { ...process.env, TOOL_TEST_MARK: directory } });
  onTestFinished(() => void marked.kill("SIGKILL"));
  write(pidFile);
  const { stdout } = spawnSync(process.execPath, [cli, "foreign", "list", "--all", "--json"], {
    env: { ...process.env, HOLDFAST_CONFIG: config, HOLDFAST_HOME: join(directory, "home") },
    encoding: "utf8",
  });
  const found = (JSON.parse(stdout) as { pid: number; owner: { kind: string; why: string } }[]).find(
    ({ pid }) => pid === marked.pid,
  );
  return found?.owner ?? expect.fail("the marked process was not listed");
}

test.each<[string, (pidFile: string) => void, string]>([
  ["names a living process", (path) => writeFileSync(path, `${process.pid}\n`), "alive"],
  ["is not there", () => undefined, "gone"],
  ["is empty, because it is just being written", (path) => writeFileSync(path, ""), "unknown"],
  ["holds no number", (path) => writeFileSync(path, "pid: ?\n"), "unknown"],
  ["cannot be read", (path) => mkdirSync(path), "unknown"],
])("the pid file %s", (_, write, kind) => {
  expect(fateWith(write).kind).toBe(kind);
});
