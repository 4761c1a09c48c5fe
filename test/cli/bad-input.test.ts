import { spawnSync } from "node:child_process";
import {
  chmod,
  chown,
  copyFile,
  mkdir,
  readdir,
  readFile,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { join, resolve } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { longestSocketPath, socketPathLimit } from "../../src/home/state-directory.js";
import type { RunRecord } from "../../src/model/run.js";
import { BatchCli } from "../support/cli/batch-cli.js";
import { CliFixture, type CliResult } from "../support/cli/cli-fixture.js";
import { mountSmallDisk, whyNoMounts } from "../support/small-disk.js";

const NOBODY = 65_534;
/** HOME of its own: the inherited one may not be readable. */
const asNobody = `env HOME=/nonexistent setpriv --reuid ${NOBODY} --regid ${NOBODY} --clear-groups`;
const whyNoOtherUser =
  spawnSync("sh", ["-c", `${asNobody} test -r dist/cli/main.js`]).status === 0
    ? null
    : "running as another user needs root";

const STACK_TRACE = /\bat .*:\d+:\d+|\(node:|undefined|\[object/;

/** Expects one line on stderr with these words, and this exit code. */
function expectClear(result: CliResult, code: number, ...words: readonly string[]): void {
  expect(result.stderr).toMatch(/^holdfast: [^\n]+\n$/);
  expect(result.stderr).not.toMatch(STACK_TRACE);
  for (const word of words) expect(result.stderr).toContain(word);
  expect(result).toMatchObject({ code, stdout: "" });
}

let batchCli: BatchCli;
beforeAll(() => {
  batchCli = new BatchCli({ ...process.env, HOLDFAST_IN_PROCESS: "1" });
});
afterAll(() => batchCli[Symbol.asyncDispose]());

/** In one process with all other commands. */
function holdfastIn(home: string, ...args: readonly string[]): Promise<CliResult> {
  return batchCli.holdfastWith({ HOLDFAST_HOME: home }, ...args);
}

/** Expects no processes, and no open records. */
async function expectNothingRuns(cliFixture: CliFixture): Promise<void> {
  await cliFixture.expectNoProcesses();
  if (!(await readdir(cliFixture.home)).includes("store.sqlite")) return;
  const { code, stdout } = await holdfastIn(cliFixture.home, "runs", "list", "--json");
  expect({ code, stdout }).toEqual({ code: 0, stdout: "[]\n" });
}

const run = (...args: readonly string[]): readonly string[] => ["run", ...args, "--", "true"];
const REFUSED: readonly (readonly [args: readonly string[], code: number, ...words: string[]])[] = [
  [run("-d", "--service", "--tell", "ops"), 2, "a service does not end"],
  [["run", "--", "/usr"], 126, "/usr", "not an executable file"],
  [run("--cwd", "/etc/passwd"), 2, "/etc/passwd", "not a directory"],
  [run("--cwd", ""), 2, "directory", "empty"],
  [run("--env", "=x"), 2, "--env", "=x", "NAME=value"],
  [run("--env", "HOLDFAST_RUN_ID=x"), 2, "HOLDFAST_RUN_ID"],
  [run("--env", "BASH_ENV=/x"), 2, "BASH_ENV"],
  [run("--env", "NODE_OPTIONS=-r/x"), 2, "NODE_OPTIONS"],
  [run("--allow-env", "LD_X", "--env", "LD_Y=1"), 2, "LD_Y"],
  [run("--label", "=x"), 2, "--label", "=x", "key=value"],
  [run("--timeout", "9999999d"), 2, "9999999d", "365 days"],
  [run("--timeout", "soon"), 2, `"soon" is not a duration`],
  [run("--buffer", "99999999G"), 2, "--buffer", "99999999G"],
  [run("--memory", "1000000G"), 2, "--memory", "from 1 MiB to 128 TiB"],
  [run("--pids", "1.5"), 2, "--pids", "whole number"],
  [run("--cpus", "two"), 2, "--cpus", "two", "not a number"],
  [run("--on-escap", "fail"), 2, "--on-escap", "did you mean --on-escape"],
  [["runs", "lst"], 2, "lst", "did you mean holdfast runs list"],
  [["tasks", "task_4k2m"], 2, "unknown command 'task_4k2m'"],
  [["runs", "list", "--state", "gone"], 2, "gone", "exited"],
  [["runs", "list", "extra"], 2, "too many arguments"],
  [["runs", "show", "nosuch"], 1, "nosuch"],
  [["runs", "show", "%"], 1, "no run"],
  [["runs", "show", ""], 1, "no run"],
];

describe("a command line", () => {
  test("that cannot be executed is refused in one line, and creates nothing", async () => {
    await using cliFixture = await CliFixture.open();
    for (const [args, code, ...words] of REFUSED)
      expectClear(await holdfastIn(cliFixture.home, ...args), code, ...words);
    await expectNothingRuns(cliFixture);
  });

  test("in a removed directory needs --cwd", async () => {
    await using cliFixture = await CliFixture.open();
    const gone = 'mkdir "$HOLDFAST_HOME/d"; cd "$HOLDFAST_HOME/d"; rmdir "$HOLDFAST_HOME/d"';
    const main = resolve("dist/cli/main.js");
    const holdfast = `"${process.execPath}" "${main}"`;
    expect(await cliFixture.shell(`${gone}; ${holdfast} run --cwd / -- pwd`)).toMatchObject({
      code: 0,
      stdout: "/\n",
    });
    const result = await cliFixture.shell(`${gone}; ${holdfast} run -- true`);
    expectClear(result, result.code ?? 0, "current directory");
    expect([2, 125]).toContain(result.code);
  });

  test("with the prefix of all run ids is refused with the ids", async () => {
    await using cliFixture = await CliFixture.open();
    const { home } = cliFixture;
    for (let count = 0; count < 2; count += 1) await holdfastIn(home, "run", "--", "true");
    const { stdout } = await holdfastIn(home, "runs", "list", "--all", "--json");
    const ids = (JSON.parse(stdout) as RunRecord[]).map(({ runId }) => runId);
    expect(ids).toHaveLength(2);
    expectClear(await holdfastIn(home, "runs", "show", "run_"), 2, ...ids);
    expect((await holdfastIn(home, "runs", "show", ids[0] ?? "")).code).toBe(0);
  });
});

describe("a state directory", () => {
  async function refused(cliFixture: CliFixture, home: string, ...words: readonly string[]): Promise<void> {
    expectClear(await holdfastIn(home, "run", "--", "true"), 125, home, ...words);
    await cliFixture.expectNoProcesses();
  }

  test("that is relative, a symbolic link, writable by others, a file, or of another user is refused", async () => {
    await using cliFixture = await CliFixture.open();
    await refused(cliFixture, "relative/path", "relative");
    const real = join(cliFixture.home, "real");
    await mkdir(real, { mode: 0o700 });
    await symlink(real, join(cliFixture.home, "link"));
    await refused(cliFixture, join(cliFixture.home, "link"), "symbolic link");
    await chmod(real, 0o777);
    await refused(cliFixture, real, "can be written by others", "chmod 700");
    await writeFile(join(cliFixture.home, "file"), "");
    await refused(cliFixture, join(cliFixture.home, "file"), "not a directory");
    if (whyNoOtherUser === null) {
      await chmod(real, 0o700);
      await chown(real, NOBODY, NOBODY);
      await refused(cliFixture, real, `belongs to uid ${NOBODY}`);
    }
    expect(await readdir(real)).toEqual([]);
  });

  test("may have as long a path as the message says, and not a byte longer", async () => {
    await using cliFixture = await CliFixture.open();
    const room = socketPathLimit("linux") - longestSocketPath(cliFixture.home);
    const longest = join(cliFixture.home, "x".repeat(room - 1));
    const fits = await holdfastIn(longest, "run", "--", "sh", "-c", "sleep 0.01; exit 7");
    expect(fits).toMatchObject({ code: 7, stderr: "" });
    await refused(cliFixture, `${longest}x`, "too long", `at most ${longest.length} bytes`);
  });

  test("that is read-only is refused for a run, and can be read", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("16m");
    await using cliFixture = new CliFixture(disk.path);
    await holdfastIn(disk.path, "run", "--", "true");
    await refused(cliFixture, disk.readOnlyPath, "read-only");
    const listed = await holdfastIn(disk.readOnlyPath, "runs", "list", "--all", "--json");
    expect(listed).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(listed.stdout)).toHaveLength(1);
  });

  test("that its owner may not write is refused", async (context) => {
    if (whyNoOtherUser !== null) context.skip(whyNoOtherUser);
    await using cliFixture = await CliFixture.open();
    await chown(cliFixture.home, NOBODY, NOBODY);
    await chmod(cliFixture.home, 0o500);
    const result = await cliFixture.shell(`${asNobody} "${process.execPath}" dist/cli/main.js run -- true`);
    expectClear(result, 125, cliFixture.home, "not writable");
  });

  const inStore = (sql: string) => async (store: string) => {
    const db = new DatabaseSync(store);
    db.exec(`${sql}; pragma wal_checkpoint(truncate)`);
    db.close();
  };
  test.each<[string, (store: string) => Promise<void>, readonly string[]]>([
    ["damaged", (store) => writeFile(store, "garbage".repeat(2_000)), ["damaged"]],
    ["truncated", (store) => truncate(store, 5_000), ["damaged"]],
    ["of another program", inStore("drop table holdfast_migrations"), ["some other program"]],
    [
      "of a newer version",
      inStore("insert into holdfast_migrations (id, name, applied_at) values (9999, 'x', 0)"),
      ["newer Holdfast", "Upgrade"],
    ],
  ])("with a store that is %s is reported by every command, and not changed", async (_, spoil, words) => {
    await using cliFixture = await CliFixture.open();
    const store = join(cliFixture.home, "store.sqlite");
    await holdfastIn(cliFixture.home, "run", "--", "true");
    await inStore("select 1")(store);
    await spoil(store);
    const before = await readFile(store);
    expectClear(await holdfastIn(cliFixture.home, "run", "--", "true"), 125, store, ...words);
    expectClear(await holdfastIn(cliFixture.home, "runs", "list"), 5, store, ...words);
    expectClear(await holdfastIn(cliFixture.home, "runs", "show", "x"), 5, store, ...words);
    expect((await readFile(store)).equals(before)).toBe(true);
    await cliFixture.expectNoProcesses();
    expect(await readdir(join(cliFixture.home, "instances"))).toEqual([]);
  });
});

describe("an anchor binary", () => {
  const built = resolve("build/anchor");

  test.each<[string, (path: string) => Promise<unknown>, RegExp]>([
    ["missing", async () => {}, /is missing/],
    ["a directory", (path) => mkdir(path), /cannot be read/],
    ["empty", (path) => writeFile(path, "", { mode: 0o755 }), /./],
    ["a text file", (path) => writeFile(path, "this is no program\n", { mode: 0o755 }), /./],
    [
      "truncated",
      async (path) => {
        await copyFile(built, path);
        await truncate(path, 20_000);
      },
      /./,
    ],
    ["a program that prints nothing", (path) => copyFile("/bin/true", path), /./],
    ["a program that prints something else", (path) => copyFile("/bin/echo", path), /./],
  ])("that is %s is reported with its path, and nothing is started", async (_, make, sentence) => {
    await using cliFixture = await CliFixture.open();
    const path = join(cliFixture.home, "my-anchor");
    await make(path);
    const env = { HOLDFAST_HOME: cliFixture.home, HOLDFAST_ANCHOR: path };
    const result = await batchCli.holdfastWith(env, "run", "--", "true");
    expectClear(result, 125);
    expect(result.stderr).toMatch(sentence);
    await expectNothingRuns(cliFixture);
    expect(result.stderr).toMatch(/my-anchor|HOLDFAST_ANCHOR|\/bin\/anchor-/);
  });

  test("that is not executable is used all the same, or reported with its path", async () => {
    await using cliFixture = await CliFixture.open();
    const path = join(cliFixture.home, "my-anchor");
    await copyFile(built, path);
    await chmod(path, 0o600);
    const env = { HOLDFAST_HOME: cliFixture.home, HOLDFAST_ANCHOR: path };
    const result = await batchCli.holdfastWith(env, "run", "--", "sh", "-c", "exit 7");
    if (result.code === 7) expect(result.stderr).toBe("");
    else expectClear(result, 125, "my-anchor");
    await expectNothingRuns(cliFixture);
  });

  test("on a file system mounted noexec is reported with the remedy", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("16m");
    await using cliFixture = new CliFixture(disk.path);
    expect(spawnSync("mount", ["-o", "remount,noexec", join(disk.path, "..")]).status).toBe(0);
    expectClear(await holdfastIn(disk.path, "run", "--", "true"), 125, "noexec", "HOLDFAST_HOME");
    await expectNothingRuns(cliFixture);
  });
});

describe("a user without privileges", () => {
  const holdfast = `HOME=/nonexistent ${asNobody} "${process.execPath}" dist/cli/main.js`;

  test("runs commands without a cgroup, and sees the weaker tier", async (context) => {
    if (whyNoOtherUser !== null) context.skip(whyNoOtherUser);
    await using cliFixture = await CliFixture.open();
    await chown(cliFixture.home, NOBODY, NOBODY);
    const script = "id -u; sleep 60 & setsid sleep 61 & sleep 0.2; exit 7";
    const result = await cliFixture.shell(`${holdfast} run -- sh -c '${script}'`);
    expect(result).toMatchObject({ code: 7, stdout: `${NOBODY}\n` });
    expect(result.stderr).toContain("cleaned up 2 leftover processes");
    const listed = await cliFixture.shell(`${holdfast} runs list --all --json`);
    const [record] = JSON.parse(listed.stdout) as RunRecord[];
    expect(record).toMatchObject({ residueCount: 2, emptiness: "proven", boundary: { cgroup: null } });
    expect(record?.tier).toMatch(/^subreaper\+launcher\+/);
    expect(record?.boundary?.note).toMatch(/cgroup/);
    const shown = await cliFixture.shell(`${holdfast} runs show '${record?.runId}'`);
    expect(shown.stdout).toContain(record?.boundary?.note ?? "no note");
  });

  test("sees which directory or program may not be used", async (context) => {
    if (whyNoOtherUser !== null) context.skip(whyNoOtherUser);
    await using cliFixture = await CliFixture.open();
    await chown(cliFixture.home, NOBODY, NOBODY);
    const closed = join(cliFixture.home, "closed");
    const program = join(cliFixture.home, "program");
    await mkdir(join(closed, "inside"), { recursive: true });
    await chmod(closed, 0o700);
    await copyFile("/bin/true", program);
    await chmod(program, 0o700);
    for (const directory of [closed, join(closed, "inside")])
      expectClear(
        await cliFixture.shell(`${holdfast} run --cwd '${directory}' -- true`),
        2,
        `cannot enter directory ${directory}`,
        "permission denied",
      );
    const denied = await cliFixture.shell(`${holdfast} run -- '${program}'`);
    expectClear(denied, 126, `cannot run ${program}`, "permission denied");
    const listed = await cliFixture.shell(`${holdfast} runs list --json`);
    expect(listed).toMatchObject({ code: 0, stdout: "[]\n" });
  });
});
