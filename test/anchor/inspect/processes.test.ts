import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, onTestFinished, test } from "vitest";
import { findAnchorBinary } from "../../../src/anchor/binary.js";
import type { ProcessEvidence } from "../../../src/anchor/host-interface.js";
import { inspectProcesses, membersOfRun } from "../../../src/anchor/inspect/processes.js";
import { inspectPort } from "../../../src/anchor/inspect/ports.js";
import { anchorEnvironment } from "../../../src/anchor/one-shot-modes.js";
import { BadInput } from "../../../src/errors.js";
import { scaled } from "../../support/scale.js";
import { sampleRunRecord } from "../../support/store/run-samples.js";
import { waitFor } from "../../support/wait-for.js";

const anchor = findAnchorBinary();

/** Runs until the test ends: it waits for input that never comes. */
function live(command: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): ChildProcess {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"], env });
  onTestFinished(async () => {
    const left = once(child, "exit");
    child.kill("SIGKILL");
    await left;
  });
  return child;
}

function pidOf({ pid }: ChildProcess): number {
  if (pid === undefined) throw new Error("it was not started");
  return pid;
}

async function argvOf(child: ChildProcess): Promise<readonly string[]> {
  return (await inspectProcesses(anchor, [pidOf(child)]))[0]?.argv ?? [];
}

const WAIT = "echo up; read line";

/** Pids above the kernel's maximum. */
const nobody = (at: number) => ({ pid: 2 ** 23 + at, startTime: 1 + at, uniqueId: String(7 + at) });

test("a brief inspection tells a live process from a zombie, from another with its pid, and from one that is gone", async () => {
  const parent = live("/bin/sh", ["-c", 'sleep 0 & echo "$!"; exec sleep 1000']);
  const zombie = Number(String((await once(parent.stdout!, "data"))[0]));
  const identityOf = async (pid: number) => (await inspectProcesses(anchor, [pid]))[0]?.identity;
  const [own, dead] = [await identityOf(pidOf(parent)), await identityOf(zombie)];
  if (own === undefined || dead === undefined) throw new Error("nothing was found");
  await waitFor("the child is a zombie", async () => !(await inspectProcesses(anchor, [zombie]))[0]?.alive);
  const reused = { ...own, startTime: own.startTime + 1, uniqueId: own.uniqueId && `${own.uniqueId}1` };
  const wanted = [own, pidOf(parent), { ...own, uniqueId: null }, reused, dead, nobody(1)];
  const found = await inspectProcesses(anchor, wanted, { brief: true });
  expect(found.map(({ alive, matches }) => [alive, matches])).toEqual([
    [true, true],
    [true, true],
    [true, true],
    [true, false],
    [false, false],
    [false, false],
  ]);
  expect(found.map(({ identity: { pid } }) => pid)).toEqual(
    wanted.map((one) => (typeof one === "number" ? one : one.pid)),
  );
});

describe("evidence of a process", () => {
  test("contains its command line, executable, ancestors and markers", async () => {
    const env = {
      PATH: process.env["PATH"],
      HOLDFAST_LEASE_ID: "lease",
      HOLDFAST_RUN_ID: "run",
      HOLDFAST_GATEWAY_INSTANCE_ID: "instance",
      HOLDFAST_SESSION_KEY: "session",
    };
    const child = live("/bin/sh", ["-c", WAIT, "name", "", "last"], env);
    await once(child.stdout!, "data");
    const [found] = await inspectProcesses(anchor, [pidOf(child)]);
    expect(found).toMatchObject({
      alive: true,
      matches: true,
      parentPid: process.pid,
      argv: ["/bin/sh", "-c", WAIT, "name", "", "last"],
      executable: expect.stringMatching(/^\/.*sh$/),
      leaseId: "lease",
      runId: "run",
      instanceId: "instance",
      sessionKey: "session",
      descendants: [],
    });
    const [self] = await inspectProcesses(anchor, [process.pid]);
    expect(found?.ancestors).toEqual([self?.identity, ...(self?.ancestors ?? [])]);
    expect(found?.ancestors.at(-1)?.pid).toBe(1);
  });

  test("is valid JSON whatever is in the command line", async () => {
    const odd = ['quote"', "back\\slash", "new\nline", "tab\t", "\u0001\u001b[31m\u007f", "ü€😀", "{}[],:"];
    const child = live("/bin/sh", ["-c", WAIT, ...odd]);
    await once(child.stdout!, "data");
    expect(await argvOf(child)).toEqual(["/bin/sh", "-c", WAIT, ...odd]);
  });

  test("shows invalid UTF-8 byte by byte", async () => {
    const child = live("/bin/sh", [
      "-c",
      `exec /bin/sh -c '${WAIT}' "$(printf 'a\\377\\300\\257b\\355\\240\\200')"`,
    ]);
    await once(child.stdout!, "data");
    expect((await argvOf(child)).at(-1)).toBe("a\u00ff\u00c0\u00afb\u00ed\u00a0\u0080");
  });

  test("is limited to 64 words and 8 KiB", async () => {
    const many = live("/bin/sh", ["-c", WAIT, ...Array.from({ length: 500 }, (_, at) => `w${at}`)]);
    const long = live("/bin/sh", ["-c", WAIT, "x".repeat(100_000)]);
    await Promise.all([once(many.stdout!, "data"), once(long.stdout!, "data")]);
    expect(await argvOf(many)).toHaveLength(64);
    expect((await argvOf(long)).join("").length).toBeLessThan(8192);
  });

  test("shows the current command line after the process changed it", async () => {
    const script = "process.title = 'somebody else'; console.log('up'); process.stdin.resume()";
    const child = live(process.execPath, ["-e", script]);
    await once(child.stdout!, "data");
    const [found] = await inspectProcesses(anchor, [pidOf(child)]);
    expect(found?.argv[0]).toContain("somebody else");
    expect(found?.executable).toBe(process.execPath);
  });

  test("of another process with the same pid says only that it is another one", async () => {
    const child = live("/bin/sh", ["-c", WAIT], { HOLDFAST_RUN_ID: "run" });
    await once(child.stdout!, "data");
    const [found] = await inspectProcesses(anchor, [pidOf(child)]);
    const startTime = (found?.identity.startTime ?? 0) + 1;
    const [other] = await inspectProcesses(anchor, [{ pid: pidOf(child), startTime, uniqueId: null }]);
    expect(other).toMatchObject({ alive: true, matches: false, command: "sh" });
    expect(other).toMatchObject({ argv: [], runId: null, executable: null, ancestors: [], descendants: [] });
  });

  test("of a zombie says that it is dead", async () => {
    const parent = live("/bin/sh", ["-c", "sleep 0.3 & echo $!; exec sleep 1000"]);
    const [text] = (await once(parent.stdout!, "data")) as [Buffer];
    const pid = Number(text.toString());
    await waitFor(async () => (await inspectProcesses(anchor, [pid]))[0]?.state === "Z");
    expect((await inspectProcesses(anchor, [pid]))[0]).toMatchObject({ alive: false, matches: false });
  });

  test("contains the ports of its descendants and the listeners of a port", async () => {
    const script = `const { createServer } = require("node:net");
      const server = createServer().listen(0, "127.0.0.1", () => console.log(server.address().port));`;
    const child = live("/bin/sh", ["-c", `'${process.execPath}' -e '${script}' & wait`]);
    onTestFinished(() => void process.kill(listener, "SIGKILL"));
    const [text] = (await once(child.stdout!, "data")) as [Buffer];
    const port = Number(text.toString());
    const [found] = await inspectProcesses(anchor, [pidOf(child)], { ports: true });
    const { identity, ports } = found?.descendants[0] ?? expect.fail("nobody is below it");
    const listener = identity.pid;
    expect(ports).toEqual([port]);
    expect(await inspectPort(anchor, port)).toEqual({
      open: true,
      holders: [{ identity, command: expect.stringMatching(/^(node|MainThread)$/) as string }],
    });
    expect((await inspectProcesses(anchor, [pidOf(child)]))[0]?.descendants[0]?.ports).toEqual([]);
    await expect(inspectPort(anchor, 65_536)).rejects.toBeInstanceOf(BadInput);
  });

  test("can be limited to identity and state", async () => {
    const child = live("/bin/sh", ["-c", `sleep 1000 & ${WAIT}; kill $!`], { HOLDFAST_RUN_ID: "run" });
    onTestFinished(() => void child.stdin?.end());
    await once(child.stdout!, "data");
    const [full] = await inspectProcesses(anchor, [pidOf(child)]);
    expect(full?.descendants).toHaveLength(1);
    const [brief] = await inspectProcesses(anchor, [pidOf(child)], { brief: true });
    expect(brief).toEqual({
      ...full,
      state: brief?.state,
      argv: [],
      stdio: [],
      executable: null,
      cgroup: null,
      runId: null,
      ancestors: [],
      descendants: [],
    });
    process.kill(full?.descendants[0]?.identity.pid ?? 0, "SIGKILL");
  });
});

describe("many queries", () => {
  test("are answered in order, those about dead processes at little cost", async () => {
    const wanted = Array.from({ length: 20_000 }, (_, at) => (at % 1000 === 7 ? process.pid : nobody(at)));
    const began = performance.now();
    const found = await inspectProcesses(anchor, wanted, { brief: true });
    // Ten milliseconds each would take minutes; this is a limit for a loaded machine, not the usual time.
    expect(performance.now() - began).toBeLessThan(scaled(5_000));
    expect(found).toHaveLength(wanted.length);
    for (const [at, evidence] of found.entries())
      if (at % 1000 === 7) expect(evidence.alive).toBe(true);
      else if (evidence.alive || evidence.identity !== wanted[at]) expect.fail(`answer ${at} is not its own`);
  });

  test("can be sent one at a time: an answer does not wait for the next query", async () => {
    const child = live(anchor, ["inspect"], anchorEnvironment());
    for (let at = 0; at < 3; at += 1) {
      child.stdin?.write(`${process.pid}\n`);
      const [line] = (await once(child.stdout!, "data")) as [Buffer];
      expect(JSON.parse(line.toString())).toMatchObject({ pid: process.pid, alive: true });
    }
    child.stdin?.end();
  });

  test("that are invalid are refused", async () => {
    await expect(inspectProcesses(anchor, [-1])).rejects.toBeInstanceOf(BadInput);
    await expect(inspectProcesses(anchor, [2 ** 31])).rejects.toBeInstanceOf(BadInput);
    for (const line of [
      "x",
      "1x",
      "1 2 3 4",
      "-1",
      "0",
      "99999999999",
      "cgroup",
      "cgroup 1 x",
      "cgroup x /a",
      " 1",
    ]) {
      const child = spawn(anchor, ["inspect"], {
        stdio: ["pipe", "ignore", "ignore"],
        env: anchorEnvironment(),
      });
      child.stdin.end(`${line}\n`);
      expect((await once(child, "exit"))[0], line).toBe(2);
    }
  });
});

const anchorIdentity = { pid: 100, startTime: 5, uniqueId: "1" };
const root = (pid: number) => ({ pid, startTime: pid, uniqueId: null });
const task = sampleRunRecord({ runId: "run_task", anchor: anchorIdentity, root: root(101), createdAt: 2 });
const service = sampleRunRecord({
  runId: "run_service",
  anchor: anchorIdentity,
  root: root(102),
  createdAt: 3,
});

const below = [
  [101, 100],
  [102, 101],
  [103, 102],
  // Its parent has exited.
  [104, 100],
].map(([pid, parentPid]) => ({
  identity: root(pid ?? 0),
  parentPid,
})) as unknown as ProcessEvidence["descendants"];

const pids = (of: typeof task, records: readonly (typeof task)[]): number[] =>
  membersOfRun(of, records, below).map(({ identity }) => identity.pid);

test("of two runs with one anchor each has its own members, and orphans belong to the first", () => {
  expect(pids(task, [service, task])).toEqual([101, 104]);
  expect(pids(service, [service, task])).toEqual([102, 103]);
});

test.for([
  ["boot", { bootId: "another" }],
  ["pid namespace", { pidNamespace: "pid:[2]" }],
  ["anchor that had its pid before", { anchor: { ...anchorIdentity, startTime: 4, uniqueId: "0" } }],
] as const)("an older run of another %s takes no members away", ([, elsewhere]) => {
  const other = sampleRunRecord({
    runId: "run_other",
    anchor: anchorIdentity,
    root: root(101),
    createdAt: 1,
    ...elsewhere,
  });
  expect(pids(task, [other, task])).toEqual([101, 102, 103, 104]);
  expect(pids(task, [other, service, task])).toEqual([101, 104]);
});
