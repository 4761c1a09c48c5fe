import { spawnSync } from "node:child_process";
import { access, readdir, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import type { RunRecord } from "../../src/model/run.js";
import { CliFixture } from "../support/cli/cli-fixture.js";
import { mountSmallDisk, whyNoMounts } from "../support/small-disk.js";
import { temporaryDirectory } from "../support/temporary-directory.js";
import { waitFor, withTimeout } from "../support/wait-for.js";

const STACK_TRACE = /\bat .*:\d+:\d+|\(node:|undefined|\[object/;

async function records(cliFixture: CliFixture): Promise<RunRecord[]> {
  const { stdout } = await cliFixture.holdfast("runs", "list", "--all", "--json");
  return JSON.parse(stdout) as RunRecord[];
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

const fillerOf = (path: string): string => join(path, "..", "filler");
const fill = (path: string): Promise<void> =>
  writeFile(fillerOf(path), Buffer.alloc(64 * 1024 * 1024)).catch(() => {});
const free = (path: string): Promise<void> => truncate(fillerOf(path), 0);

/** A foreground command that has filled the disk of the state directory, and continues with `then`. */
async function startFilling(
  cliFixture: CliFixture,
  mark: string,
  then: string,
  ...options: readonly string[]
) {
  const script = `head -c 64M /dev/zero 2>/dev/null >'${fillerOf(cliFixture.home)}'; : >'${mark}'; ${then}`;
  const started = cliFixture.start("run", ...options, "--", "sh", "-c", script);
  started.child.stdin.end();
  let stderr = "";
  started.child.stderr.on("data", (text: Buffer) => (stderr += text.toString()));
  await waitFor("the disk is full", () => exists(mark));
  return { ...started, stderr: () => stderr };
}

describe.skipIf(whyNoMounts !== null)("on a full disk", () => {
  test.each(["8m", "2m"])("a run is refused, and works when there is space again (%s)", async (size) => {
    await using disk = mountSmallDisk(size);
    await using cliFixture = new CliFixture(disk.path);
    // On the smaller disk, the first run of all is refused.
    const before = size === "8m" ? 1 : 0;
    if (before === 1) await cliFixture.holdfast("run", "--", "true");
    await fill(disk.path);
    const refused = await cliFixture.holdfast("run", "--", "true");
    expect(refused).toMatchObject({ code: 125, stdout: "" });
    expect(refused.stderr).toMatch(/^holdfast: [^\n]*(no space|ENOSPC|full)[^\n]*\n$/);
    expect(refused.stderr).toContain(disk.path);
    await cliFixture.expectNoProcesses();
    if (before === 1) expect(await records(cliFixture)).toHaveLength(1);
    await free(disk.path);
    expect(await cliFixture.holdfast("run", "--", "true")).toMatchObject({ code: 0, stderr: "" });
    expect(await records(cliFixture)).toHaveLength(before + 1);
  });

  test("a run that has started ends, and its record is written when there is space again", async () => {
    await using elsewhere = await temporaryDirectory();
    await using disk = mountSmallDisk("8m");
    await using cliFixture = new CliFixture(disk.path);
    const { stderr, finished } = await startFilling(cliFixture, join(elsewhere.path, "filled"), "exit 3");
    await waitFor("the failed write is reported", () => /no space|full/.test(stderr()));
    await free(disk.path);
    const result = await finished;
    expect(result).toMatchObject({ code: 3, stdout: "" });
    expect(await records(cliFixture)).toMatchObject([{ state: "exited", exit: { reason: "exit", code: 3 } }]);
    expect(result.stderr).toMatch(/^holdfast: .*(?:no space|full)/);
    expect(result.stderr).not.toMatch(STACK_TRACE);
  });

  test("output that cannot be stored is delivered later, or reported as lost", async () => {
    await using elsewhere = await temporaryDirectory();
    await using disk = mountSmallDisk("8m");
    await using cliFixture = new CliFixture(disk.path);
    const { finished } = await startFilling(cliFixture, join(elsewhere.path, "filled"), "echo important");
    // Longer than the time for which the last output is awaited.
    await setTimeout(defaults.drainMs + 500);
    await free(disk.path);
    const { code, stdout, stderr } = await finished;
    expect(code).toBe(0);
    if (stdout !== "important\n") expect(stderr).toMatch(/^holdfast: .*bytes of stdout are lost/m);
  });

  test("SIGTERM still ends the command and holdfast", async () => {
    await using elsewhere = await temporaryDirectory();
    await using disk = mountSmallDisk("8m");
    await using cliFixture = new CliFixture(disk.path);
    const mark = join(elsewhere.path, "filled");
    const { child, finished } = await startFilling(cliFixture, mark, "sleep 60", "--grace", "500ms");
    child.kill("SIGTERM");
    const { code, stderr } = await withTimeout(10_000, "holdfast ends", finished).finally(() =>
      child.kill("SIGKILL"),
    );
    await free(disk.path);
    await cliFixture.expectNoProcesses(8_000);
    expect([125, 143]).toContain(code);
    expect(stderr).not.toMatch(STACK_TRACE);
  });

  test.for(["8M", "64M"])("a slow reader with a buffer of %s loses no byte", async (buffer) => {
    await using disk = mountSmallDisk("8m");
    await using cliFixture = new CliFixture(disk.path);
    const holdfast = `timeout -k 1 12 "${process.execPath}" dist/cli/main.js`;
    const result = await cliFixture.shell(
      `${holdfast} run --buffer ${buffer} -- seq 1 2000000 | (sleep 1; sha256sum); echo "\${PIPESTATUS[0]}"`,
    );
    const wanted = spawnSync("sh", ["-c", "seq 1 2000000 | sha256sum"], { encoding: "utf8" }).stdout;
    expect(result.stdout).toBe(`${wanted}0\n`);
    expect(await readdir(join(cliFixture.home, "instances"))).toEqual([]);
  });
});
