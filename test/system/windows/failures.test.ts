import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  buildWindowsProgram,
  type WindowsResult,
  whyNoWindows,
  WindowsFixture,
  windowsPath,
} from "../../support/windows/windows-fixture.js";

interface Inspected {
  readonly emptiness: string | null;
  readonly exit: { readonly reason: string } | null;
  readonly anchor: { readonly pid: number };
  readonly root: { readonly pid: number };
  readonly processes: { readonly processes: readonly { readonly identity: { readonly pid: number } }[] };
}

interface Ended {
  readonly stopped: WindowsResult;
  readonly inspected: Inspected;
  /** The leader, the anchor, and a process outside of the run that has the same command line. */
  readonly alive: readonly boolean[];
}

const ended = { code: 0, stdout: expect.stringMatching(/^run_\w+ is gone \(manual-cancel/m) as string };

describe.skipIf(whyNoWindows !== null).concurrent("on Windows, a run", () => {
  let windows: WindowsFixture;
  let tool: string;
  beforeAll(() => {
    windows = new WindowsFixture({ withAnchor: true });
    const program = join(windows.path, "tool.exe");
    buildWindowsProgram(resolve("test/system/windows/tree.c"), program);
    tool = windowsPath(program);
  }, 600_000);
  afterAll(() => windows[Symbol.asyncDispose]());

  const node = (script: string): readonly string[] => [windows.node, "-e", script];
  const cli = (...words: readonly string[]): readonly string[] => [windows.node, windows.cli, ...words];
  const idle = "setTimeout(() => {}, 600000)";
  const startBystander = `const { spawn } = require("child_process");
    const child = spawn(process.execPath, ["-e", ${JSON.stringify(idle)}], { detached: true, stdio: "ignore" });
    child.unref(); console.log(child.pid);`;

  /** Starts a run under a gateway of its own, breaks something, and ends the run by a command. */
  async function endAfter(
    name: string,
    damage: (pids: { readonly gateway: number; readonly anchor: number }) => readonly string[],
    ...stop: readonly string[]
  ): Promise<Ended> {
    const env = { HOLDFAST_HOME: `C:\\${name}` };
    const run = (...argvs: readonly (readonly string[])[]): Promise<readonly WindowsResult[]> =>
      windows.run(...argvs.map((argv) => ({ argv, env })));
    const inspect = (result: WindowsResult | undefined): Inspected =>
      JSON.parse(result?.stdout ?? "") as Inspected;
    const [outside, , status, before] = await run(
      node(startBystander),
      cli("run", "-d", "--name", name, "--", ...node(idle)),
      cli("gateway", "status", "--json"),
      cli("inspect", name, "--json"),
    );
    const { anchor, root, processes } = inspect(before);
    // Not the host of the anchor's console.
    expect(processes.processes.map(({ identity }) => identity.pid)).toEqual([root.pid]);
    const { pid: gateway } = JSON.parse(status?.stdout ?? "") as { pid: number };
    const pids = [root.pid, anchor.pid, Number(outside?.stdout)];
    const [, stopped, after, alive] = (await run(
      damage({ gateway, anchor: anchor.pid }),
      cli(...stop),
      cli("inspect", name, "--json"),
      node(`console.log(JSON.stringify(${JSON.stringify(pids)}.map((pid) => {
        try { return process.kill(pid, 0); } catch { return false; } })));`),
    )) as [WindowsResult, WindowsResult, WindowsResult, WindowsResult];
    return { stopped, inspected: inspect(after), alive: JSON.parse(alive.stdout) as readonly boolean[] };
  }

  test("is ended by `runs cleanup` after its gateway was killed", async () => {
    const { stopped, inspected, alive } = await endAfter(
      "killed",
      ({ gateway }) => node(`process.kill(${gateway}, "SIGKILL")`),
      ...["runs", "cleanup", "--run", "killed", "--yes"],
    );
    expect(stopped).toMatchObject({
      ...ended,
      stderr: expect.stringContaining("no gateway is running; stopped"),
    });
    expect(inspected.processes.processes).toEqual([]);
    expect(alive).toEqual([false, false, true]);
  });

  test("is stopped while its gateway is suspended", async () => {
    const { stopped, inspected, alive } = await endAfter(
      "suspended",
      ({ gateway }) => [tool, "suspend", String(gateway)],
      ...["stop", "suspended", "--grace", "500ms"],
    );
    expect(stopped).toMatchObject({ ...ended, stderr: expect.stringContaining("did not answer within 5 s") });
    expect(inspected.processes.processes).toEqual([]);
    expect(alive).toEqual([false, false, true]);
  });

  test("is stopped while its anchor is suspended, which is resumed for that", async () => {
    const { stopped, inspected, alive } = await endAfter(
      "held",
      ({ anchor }) => [tool, "suspend", String(anchor)],
      ...["stop", "held", "--grace", "500ms"],
    );
    expect(stopped).toMatchObject(ended);
    expect(inspected).toMatchObject({ emptiness: "proven", exit: { reason: "manual-cancel" } });
    expect(alive).toEqual([false, expect.any(Boolean), true]);
  });

  test("is refused, and its environment not shown, if another program has taken the launcher's pipe", async () => {
    const [result] = await windows.run({
      argv: [windows.node, windowsPath("test/system/windows/scenarios/stranger.mjs"), windows.cli],
      env: { HOLDFAST_HOME: String.raw`C:\taken` },
    });
    expect(result).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(result?.stdout ?? "")).toMatchObject({
      first: 0,
      code: 125,
      stderr: expect.stringContaining("another program listens on its named pipe"),
      connected: true,
      leaked: false,
    });
  });
});
