import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { readProcess } from "../../support/live-processes.js";
import { SharedHome } from "../../support/supervisor/shared-home.js";
import { waitFor } from "../../support/wait-for.js";

/** Another tool's agent: a script below its wrapper root, with a child of its own. */
interface Agent {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly startTime: number;
  readonly script: string;
  readonly wrapperRoot: string;
}

/** `words` are its arguments. Its child has the token in its command line and is in its process group. */
async function agent(sharedHome: SharedHome, ...words: readonly string[]): Promise<Agent> {
  const wrapperRoot = join(sharedHome.sandbox.directory, "wrapper");
  mkdirSync(wrapperRoot, { recursive: true });
  const script = join(wrapperRoot, "agent.sh");
  writeFileSync(script, `sleep "100001.$1" &\nwait\n: "$@"\n`);
  const before = sharedHome.tokenProcesses.ofRuns().length;
  const child = spawn("sh", [script, sharedHome.tokenProcesses.token, ...words], {
    detached: true,
    stdio: "ignore",
  });
  await waitFor("it has its child", () => sharedHome.tokenProcesses.ofRuns().length === before + 2);
  const pid = child.pid ?? 0;
  return { child, pid, startTime: readProcess(pid)?.startTime ?? 0, script, wrapperRoot };
}

interface ImportResult {
  readonly runId: string;
  readonly verified: boolean;
  readonly why: string;
}

/** Runs `holdfast runs import` with these entries. */
async function imported(
  sharedHome: SharedHome,
  entries: readonly object[],
): Promise<readonly ImportResult[]> {
  const file = join(sharedHome.sandbox.directory, "runs.json");
  writeFileSync(file, JSON.stringify(entries));
  const cli = sharedHome.sandbox.spawn(
    [process.execPath, resolve("dist/cli/main.js"), "runs", "import", file, "--json"],
    "pipe",
  );
  if (cli.stdout === null || cli.stderr === null) throw new Error("it has no streams");
  const [out, errors, [code]] = await Promise.all([text(cli.stdout), text(cli.stderr), once(cli, "exit")]);
  expect({ code: code as number, errors }).toEqual({ code: 0, errors: "" });
  return JSON.parse(out) as readonly ImportResult[];
}

describe.concurrent("an imported record", () => {
  test("with a quoted command matches the live process, which is killed", async () => {
    await using sharedHome = await SharedHome.open();
    const { child, pid, script, wrapperRoot } = await agent(sharedHome, "two words", "it's", "");
    const gone = once(child, "exit");
    const twin = await agent(sharedHome, "two words", "it's", "");
    const { token } = sharedHome.tokenProcesses;
    const command = `'sh' "${script}" ${token} "two words" 'it'\\''s' ''`;
    const [result] = await imported(sharedHome, [{ pid, command, wrapper_root: wrapperRoot }]);
    expect(result).toMatchObject({ verified: true });
    const runId = result?.runId ?? "";

    const gateway = await sharedHome.gateway();
    await gone;
    expect(await gateway.supervisor.getRun(runId)).toMatchObject({
      state: "exited",
      leaseId: "",
      exit: { reason: "lost", actor: "", source: "none" },
      emptiness: "unproven",
    });
    // A process with the same command that is not imported, and its child, are left alone.
    expect(readProcess(twin.pid)?.startTime).toBe(twin.startTime);
    expect(sharedHome.tokenProcesses.ofRuns()).toHaveLength(2);
    expect(sharedHome.reconcileDecisions(runId)).toMatchObject([
      { row: "imported", action: "sweep", from: "" },
    ]);
    const settled = sharedHome.dumpStore();
    await gateway.supervisor.reconcile();
    expect(sharedHome.dumpStore()).toEqual(settled);
    await sharedHome.killStrays();
  });

  test("whose process is gone does not touch a grandchild in its group", async () => {
    await using sharedHome = await SharedHome.open();
    const { child, pid, script, wrapperRoot } = await agent(sharedHome);
    const command = `sh ${script} ${sharedHome.tokenProcesses.token}`;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
    const grandchild = sharedHome.survivors();
    expect(grandchild).toHaveLength(1);
    const [result] = await imported(sharedHome, [{ pid, command, wrapperRoot }]);
    expect(result).toMatchObject({ verified: false });
    const runId = result?.runId ?? "";
    const gateway = await sharedHome.gateway();
    expect(await gateway.supervisor.getRun(runId)).toMatchObject({
      state: "exited",
      exit: { reason: "lost" },
      emptiness: "unproven",
    });
    expect(sharedHome.reconcileDecisions(runId)).toMatchObject([{ row: "imported", action: "lose" }]);
    expect(sharedHome.survivors()).toEqual(grandchild);
    await sharedHome.killStrays();
  });

  test("that differs in any fact leaves the process alone and gives the reason", async () => {
    await using sharedHome = await SharedHome.open();
    const { pid, startTime, script, wrapperRoot } = await agent(sharedHome);
    const { token } = sharedHome.tokenProcesses;
    const command = `sh ${script} ${token}`;
    const wrong = [
      { entry: { pid, command: `${command} --more`, wrapperRoot }, why: "runs another command" },
      { entry: { pid, command: `"${command}"`, wrapperRoot }, why: "runs another command" },
      { entry: { pid, command, wrapperRoot: `${wrapperRoot}-not` }, why: "runs no program below" },
      { entry: { pid, command, wrapperRoot: join(wrapperRoot, "bin") }, why: "runs no program below" },
      { entry: { pid, command, wrapperRoot, startTime: startTime + 1 }, why: "at another time" },
    ];
    const results = await imported(
      sharedHome,
      wrong.map(({ entry }) => entry),
    );
    const alive = sharedHome.survivors();
    const gateway = await sharedHome.gateway();
    for (const [at, { why }] of wrong.entries()) {
      const { runId = "", verified, why: reason } = results[at] ?? {};
      expect({ verified, reason }).toEqual({
        verified: false,
        reason: expect.stringContaining(why) as string,
      });
      expect(sharedHome.column(runId, "state")).toBe("starting");
      expect(sharedHome.reconcileDecisions(runId)).toMatchObject([
        { row: "imported", action: "leave", why: expect.stringContaining(why) as string },
      ]);
    }
    expect(sharedHome.survivors()).toEqual(alive);
    const settled = sharedHome.dumpStore();
    await gateway.supervisor.reconcile();
    expect(sharedHome.dumpStore()).toEqual(settled);
    await sharedHome.killStrays();
    // The process has ended, so the records can end, too.
    await gateway.supervisor.reconcile();
    for (const { runId } of results) expect(sharedHome.column(runId, "state")).toBe("exited");
  });
});
