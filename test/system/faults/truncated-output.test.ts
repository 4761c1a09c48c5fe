import { existsSync } from "node:fs";
import { readdir, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ForegroundFixture, LONG_TIMEOUT } from "../../support/cli/foreground-fixture.js";
import { type CliProcess, waitForText, CliFixture } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

const LINES = 60_000;
const LINE = 9;
const TOTAL = 3 + LINES * LINE;

/** Says that it is up, waits for the file, then prints numbered lines. */
function printer(home: string): readonly string[] {
  const script = `echo up; while ! [ -e '${home}/go' ]; do sleep 0.02; done; seq -f '%08.0f' 1 ${LINES}`;
  return ["--", "sh", "-c", script];
}

/** The spool files of the only run, oldest first. */
async function segments(home: string): Promise<{ readonly path: string; readonly size: number }[]> {
  for (const instance of await readdir(join(home, "instances"))) {
    const runs = join(home, "instances", instance, "runs");
    for (const run of existsSync(runs) ? await readdir(runs) : []) {
      const names = (await readdir(join(runs, run))).filter((name) => name.startsWith("stdout.")).toSorted();
      const paths = names.map((name) => join(runs, run, name));
      return Promise.all(paths.map(async (path) => ({ path, size: (await stat(path)).size })));
    }
  }
  return [];
}

async function spooled(home: string): Promise<number> {
  return (await segments(home)).reduce((sum, { size }) => sum + size, 0);
}

/** Nothing but whole lines in ascending order, but for the two pieces around each gap; and nothing that is no digit. */
function expectSubsequence(text: string): void {
  expect(text).not.toContain("\0");
  expect(text.startsWith("up\n")).toBe(true);
  const numbers = text
    .slice(3)
    .split("\n")
    .filter((line) => line.length === LINE - 1);
  expect(numbers.every((line) => /^\d{8}$/.test(line))).toBe(true);
  expect(numbers.map(Number).every((number, at, all) => at === 0 || number > (all[at - 1] ?? 0))).toBe(true);
}

function missing(stderr: string): number {
  const said = [...stderr.matchAll(/(\d+) bytes of stdout are missing: a spool file was truncated/g)];
  return said.reduce((sum, [, bytes]) => sum + Number(bytes), 0);
}

/** While its readers are stopped, the command's output waits in the spool, where it is truncated. */
async function truncatedUnread(cliFixture: CliFixture, going: CliProcess, reader: number): Promise<void> {
  await waitForText(going.child.stdout, "up\n");
  process.kill(reader, "SIGSTOP");
  await writeFile(join(cliFixture.home, "go"), "");
  await waitFor("the buffer is full", async () => (await spooled(cliFixture.home)) > 200 * 1024, 20_000);
  const paths = (await segments(cliFixture.home)).map(({ path }) => path);
  await truncate(paths.at(-1) ?? "", 0);
  await truncate(paths.at(-3) ?? "", 77);
  process.kill(reader, "SIGCONT");
}

describe("truncated output is reported, never replaced by other bytes:", LONG_TIMEOUT, () => {
  test("to a foreground caller through the gateway", async () => {
    await using fixture = await ForegroundFixture.started();
    const going = fixture.start("run", "--buffer", "256K", ...printer(fixture.home));
    await truncatedUnread(fixture, going, (await fixture.status()).pid);
    going.child.stdin.end();
    const { code, stdout, stderr } = await going.finished;
    expect(code).toBe(0);
    expectSubsequence(stdout);
    expect(missing(stderr)).toBeGreaterThan(0);
    expect(Buffer.byteLength(stdout) + missing(stderr)).toBe(TOTAL);
  });

  test("to a foreground caller in its own process", async () => {
    await using cliFixture = await CliFixture.open();
    const going = cliFixture.start("run", "--buffer", "256K", ...printer(cliFixture.home));
    await truncatedUnread(cliFixture, going, going.child.pid ?? 0);
    going.child.stdin.end();
    const { code, stdout, stderr } = await going.finished;
    expect(code).toBe(0);
    expectSubsequence(stdout);
    expect(stderr).toMatch(/\d+ bytes of stdout are missing: a spool file was truncated/);
    expect(Buffer.byteLength(stdout)).toBeLessThan(TOTAL);
  });

  test("by `logs`, to a follower and to a late reader, and by `runs show`", async () => {
    await using fixture = await ForegroundFixture.started();
    const { stdout: id } = await fixture.holdfast("run", "-d", ...printer(fixture.home));
    const runId = /run_\w+/.exec(id)?.[0] ?? "";
    await waitFor("it is up", async () => (await spooled(fixture.home)) === 3);
    const follower = fixture.start("logs", "-f", runId);
    await waitForText(follower.child.stdout, "up\n");
    await truncate((await segments(fixture.home))[0]?.path ?? "", 0);
    await writeFile(join(fixture.home, "go"), "");
    const followed = await follower.finished;
    expectSubsequence(followed.stdout);
    expect(Buffer.byteLength(followed.stdout) + missing(followed.stderr)).toBe(TOTAL);
    const late = await fixture.holdfast("logs", runId);
    expect(late.stdout).not.toContain("\0");
    expect(late.stdout.endsWith(`${String(LINES).padStart(8, "0")}\n`)).toBe(true);
    const client = await fixture.client();
    const page = await client.log({
      params: { runId },
      query: { stream: "stdout", offset: 0, maxBytes: 100 },
    });
    expect(page).toMatchObject({ offset: 3, skipped: 3, lost: 3 });
    expect((await fixture.holdfast("runs", "show", runId)).stdout).toContain("3 bytes of stdout are missing");
    const shown = JSON.parse((await fixture.holdfast("runs", "show", runId, "--json")).stdout) as {
      readonly events: readonly { readonly type: string; readonly data: unknown }[];
    };
    expect(shown.events.find(({ type }) => type === "output-lost")?.data).toEqual({
      stream: "stdout",
      lost: 3,
    });
    // After the end, too.
    await truncate((await segments(fixture.home)).at(-1)?.path ?? "", 90);
    const short = await fixture.holdfast("logs", runId);
    expect(missing(short.stderr)).toBeGreaterThan(0);
    expect(short.stdout).not.toContain("\0");
  });
});
