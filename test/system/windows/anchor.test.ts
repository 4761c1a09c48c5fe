import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  buildWindowsProgram,
  isWindows,
  whyNoWindows,
  WindowsFixture,
  windowsPath,
} from "../../support/windows/windows-fixture.js";

/** The tests run under Wine, which lacks some functions of Windows. Tests of those are skipped. */
const underWine = !isWindows;

const TIER = "job+launcher+unique";
const proven = { emptiness: "proven", tier: TIER };
/** The processes that are left of a tree of seven after its run has ended. */
const nothingLeft = { left: [], bystander: true, roles: 7 };
const killed = { leader: { signal: 9 }, killMode: "job", ...proven };

describe.skipIf(whyNoWindows !== null)("an anchor on Windows", { timeout: 120_000 }, () => {
  let windows: WindowsFixture;
  let program: string;
  beforeAll(() => {
    windows = new WindowsFixture({ withAnchor: true });
    program = join(windows.path, "tree.exe");
    buildWindowsProgram(resolve("test/system/windows/tree.c"), program);
  }, 600_000);
  afterAll(() => windows[Symbol.asyncDispose]());

  /** Runs a scenario of scenarios/main.mjs, and returns what it saw. */
  async function observe(name: string): Promise<unknown> {
    const argv = [windows.node, windowsPath("test/system/windows/scenarios/main.mjs"), name];
    const [result] = await windows.run({ argv, env: { TREE_PROGRAM: windowsPath(program) } });
    if (result?.code !== 0)
      throw new Error(`${name} ended with ${result?.code}: ${result?.stderr}${result?.stdout}`);
    return JSON.parse(result.stdout) as unknown;
  }

  describe("a command", () => {
    test("has its output, its errors and its exit code kept", async () => {
      const end = { reason: "exit", leader: { code: 7 }, killMode: "none", ...proven };
      expect(await observe("output")).toMatchObject({ ...end, output: "hello\r\n", errors: "oops \r\n" });
    });

    test("writes both streams in order into one, when merged", async () => {
      expect(await observe("merged")).toEqual({ output: "one\r\ntwo \r\nthree\r\n", errors: "" });
    });

    test("keeps an exit code of 32 bits", async () => {
      expect(await observe("status")).toEqual({ leader: { code: 0xc0000005 }, reason: "exit" });
    });

    // cmd.exe of Wine cannot parse the number.
    test.skipIf(underWine)("keeps an exit code of 32 bits through cmd.exe", async () => {
      expect(await observe("statusOfShell")).toEqual({ leader: { code: 0xc0000005 }, reason: "exit" });
    });

    test("loses no byte of much output", async () => {
      expect(await observe("muchOutput")).toEqual({ bytes: 5 << 20, exact: true });
    });

    test("gets all of its input, and the end of it", async () => {
      expect(await observe("input")).toMatchObject({ reason: "exit", leader: { code: 0 }, same: true });
    });

    test("gets every word as it was given", async () => {
      const { words, received } = (await observe("words")) as { words: string[]; received: string[] };
      expect(received).toEqual(words);
    });

    test("gets exactly its environment, with what Windows needs, and its directory", async () => {
      expect(await observe("environment")).toEqual({
        cwd: true,
        values: ["1", "ünï", "=x", "C:\\nowhere", ""],
        hasRoot: true,
      });
    });

    test("that cannot be started leaves nothing behind, and the step is named", async () => {
      const files = {
        program: "exec",
        name: "exec",
        batch: "exec",
        dot: "exec",
        space: "exec",
        relative: "exec",
      };
      const steps = { ...files, directory: "cwd", long: "cwd" };
      expect(await observe("refusals")).toEqual({ steps, left: [] });
    });

    test("waits at the gate, and never runs if its owner leaves", async () => {
      expect(await observe("gate")).toEqual({ waits: true, ran: [], executed: false });
    });

    test("can be interrupted by Ctrl-C on a terminal, where a stop types it", async () => {
      const [interruptible, ignored] = [1, 2];
      expect(await observe("interrupts")).toEqual([interruptible, ignored]);
    });

    test("shows its output through a terminal", async () => {
      const { output, ...end } = (await observe("terminal")) as { output: string };
      expect(end).toMatchObject({ reason: "exit", leader: { code: 6 }, emptiness: "proven" });
      expect(output).toContain("hello from a terminal");
    });
  });

  describe("a tree whose members try to leave is gone, and a process like them is spared,", () => {
    test("after a stop", async () => {
      expect(await observe("stop")).toMatchObject({
        reason: "manual-cancel",
        actor: "test",
        ...killed,
        ...nothingLeft,
      });
    });

    test("after the time limit", async () => {
      expect(await observe("timeout")).toMatchObject({
        reason: "overall-timeout",
        ...killed,
        ...nothingLeft,
      });
    });

    test("after its leader has exited", async () => {
      const leader = { reason: "exit", leader: { code: 9 }, killMode: "job", ...proven };
      const residue = Array<string>(7).fill("background");
      expect(await observe("leaderExits")).toMatchObject({ ...leader, residue, ...nothingLeft });
    });

    test("after its owner has left", async () => {
      expect(await observe("ownerLeaves")).toMatchObject({
        reason: "owner-lost",
        ...killed,
        ...nothingLeft,
      });
    });

    test("after its anchor has been killed, and the launcher reports and records the loss", async () => {
      const { killed: count, ...seen } = (await observe("anchorDies")) as { killed: number };
      const swept = { runId: "run_tree", killMode: "job", emptiness: "proven" };
      expect(seen).toMatchObject({ lost: { runId: "run_tree" }, swept, ...nothingLeft });
      // The launcher has counted them. The host of a console may be among them.
      expect(count).toBeGreaterThanOrEqual(7);
    });

    test("after its anchor has been killed while the launcher is suspended, which counts when it continues", async () => {
      const { killed: count, ...seen } = (await observe("anchorDiesUnseen")) as { killed: number };
      const swept = { killMode: "job", emptiness: "proven" };
      expect(seen).toMatchObject({ sweptEarly: null, swept, ...nothingLeft });
      expect(count).toBeGreaterThanOrEqual(7);
    });

    test("after its anchor has been killed while its job could not be opened, and nothing is recorded before", async () => {
      const { killed: count, ...seen } = (await observe("anchorDiesBehindClosedJob")) as { killed: number };
      const swept = { killMode: "job", emptiness: "proven" };
      expect(seen).toMatchObject({ sweptEarly: null, alive: 7, swept, ...nothingLeft });
      expect(count).toBeGreaterThanOrEqual(7);
    });

    test("after it was ended from outside, and only its processes and its anchor are", async () => {
      const { answer, residue, ...rest } = (await observe("reaped")) as { answer: object; residue: string[] };
      expect(answer).toMatchObject({ verified: true, emptiness: "proven", anchor: "killed" });
      // One of the tree has a console of its own, and its host is in the job; the host of the anchor's is not.
      const ofTree = Array<string>(6).fill("tree.exe");
      expect([ofTree, ["conhost.exe", ...ofTree]]).toContainEqual(residue.sort());
      expect(rest).toMatchObject(nothingLeft);
    });

    test.each([
      ["that cannot be opened", "reapedBehindClosedJob"],
      ["that is not known", "reapedWithoutJob"],
    ])("after it was ended from outside without its job, %s, which proves nothing", async (_, scenario) => {
      expect(await observe(scenario)).toMatchObject({
        answer: { verified: true, emptiness: "unproven", anchor: "kept" },
        orphans: true,
        ...nothingLeft,
      });
    });

    test("after its anchor and the launcher have been killed", async () => {
      expect(await observe("anchorAndLauncherDie")).toMatchObject({ swept: null, ...nothingLeft });
    });

    test("after its gateway has been killed, and none has come back", async () => {
      expect(await observe("gatewayDiesForGood")).toMatchObject({
        reason: "owner-lost",
        ...killed,
        ...nothingLeft,
      });
    });

    test("after a stop when the launcher has been killed, which ended no run", async () => {
      const end = { reason: "manual-cancel", ...killed, tier: "job+unique" };
      expect(await observe("launcherDies")).toMatchObject({ alive: 7, ...end, ...nothingLeft });
    });
  });

  test("a run continues after its gateway was killed, with exact output and exit code", async () => {
    const end = { reason: "exit", leader: { code: 5 }, ...proven };
    expect(await observe("gatewayDies")).toMatchObject({ alive: true, ...end, output: "before\nafter\n" });
  });

  test("a run continues after the job of its gateway has ended, if that lets processes leave", async () => {
    const end = { reason: "exit", leader: { code: 5 }, ...proven };
    expect(await observe("callersJob")).toMatchObject({ alive: true, ...end, output: "before\nafter\n" });
  });

  test("a job of the caller that no process may leave is reported", async () => {
    expect(await observe("callersJobHolds")).toMatchObject({
      note: expect.stringContaining("runs end with that job") as string,
    });
  });

  // Wine 8 refuses CTRL_BREAK_EVENT.
  test.skipIf(underWine)("a stop asks every process on the console first", async () => {
    const end = { reason: "manual-cancel", leader: { code: 4 }, killMode: "pid" };
    expect(await observe("controlBreak")).toMatchObject({
      ...end,
      output: expect.stringContaining("asked") as string,
    });
  });

  test("a stop resumes a suspended process, so that it can end by itself", async () => {
    const end = { reason: "manual-cancel", leader: { code: 4 }, ...proven };
    expect(await observe("stopOfSuspended")).toMatchObject({ ...end, states: ["R", "T"] });
  });

  test("a deleted socket is created again, and the anchor answers on it", async () => {
    expect(await observe("deletedSocket")).toMatchObject({ reason: "manual-cancel", observed: 2 });
  });

  test("many runs at a time have their own output and exit codes", async () => {
    expect(await observe("manyRuns")).toEqual({ right: 12 });
  });

  test("a client that sends nothing or half a frame delays no other", async () => {
    expect(await observe("silentClients")).toEqual({ leader: { code: 3 } });
  });

  test("the launcher and the anchor leave when there is nothing to do", async () => {
    expect(await observe("launcherLeaves")).toEqual({ socket: false });
  });

  test("inspect shows a process, its command line and its markers, its job and the listeners of a port", async () => {
    const { seen, listener, ...rest } = (await observe("inspect")) as {
      seen: { argv: string[] };
      listener: { open: boolean; holder: boolean };
    };
    expect(seen).toMatchObject({ matches: true, ppid: true, runId: "run_seen", command: "node.exe" });
    expect(seen.argv.slice(1)).toEqual(["-e", "setInterval(() => {}, 1000)", "a b"]);
    expect(rest).toEqual({
      other: false,
      none: null,
      members: [true],
      // Not the host of the anchor's console.
      belowAnchor: [true],
      state: "populated",
      // The name of a job and its number have to match.
      notOfRecord: [null, "unknown", "unknown"],
      after: "gone",
    });
    expect(listener.open).toBe(true);
    // Wine knows no owners of ports.
    if (!underWine) expect(listener.holder).toBe(true);
  });

  test("only this user may open the pipes of a launcher and an anchor, and the job of a run", async () => {
    expect(await observe("access")).toEqual({ launcher: 0, anchor: 0, job: 0, ofNode: 1 });
  });

  test("limits are those of jobs", async () => {
    const { limits } = (await observe("limits")) as {
      limits: { controller: string; how: string | null }[];
    };
    const how = Object.fromEntries(limits.map((each) => [each.controller, each.how]));
    // Wine has no CPU rate.
    expect(how).toEqual({ memory: "job", pids: "job", cpu: underWine ? null : "job" });
  });

  // Wine accepts the limit, and does not keep it.
  test.skipIf(underWine)("a run has no more processes than its limit", async () => {
    expect(await observe("processLimit")).toMatchObject({ started: 3 });
  });
});
