import { spawnSync } from "node:child_process";
import {
  access,
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
import { setTimeout } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { longestSocketPath, socketPathLimit } from "../../src/home/state-directory.js";
import type { RunRecord } from "../../src/model/run.js";
import { CliFixture, type CliResult } from "../support/cli/cli-fixture.js";
import { mountSmallDisk, whyNoMounts } from "../support/small-disk.js";
import { temporaryDirectory } from "../support/temporary-directory.js";
import { waitFor } from "../support/wait-for.js";

const NOBODY = 65_534;
/** With a home of its own: the other's is closed to it. */
const asNobody = `env HOME=/nonexistent setpriv --reuid ${NOBODY} --regid ${NOBODY} --clear-groups`;
const whyNoOtherUser =
  spawnSync("sh", ["-c", `${asNobody} test -r dist/cli/main.js`]).status === 0
    ? null
    : "becoming another user, who can read this directory, needs root";

/** No trace of our own insides. */
const INSIDES = /\bat .*:\d+:\d+|\(node:|undefined|\[object/;

/** One line that names the thing, and the exit code that goes with it. */
function expectClear(result: CliResult, code: number, ...words: readonly string[]): void {
  expect(result.stderr).toMatch(/^holdfast: [^\n]+\n$/);
  expect(result.stderr).not.toMatch(INSIDES);
  for (const word of words) expect(result.stderr).toContain(word);
  expect(result).toMatchObject({ code, stdout: "" });
}

/** Nothing is left in a state that a later reader would take for alive. */
async function expectNothingRuns(cliFixture: CliFixture): Promise<void> {
  await cliFixture.expectNoProcesses();
  if (!(await readdir(cliFixture.home)).includes("store.sqlite")) return;
  const { code, stdout } = await cliFixture.holdfast("runs", "list", "--json");
  expect({ code, stdout }).toEqual({ code: 0, stdout: "[]\n" });
}

async function records(cliFixture: CliFixture): Promise<RunRecord[]> {
  const { stdout } = await cliFixture.holdfast("runs", "list", "--all", "--json");
  return JSON.parse(stdout) as RunRecord[];
}

type Line = readonly [what: string, args: readonly string[], code: number, words: readonly string[]];
const run = (...args: readonly string[]): readonly string[] => ["run", ...args, "--", "true"];
const lines: readonly Line[] = [
  [
    "whose end is told, and that has none",
    run("-d", "--service", "--tell", "ops"),
    2,
    ["a service does not end"],
  ],
  ["with a directory as its command", ["run", "--", "/usr"], 126, ["/usr", "not an executable file"]],
  ["with a file for a directory", run("--cwd", "/etc/passwd"), 2, ["/etc/passwd", "not a directory"]],
  ["with an empty directory", run("--cwd", ""), 2, ["directory", "empty"]],
  ["with a variable without a name", run("--env", "=x"), 2, ["--env", "=x", "NAME=value"]],
  ["with a label without a key", run("--label", "=x"), 2, ["--label", "=x", "key=value"]],
  ["with a variable that is ours", run("--env", "HOLDFAST_RUN_ID=x"), 2, ["HOLDFAST_RUN_ID"]],
  ["that injects code into bash", run("--env", "BASH_ENV=/x"), 2, ["BASH_ENV"]],
  ["that injects code into node", run("--env", "NODE_OPTIONS=-r/x"), 2, ["NODE_OPTIONS"]],
  ["that allows another injection", run("--allow-env", "LD_X", "--env", "LD_Y=1"), 2, ["LD_Y"]],
  ["with a negative timeout", run("--timeout", "-5"), 2, ["--timeout", "-5"]],
  ["with a timeout for generations", run("--timeout", "9999999d"), 2, ["9999999d", "365 days"]],
  ["with units in the wrong order", run("--grace", "5s1h"), 2, ["--grace", "5s1h"]],
  ["with a size of a world", run("--buffer", "99999999G"), 2, ["--buffer", "99999999G"]],
  ["with no memory at all", run("--memory", "0"), 2, ["--memory", "from 1 MiB to 128 TiB"]],
  ["with less memory than none", run("--memory", "-1G"), 2, ["--memory", "-1G"]],
  ["with all the memory there is", run("--memory", "1000000G"), 2, ["--memory", "from 1 MiB to 128 TiB"]],
  ["with no process at all", run("--pids", "0"), 2, ["--pids", "from 1 to 4194304"]],
  ["with half a process", run("--pids", "1.5"), 2, ["--pids", "whole number"]],
  ["with words for a number", run("--cpus", "two"), 2, ["--cpus", "two", "not a number"]],
  ["with no time at all", run("--cpus", "0"), 2, ["--cpus", "from 0.01 to 4096"]],
  ["with an option much like one", run("--on-escap", "fail"), 2, ["--on-escap", "did you mean --on-escape"]],
  ["with a command much like one", ["runs", "lst"], 2, ["lst", "did you mean holdfast runs list"]],
  ["with a command like no other", ["frobnicate"], 2, ["frobnicate"]],
  ["with a task where a command is named", ["tasks", "task_4k2m"], 2, ["unknown command 'task_4k2m'"]],
  ["with an unknown state", ["runs", "list", "--state", "gone"], 2, ["gone", "exited"]],
  ["with no runs to list", ["runs", "list", "--limit", "0"], 2, ["--limit", "0"]],
  ["with more than it asks for", ["runs", "list", "extra"], 2, ["too many arguments"]],
  ["that asks for a run that never was", ["runs", "show", "nosuch"], 1, ["nosuch"]],
  ["that asks for a pattern", ["runs", "show", "%"], 1, ["no run"]],
  ["that asks for nothing", ["runs", "show", ""], 1, ["no run"]],
];

describe("a command line", () => {
  test.each(lines)("%s", async (_, args, code, words) => {
    await using cliFixture = await CliFixture.open();
    expectClear(await cliFixture.holdfast(...args), code, ...words);
    await expectNothingRuns(cliFixture);
  });

  test("given in a directory that is gone", async () => {
    await using cliFixture = await CliFixture.open();
    const gone = 'mkdir "$HOLDFAST_HOME/d"; cd "$HOLDFAST_HOME/d"; rmdir "$HOLDFAST_HOME/d"';
    const main = resolve("dist/cli/main.js");
    const holdfast = `"${process.execPath}" "${main}"`;
    // There is a way out.
    expect(await cliFixture.shell(`${gone}; ${holdfast} run --cwd / -- pwd`)).toMatchObject({
      code: 0,
      stdout: "/\n",
    });
    const result = await cliFixture.shell(`${gone}; ${holdfast} run -- true`);
    expectClear(result, result.code ?? 0, "current directory");
    expect([2, 125]).toContain(result.code);
  });

  test("that asks for a run by the prefix of all ids", async () => {
    await using cliFixture = await CliFixture.open();
    for (let count = 0; count < 2; count += 1) await cliFixture.holdfast("run", "--", "true");
    const ids = (await records(cliFixture)).map(({ runId }) => runId);
    expect(ids).toHaveLength(2);
    expectClear(await cliFixture.holdfast("runs", "show", "run_"), 2, ...ids);
    expect((await cliFixture.holdfast("runs", "show", ids[0] ?? "")).code).toBe(0);
  });
});

describe("a state directory", () => {
  async function refused(cliFixture: CliFixture, home: string, ...words: readonly string[]): Promise<void> {
    expectClear(await cliFixture.shell(`HOLDFAST_HOME='${home}' holdfast run -- true`), 125, home, ...words);
    await cliFixture.expectNoProcesses();
  }

  test("that is relative, a link, open to others or somebody else's is refused", async () => {
    await using cliFixture = await CliFixture.open();
    await refused(cliFixture, "relative/path", "relative");
    const real = join(cliFixture.home, "real");
    await mkdir(real, { mode: 0o700 });
    await symlink(real, join(cliFixture.home, "link"));
    await refused(cliFixture, join(cliFixture.home, "link"), "symbolic link");
    await chmod(real, 0o777);
    await refused(cliFixture, real, "can be written by others", "chmod 700");
    if (whyNoOtherUser === null) {
      await chmod(real, 0o700);
      await chown(real, NOBODY, NOBODY);
      await refused(cliFixture, real, `belongs to uid ${NOBODY}`);
    }
    expect(await readdir(real)).toEqual([]);
  });

  test("may have as long a path as it says, and not a byte longer", async () => {
    await using cliFixture = await CliFixture.open();
    const room = socketPathLimit("linux") - longestSocketPath(cliFixture.home);
    const longest = join(cliFixture.home, "x".repeat(room - 1));
    const fits = await cliFixture.shell(
      `HOLDFAST_HOME='${longest}' holdfast run -- sh -c 'sleep 0.01; exit 7'`,
    );
    expect(fits).toMatchObject({ code: 7, stderr: "" });
    await refused(cliFixture, `${longest}x`, "too long", `at most ${longest.length} bytes`);
  });

  test("that is read-only is refused for running, and good for reading", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("16m");
    await using cliFixture = new CliFixture(disk.path);
    await cliFixture.holdfast("run", "--", "true");
    await refused(cliFixture, disk.readOnlyPath, "read-only");
    const listed = await cliFixture.shell(
      `HOLDFAST_HOME='${disk.readOnlyPath}' holdfast runs list --all --json`,
    );
    expect(listed).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(listed.stdout)).toHaveLength(1);
  });

  test("that its user may not write is refused", async (context) => {
    if (whyNoOtherUser !== null) context.skip(whyNoOtherUser);
    await using cliFixture = await CliFixture.open();
    await chown(cliFixture.home, NOBODY, NOBODY);
    await chmod(cliFixture.home, 0o500);
    const result = await cliFixture.shell(`${asNobody} "${process.execPath}" dist/cli/main.js run -- true`);
    expectClear(result, 125, cliFixture.home, "not writable");
  });

  const inStore = (sql: string) => async (store: string) => {
    const db = new DatabaseSync(store);
    db.exec(sql);
    db.close();
  };
  test.each<[string, (store: string) => Promise<void>, readonly string[]]>([
    ["damaged", (store) => writeFile(store, "garbage".repeat(2_000)), ["damaged"]],
    ["cut off", (store) => truncate(store, 5_000), ["damaged"]],
    ["another program's", inStore("drop table holdfast_migrations"), ["some other program"]],
    [
      "a newer version's",
      inStore("insert into holdfast_migrations (id, name, applied_at) values (9999, 'x', 0)"),
      ["newer Holdfast", "Upgrade"],
    ],
  ])("whose store is %s: all commands say so, and leave it as it is", async (_, spoil, words) => {
    await using cliFixture = await CliFixture.open();
    const store = join(cliFixture.home, "store.sqlite");
    await cliFixture.holdfast("run", "--", "true");
    await inStore("pragma wal_checkpoint(truncate)")(store);
    await spoil(store);
    const before = await readFile(store);
    expectClear(await cliFixture.holdfast("run", "--", "true"), 125, store, ...words);
    expectClear(await cliFixture.holdfast("runs", "list"), 5, store, ...words);
    expectClear(await cliFixture.holdfast("runs", "show", "x"), 5, store, ...words);
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
    ["a text", (path) => writeFile(path, "this is no program\n", { mode: 0o755 }), /./],
    [
      "cut off",
      async (path) => {
        await copyFile(built, path);
        await truncate(path, 20_000);
      },
      /./,
    ],
    ["another program, which says nothing", (path) => copyFile("/bin/true", path), /./],
    ["another program, which says something else", (path) => copyFile("/bin/echo", path), /./],
  ])("that is %s: told by its name, and nothing is left", async (_, make, sentence) => {
    await using cliFixture = await CliFixture.open();
    const path = join(cliFixture.home, "my-anchor");
    await make(path);
    const result = await cliFixture.shell(`HOLDFAST_ANCHOR='${path}' holdfast run -- true`);
    expectClear(result, 125);
    expect(result.stderr).toMatch(sentence);
    await expectNothingRuns(cliFixture);
    // Whoever reads it must know what to mend.
    expect(result.stderr).toMatch(/my-anchor|HOLDFAST_ANCHOR|\/bin\/anchor-/);
  });

  test("that is not executable is either used all the same or told by its name", async () => {
    await using cliFixture = await CliFixture.open();
    const path = join(cliFixture.home, "my-anchor");
    await copyFile(built, path);
    await chmod(path, 0o600);
    const result = await cliFixture.shell(`HOLDFAST_ANCHOR='${path}' holdfast run -- sh -c 'exit 7'`);
    if (result.code === 7) expect(result.stderr).toBe("");
    else expectClear(result, 125, "my-anchor");
    await expectNothingRuns(cliFixture);
  });

  test("that may not be executed where the state lies: told, with the way out", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("16m");
    await using cliFixture = new CliFixture(disk.path);
    expect(spawnSync("mount", ["-o", "remount,noexec", join(disk.path, "..")]).status).toBe(0);
    expectClear(await cliFixture.holdfast("run", "--", "true"), 125, "noexec", "HOLDFAST_HOME");
    await expectNothingRuns(cliFixture);
  });
});

describe("an ordinary user", () => {
  // With a home of its own: the one that is inherited here may be closed to it, and its config cannot be known then.
  const holdfast = `HOME=/nonexistent ${asNobody} "${process.execPath}" dist/cli/main.js`;

  test("without a cgroup runs commands all the same, and is told what is weaker", async (context) => {
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

  test("is told which directory or program is forbidden", async (context) => {
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

describe("a disk", () => {
  const fillerOf = (path: string): string => join(path, "..", "filler");
  const fill = (path: string): Promise<void> =>
    writeFile(fillerOf(path), Buffer.alloc(64 * 1024 * 1024)).catch(() => {});
  const free = (path: string): Promise<void> => truncate(fillerOf(path), 0);
  /** A command that fills it, leaves a mark elsewhere, and goes on. */
  const filling = (path: string, mark: string, then: string): readonly string[] => [
    ...["sh", "-c", `head -c 64M /dev/zero 2>/dev/null >'${fillerOf(path)}'; : >'${mark}'; ${then}`],
  ];
  const isThere = (path: string): Promise<boolean> =>
    access(path).then(
      () => true,
      () => false,
    );

  test("that is full when a run is to begin: refused at once, and well when there is space again", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("8m");
    await using cliFixture = new CliFixture(disk.path);
    await cliFixture.holdfast("run", "--", "true");
    await fill(disk.path);
    expectClear(await cliFixture.holdfast("run", "--", "true"), 125, disk.path, "no space");
    // Reading needs none.
    expect(await records(cliFixture)).toHaveLength(1);
    await expectNothingRuns(cliFixture);
    await free(disk.path);
    expect(await cliFixture.holdfast("run", "--", "true")).toMatchObject({ code: 0, stderr: "" });
    await expectNothingRuns(cliFixture);
  });

  test("that is full when the first run of all is to begin: refused at once", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("2m");
    await using cliFixture = new CliFixture(disk.path);
    await fill(disk.path);
    const result = await cliFixture.holdfast("run", "--", "true");
    expectClear(result, 125, disk.path);
    expect(result.stderr).toMatch(/no space|ENOSPC|full/);
    await cliFixture.expectNoProcesses();
  });

  test("that fills up under a run: the command ends, it is told, and recorded once there is space", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using elsewhere = await temporaryDirectory();
    await using disk = mountSmallDisk("8m");
    await using cliFixture = new CliFixture(disk.path);
    const mark = join(elsewhere.path, "filled");
    const { child, finished } = cliFixture.start("run", "--", ...filling(disk.path, mark, "exit 3"));
    child.stdin.end();
    let told = "";
    await new Promise<void>((done) => {
      child.stderr.on("data", (text: Buffer) => {
        told += text.toString();
        if (/no space|full/.test(told)) done();
      });
      // Silence is judged below, with space again: whatever happens, the test must end.
      void setTimeout(6_000, undefined, { ref: false }).then(done);
      void finished.then(() => done());
    });
    await free(disk.path);
    const result = await finished;
    expect(await isThere(mark)).toBe(true);
    expect(result).toMatchObject({ code: 3, stdout: "" });
    expect(await records(cliFixture)).toMatchObject([{ state: "exited", exit: { reason: "exit", code: 3 } }]);
    await expectNothingRuns(cliFixture);
    expect(told).toMatch(/^holdfast: .*(?:no space|full)/);
    expect(result.stderr).not.toMatch(INSIDES);
  });

  test("that is full when the command speaks: what it says is delivered, or told to be lost", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using elsewhere = await temporaryDirectory();
    await using disk = mountSmallDisk("8m");
    await using cliFixture = new CliFixture(disk.path);
    const mark = join(elsewhere.path, "filled");
    const { child, finished } = cliFixture.start("run", "--", ...filling(disk.path, mark, "echo important"));
    child.stdin.end();
    await waitFor("the disk is full", () => isThere(mark));
    // Longer than the last output is waited for.
    await setTimeout(defaults.drainMs + 500);
    await free(disk.path);
    const { code, stdout, stderr } = await finished;
    expect(code).toBe(0);
    if (stdout !== "important\n") expect(stderr).toMatch(/^holdfast: .*output.*(?:lost|dropped)/m);
  });

  test("that stays full does not hold who has had enough: told to end, holdfast ends", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using elsewhere = await temporaryDirectory();
    await using disk = mountSmallDisk("8m");
    await using cliFixture = new CliFixture(disk.path);
    const mark = join(elsewhere.path, "filled");
    const { child, finished } = cliFixture.start(
      ...["run", "--grace", "500ms", "--", ...filling(disk.path, mark, "sleep 60")],
    );
    child.stdin.end();
    await waitFor("the disk is full", () => isThere(mark));
    child.kill("SIGTERM");
    const stop = new AbortController();
    const late = setTimeout(10_000, true, { signal: stop.signal }).then(
      () => child.kill("SIGKILL"),
      () => false,
    );
    const { code, signal, stderr } = await finished;
    stop.abort();
    await late;
    await free(disk.path);
    // The command's processes are gone whatever became of holdfast itself.
    await cliFixture.expectNoProcesses(8_000);
    expect(signal, `still there after ten seconds: ${stderr}`).toBeNull();
    expect([125, 143]).toContain(code);
    expect(stderr).not.toMatch(INSIDES);
  });

  test.for(["8M", "64M"])(
    "too small for what a slow reader has yet to take, with a buffer of %s: the command waits, not a byte is lost",
    async (buffer, context) => {
      if (whyNoMounts !== null) context.skip(whyNoMounts);
      await using disk = mountSmallDisk("8m");
      await using cliFixture = new CliFixture(disk.path);
      const holdfast = `timeout -k 1 12 "${process.execPath}" dist/cli/main.js`;
      const result = await cliFixture.shell(
        `${holdfast} run --buffer ${buffer} -- seq 1 2000000 | (sleep 1; sha256sum); echo "\${PIPESTATUS[0]}"`,
      );
      const wanted = spawnSync("sh", ["-c", "seq 1 2000000 | sha256sum"], { encoding: "utf8" }).stdout;
      expect(result.stdout).toBe(`${wanted}0\n`);
      await expectNothingRuns(cliFixture);
    },
  );
});
