import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmod,
  chown,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { CliFixture } from "../../support/cli/cli-fixture.js";

const OTHER = 65_533;
/** Needs root: files of a second user have to be made. */
const whyNoOtherUser = process.getuid?.() === 0 ? null : "becoming another user needs root";

let cliFixture: CliFixture;
/** Holds what the other user owns. Outside the state directory, whose mode no test opens up. */
let place: string;

beforeEach(async () => {
  cliFixture = await CliFixture.open();
  place = await mkdtemp(join(tmpdir(), "hf-other-"));
  await chmod(place, 0o711);
});
afterEach(async () => {
  await rm(place, { recursive: true, force: true });
  await cliFixture[Symbol.asyncDispose]();
});

/** Starts a listener as another user and returns the file with all it was sent. */
async function plantedListener(socketPath: string): Promise<() => Promise<string>> {
  const record = join(place, "record");
  const program = join(place, "listener.mjs");
  await writeFile(record, "");
  await chown(record, OTHER, OTHER);
  await copyFile(resolve("test/system/users/children/planted-listener.mjs"), program);
  await chmod(program, 0o644);
  const child = spawn(process.execPath, [program, socketPath, record], {
    uid: OTHER,
    gid: OTHER,
    cwd: "/",
    env: {},
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");
  return () => readFile(record, "utf8");
}

/** A state directory that the other user made before us, with a token of that user's choice. */
async function plantedState(): Promise<string> {
  const home = join(place, "state");
  await mkdir(home, { mode: 0o755 });
  await writeFile(join(home, "operator-token"), `hfo_${"x".repeat(43)}\n`, { mode: 0o644 });
  for (const path of [join(home, "operator-token"), home]) await chown(path, OTHER, OTHER);
  return home;
}

const COMMANDS = [
  ["run", "--", "echo", "argument-secret"],
  ["run", "--detach", "--", "echo", "argument-secret"],
  ["ps"],
  ["gateway", "status"],
  ["gateway", "stop"],
  ["process", "list"],
  ["process", "kill", "run_000000000000"],
  ["attach", "--read-only", "run_000000000000"],
  ["sessions", "list"],
  ["tasks", "list"],
  ["approvals", "list", "--follow"],
  ["acp", "list"],
  ["events"],
  ["doctor"],
];

describe.skipIf(whyNoOtherUser !== null)("a state directory that another user made first", () => {
  test("no command sends anything to that user's socket", async () => {
    const home = await plantedState();
    const received = await plantedListener(join(home, "gateway.sock"));
    const env = { HOLDFAST_HOME: home, HOLDFAST_IN_PROCESS: "", PLANTED_SECRET: "environment-secret" };
    for (const words of COMMANDS) {
      const { child, finished } = cliFixture.startWith(env, ...words);
      child.stdin.end();
      const { code, stdout, stderr } = await finished;
      expect(await received(), words.join(" ")).toBe("");
      expect(code, words.join(" ")).not.toBe(0);
      expect(`${stdout}${stderr}`).toContain(`${home} belongs to uid ${OTHER}`);
    }
  });

  test("commands do not connect to a socket of that user in our own directory", async () => {
    // Only root can move it there; the check of the socket itself must hold all the same.
    const theirs = join(place, "theirs");
    await mkdir(theirs);
    await chown(theirs, OTHER, OTHER);
    const received = await plantedListener(join(theirs, "sock"));
    await writeFile(join(cliFixture.home, "operator-token"), `hfo_${"x".repeat(43)}\n`, { mode: 0o600 });
    await rename(join(theirs, "sock"), join(cliFixture.home, "gateway.sock"));
    const { code, stderr } = await cliFixture.holdfast("process", "list");
    expect(await received()).toBe("");
    expect(code).toBe(125);
    expect(stderr).toContain(`${cliFixture.home}/gateway.sock belongs to uid ${OTHER}`);
    const checked = await cliFixture.holdfast("doctor");
    expect(await received()).toBe("");
    expect(checked.stdout).toContain(`gateway.sock belongs to uid ${OTHER}`);
  });

  test("a state directory of ours below a directory of that user is not used", async () => {
    const theirs = join(place, "theirs");
    const home = join(theirs, "state");
    await mkdir(home, { recursive: true });
    await chown(theirs, OTHER, OTHER);
    const { code, stderr } = await cliFixture.startWith({ HOLDFAST_HOME: home }, "run", "--", "true")
      .finished;
    expect(code).toBe(125);
    expect(stderr).toContain(`${theirs} belongs to uid ${OTHER} (mode 0755), and this is uid 0`);
    expect(stderr).toContain("Run as that user, or use another path");
    expect(await readdir(home)).toEqual([]);
    const { stdout } = await cliFixture.startWith({ HOLDFAST_HOME: home }, "doctor").finished;
    expect(stdout).toContain(`${theirs} belongs to uid ${OTHER}`);
  });
});

/** Files of the state directory that are written or read by name, and a command that does. */
const FILES = [
  ["gateway.err", ["gateway", "start"]],
  ["gateway.log", ["gateway", "run"]],
  ["gateway-id", ["gateway", "run"]],
  ["state-id", ["gateway", "run"]],
  ["operator-token", ["gateway", "run"]],
  ["operator-token", ["process", "list"]],
  ["store.sqlite", ["gateway", "run"]],
  ["store.sqlite", ["runs", "list"]],
] as const;

test.each(FILES)("%s is not followed through a symbolic link (%j)", async (name, words) => {
  const victim = join(place, "victim");
  const text = name === "gateway-id" ? "gw_000000000000" : "precious";
  await writeFile(victim, text);
  await symlink(victim, join(cliFixture.home, name));
  const { code, stderr } = await cliFixture.holdfast(...words);
  expect(await readFile(victim, "utf8")).toBe(text);
  expect(code).toBe(125);
  expect(stderr).toContain(join(cliFixture.home, name));
  expect(stderr).toContain("is a symbolic link");
});
