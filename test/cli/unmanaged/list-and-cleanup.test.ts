import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readlink, rm, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isAlive, readProcess, type LiveProcess } from "../../support/live-processes.js";
import { RecoveryFixture } from "../../support/cli/recovery-fixture.js";
import type { CliResult } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

/** Random: every process of the machine is inspected, and the same test may run twice. */
const tag = `T${process.pid}_${Math.random().toString(36).slice(2, 8).toUpperCase()}`;
const MARKER = { orphaned: `ORPHANED_${tag}`, variable: `VARIABLE_${tag}`, file: `FILE_${tag}` };
const OWNER = `OWNER_${tag}`;

interface Listed {
  readonly profile: string;
  readonly pid: number;
  readonly value: string;
  readonly owner: { readonly kind: string; readonly why: string };
}

let fixture: RecoveryFixture;
let pidFile: string;
const children: ChildProcess[] = [];

beforeAll(async () => {
  fixture = await RecoveryFixture.open();
  pidFile = join(fixture.home, "owner.pid");
  const config = join(fixture.home, "config.toml");
  await writeFile(
    config,
    `[[foreign]]
name = "orphaned"
marker = "${MARKER.orphaned}"
owner = "orphaned-in-container"
grace-ms = 200

[[foreign]]
name = "unsure"
marker = "${MARKER.orphaned}"
grace-ms = 200

[[foreign]]
name = "variable"
marker = "${MARKER.variable}"
owner = { pid-variable = "${OWNER}" }
grace-ms = 200

[[foreign]]
name = "file"
marker = "${MARKER.file}"
owner = { pid-file = "${pidFile}" }
grace-ms = 200
`,
  );
  // The set-up file restores the environment.
  process.env["HOLDFAST_CONFIG"] = config;
});
afterAll(async () => {
  for (const child of children) {
    const gone = once(child, "exit");
    if (child.exitCode === null && child.signalCode === null && child.kill("SIGKILL")) await gone;
  }
  await fixture[Symbol.asyncDispose]();
});

/** Starts a process of another tool in its own process session. */
async function start(env: NodeJS.ProcessEnv, ...argv: readonly string[]): Promise<LiveProcess> {
  const [command = "sleep", ...args] = argv.length === 0 ? ["sleep", "7031"] : argv;
  const path = { PATH: process.env["PATH"] };
  const child = spawn(command, args, { stdio: "ignore", detached: true, env: { ...path, ...env } });
  children.push(child);
  await once(child, "spawn");
  return known(child.pid);
}

/** Starts a process whose parent has ended. */
async function abandoned(env: NodeJS.ProcessEnv): Promise<LiveProcess> {
  const parent = spawn("sh", ["-c", "setsid sleep 7032 >/dev/null & echo $!"], {
    stdio: ["ignore", "pipe", "ignore"],
    env: { PATH: process.env["PATH"], ...env },
  });
  const [[pid]] = (await Promise.all([once(parent.stdout, "data"), once(parent, "exit")])) as [
    [Buffer],
    unknown,
  ];
  return known(Number(pid));
}

function known(pid: number | undefined): LiveProcess {
  const living = readProcess(pid ?? 0);
  if (living === null) throw new Error("the process does not exist");
  return living;
}

/** Starts a process whose owner's pid belongs to a younger process. */
async function olderThanItsOwner(): Promise<LiveProcess> {
  const script = `echo up; read -r owner; exec env ${MARKER.variable}=v ${OWNER}="$owner" sleep 7036`;
  const child = spawn("sh", ["-c", script], { stdio: ["pipe", "pipe", "ignore"], detached: true });
  children.push(child);
  await once(child.stdout, "data");
  const older = known(child.pid);
  let young = older;
  // Start times have a resolution of a hundredth of a second.
  while (young.startTime <= older.startTime) young = await start({}, "sleep", "7035");
  child.stdin.write(`${young.pid}\n`);
  await waitFor("it sleeps", () => readProcess(older.pid)?.argv[0] === "sleep");
  return known(older.pid);
}

async function listed(...args: readonly string[]): Promise<Listed[]> {
  return fixture.json<Listed[]>("foreign", "list", ...args);
}

const kindsOf = (found: readonly Listed[]): Record<number, string> =>
  Object.fromEntries(found.map(({ pid, owner }) => [pid, owner.kind]));

async function end({ pid }: LiveProcess): Promise<void> {
  if (readProcess(pid) !== null) process.kill(pid, "SIGKILL");
}

function expectEnded(result: CliResult, ...pids: readonly number[]): void {
  expect(result.code).toBe(0);
  const ended = [...result.stdout.matchAll(/^(\d+): gone$/gm)].map(([, pid]) => Number(pid));
  expect(new Set(ended)).toEqual(new Set(pids));
}

describe("unmanaged", () => {
  test("orphaned: lists processes whose parent is gone, not those with the marker in their command line only", async (context) => {
    const orphan = await abandoned({ [MARKER.orphaned]: "o1" });
    if (orphan.parentPid !== 1) {
      await end(orphan);
      context.skip("orphans are adopted by another process than process 1 here");
    }
    const held = await start({ [MARKER.orphaned]: "o2" });
    const empty = await abandoned({ [MARKER.orphaned]: "" });
    const talker = await start(
      {},
      process.execPath,
      "-e",
      "setInterval(() => {}, 1e6)",
      `${MARKER.orphaned}=o1`,
    );
    expect(kindsOf(await listed("orphaned", "--all"))).toEqual({
      [orphan.pid]: "gone",
      [held.pid]: "alive",
      [empty.pid]: "unknown",
    });
    // In a container, process 1 may be the tool itself.
    const contained = (await readlink("/proc/self/ns/pid")) !== "pid:[4026531836]";
    expect(kindsOf(await listed("unsure", "--all"))[orphan.pid]).toBe(contained ? "unknown" : "gone");
    const dry = await fixture.holdfast("foreign", "cleanup", "orphaned", "--dry-run");
    expect(dry).toMatchObject({ code: 0, stderr: "" });
    expect(dry.stdout).toBe(
      `${orphan.pid}  orphaned  uid ${process.getuid?.()}  sleep 7032\n  marker: ${MARKER.orphaned}=o1\n  owner: it was orphaned: its parent is process 1\n`,
    );
    const unasked = await fixture.holdfast("foreign", "cleanup", "orphaned");
    expect(unasked.code).toBe(2);
    expect(unasked.stderr).toContain("--yes");
    expect(isAlive(orphan)).toBe(true);
    expectEnded(await fixture.holdfast("foreign", "cleanup", "orphaned", "--yes"), orphan.pid);
    expect([orphan, held, empty, talker].map(isAlive)).toEqual([false, true, true, true]);
    await end(empty);
  });

  test("by a variable: lists processes whose owner is gone, not those whose owner is alive or unknown", async () => {
    const gone = spawn("true");
    await once(gone, "exit");
    const owned = await start({ [MARKER.variable]: "v", [OWNER]: String(process.pid) });
    const untold = await start({ [MARKER.variable]: "v" });
    const nonsense = await start({ [MARKER.variable]: "v", [OWNER]: "-1" });
    const left = await start({ [MARKER.variable]: "v", [OWNER]: String(gone.pid) });
    const beforeItsOwner = await olderThanItsOwner();
    expect(kindsOf(await listed("variable", "--all"))).toMatchObject({
      [owned.pid]: "alive",
      [untold.pid]: "unknown",
      [nonsense.pid]: "unknown",
      [beforeItsOwner.pid]: "gone",
    });
    const ended = await fixture.holdfast("foreign", "cleanup", "variable", "--yes");
    expectEnded(ended, left.pid, beforeItsOwner.pid);
    expect([owned, untold, nonsense].map(isAlive)).toEqual([true, true, true]);
    expect([left, beforeItsOwner].map(isAlive)).toEqual([false, false]);
  });

  test("by a pid file: a process is gone if the file does not exist, unknown if it has no pid", async () => {
    const one = await start({ [MARKER.file]: "f" });
    const kind = async (): Promise<string | undefined> => kindsOf(await listed("file", "--all"))[one.pid];
    const kinds: [content: string, kind: string][] = [
      [`${process.pid}\n`, "alive"],
      ["not a number", "unknown"],
      ["", "unknown"],
    ];
    for (const [content, expected] of kinds) {
      await writeFile(pidFile, content);
      expect(await kind(), content).toBe(expected);
    }
    expect(await fixture.holdfast("unmanaged", "cleanup", "file", "--yes")).toMatchObject({
      code: 0,
      stdout: "",
      stderr: "holdfast: no process of file has lost its owner\n",
    });
    await rm(pidFile);
    await mkdir(pidFile);
    expect(await kind(), "a directory").toBe("unknown");
    await rmdir(pidFile);
    expect(await kind()).toBe("gone");
    expect(isAlive(one)).toBe(true);
    expectEnded(await fixture.holdfast("unmanaged", "cleanup", "file", "--yes"), one.pid);
  });

  test("never lists a process of a run, even with a cleared environment", async () => {
    const marker = `${MARKER.variable}=v ${OWNER}=4194303`;
    const [runId = ""] = await fixture.leaveRuns([
      `env ${marker} sleep 7034 & env -i ${marker} setsid sleep 7034 & sleep 0.1; echo up; wait`,
    ]);
    const found = (await listed("variable", "--all")).filter(({ owner }) => owner.kind === "ours");
    expect(found.map(({ owner }) => owner.why)).toEqual(Array(2).fill(`it belongs to run ${runId}`));
    expect(await fixture.holdfast("foreign", "cleanup", "variable", "--yes")).toMatchObject({
      code: 0,
      stdout: "",
    });
    expect(found.map(({ pid }) => readProcess(pid)?.argv[0])).toEqual(["sleep", "sleep"]);
    await fixture.holdfast("runs", "cancel", runId, "--kill");
  });

  test("names the declared profiles, and refuses an invalid config file", async () => {
    const unknown = await fixture.holdfast("foreign", "cleanup", "nosuch", "--yes");
    expect(unknown).toMatchObject({ code: 2, stdout: "" });
    expect(unknown.stderr).toContain("(declared: orphaned, unsure, variable, file)");
    const mistaken = join(fixture.home, "mistaken.toml");
    await writeFile(mistaken, '[[foreign]]\nname = "x"\nmarker = "HOLDFAST_RUN_ID"\n');
    const refused = await fixture.shell(`HOLDFAST_CONFIG='${mistaken}' holdfast foreign list`);
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toContain("foreign.1.marker must not be one of Holdfast's own");
    const none = await fixture.shell(
      `HOLDFAST_CONFIG= XDG_CONFIG_HOME='${fixture.home}/none' holdfast foreign list`,
    );
    expect(none).toMatchObject({ code: 0, stdout: "" });
    expect(none.stderr).toMatch(/^holdfast: no profile is declared in [^\n]+\n$/);
  });
});
