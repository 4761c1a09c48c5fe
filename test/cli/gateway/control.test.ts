import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { reachGateway } from "../../../src/gateway/locate.js";
import { RunGate } from "../../support/cli/recovery-fixture.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import type { CliResult } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

/** Says `up`, waits to be let go on, says `after` and exits with 7. */
const inTwoParts = (gate: RunGate): string => `echo up; read line <'${gate.path}'; echo after; exit 7`;

test("gateway status shows the running version, and the installed one when it differs", async () => {
  await using gatewayFixture = await BackgroundGateway.open();
  const copy = await mkdtemp(join(tmpdir(), "hf-"));
  try {
    for (const name of ["dist", "build/anchor", "package.json"])
      await cp(name, join(copy, name), { recursive: true });
    await symlink(resolve("node_modules"), join(copy, "node_modules"));
    const holdfast = (...args: readonly string[]): Promise<{ readonly stdout: string }> =>
      promisify(execFile)(process.execPath, [join(copy, "dist/cli/main.js"), "gateway", ...args], {
        env: { ...gatewayFixture.env, HOLDFAST_ANCHOR: join(copy, "build/anchor") },
      });
    const manifest = JSON.parse(await readFile("package.json", "utf8")) as { readonly version: string };
    const { version } = manifest;
    await holdfast("start");
    expect((await holdfast("status")).stdout).not.toContain("restart to use");
    await writeFile(join(copy, "package.json"), JSON.stringify({ ...manifest, version: "99.0.0" }));
    const { stdout } = await holdfast("status");
    expect(stdout).toMatch(new RegExp(`^gateway in_\\w+ ${version} \\(restart to use 99\\.0\\.0: `));
    expect(JSON.parse((await holdfast("status", "--json")).stdout)).toMatchObject({
      version,
      installedVersion: "99.0.0",
    });
    await holdfast("restart");
    const after = JSON.parse((await holdfast("status", "--json")).stdout) as Record<string, unknown>;
    expect(after).toMatchObject({ version: "99.0.0", installedVersion: "99.0.0" });
    await holdfast("stop");
  } finally {
    await rm(copy, { recursive: true });
  }
});

describe.concurrent("gateway start", () => {
  test("says so, answers from then on, and does nothing the second time", async () => {
    await using gatewayFixture = await BackgroundGateway.open();
    const first = await gatewayFixture.holdfast("gateway", "start");
    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect(first.stdout).toMatch(
      /^started: gateway in_\w{8} \S+, pid \d+, up \S+, 0 open runs, state in \S+\n$/,
    );
    const second = await gatewayFixture.holdfast("gateway", "start");
    expect(second).toMatchObject({ code: 0, stderr: "" });
    const { pid, instanceId } = await gatewayFixture.status();
    expect(second.stdout).toContain(`already running: gateway ${instanceId} `);
    expect(second.stdout).toContain(`pid ${pid},`);
    expect(first.stdout).toContain(`pid ${pid},`);
    expect(await gatewayFixture.json("gateway", "start")).toMatchObject({
      running: true,
      started: false,
      pid,
    });
  });

  test("twice at once gives one gateway, and one of them says that it was not its doing", async () => {
    await using gatewayFixture = await BackgroundGateway.open();
    const both = await Promise.all(
      [0, 1].map(() => gatewayFixture.json<{ started: boolean; pid: number }>("gateway", "start")),
    );
    expect(both.filter(({ started }) => started)).toHaveLength(1);
    expect(new Set(both.map(({ pid }) => pid)).size).toBe(1);
    await waitFor("the other one has gone", async () => (await gatewayFixture.processes()).length === 1);
  });

  test("keeps what is left of a run's variables out of the gateway", async () => {
    await using gatewayFixture = await BackgroundGateway.open();
    const marks = ["LEASE_ID", "SESSION_KEY", "GATEWAY_INSTANCE_ID", "TOKEN"].map(
      (name) => `HOLDFAST_${name}`,
    );
    const env = Object.fromEntries(marks.map((name) => [name, "of-a-run"]));
    const { child, finished } = gatewayFixture.startWith({ ...env, KEPT: "yes" }, "gateway", "start");
    child.stdin.end();
    expect(await finished).toMatchObject({ code: 0 });
    const { pid } = await gatewayFixture.status();
    const names = (await readFile(`/proc/${pid}/environ`, "latin1"))
      .split("\0")
      .map((line) => line.slice(0, line.indexOf("=")));
    expect(names).toContain("KEPT");
    expect(names).toContain("HOLDFAST_HOME");
    expect(names.filter((name) => marks.includes(name))).toEqual([]);
  });

  test("after the gateway was killed outright takes its runs up", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    await using gate = await RunGate.create();
    const runId = await gatewayFixture.startScript(inTwoParts(gate));
    await gatewayFixture.waitForOutput(runId, "up");
    const { pid, instanceId } = await gatewayFixture.status();
    process.kill(pid, "SIGKILL");
    await waitFor("nobody answers", async () => (await reachGateway(gatewayFixture.home)) === null);
    const again = await gatewayFixture.json<{ pid: number }>("gateway", "start");
    expect(again).toMatchObject({ started: true, instanceId, runs: 1 });
    expect(again.pid).not.toBe(pid);
    await gate.release();
    expect(await gatewayFixture.holdfast("logs", "-f", runId)).toMatchObject({
      code: 0,
      stdout: "up\nafter\n",
    });
    expect(await gatewayFixture.waitForEnd(runId)).toMatchObject({ exit: { reason: "exit", code: 7 } });
  });
});

describe.concurrent("gateway status", () => {
  test("is 0 where one runs, 1 where none does, and the same as JSON", async () => {
    await using gatewayFixture = await BackgroundGateway.open();
    expect(await gatewayFixture.holdfast("gateway", "status")).toEqual({
      code: 1,
      signal: null,
      stdout: "",
      stderr: "holdfast: no gateway is running\n",
    });
    expect(await gatewayFixture.holdfast("gateway", "status", "--json")).toMatchObject({
      code: 1,
      stdout: '{"running":false}\n',
    });
    await gatewayFixture.holdfast("gateway", "start");
    const { code, stdout } = await gatewayFixture.holdfast("gateway", "status");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^gateway in_\w{8} \S+, pid \d+, up \S+, 0 open runs, state in \S+\n$/);
    expect(await gatewayFixture.json("gateway", "status")).toMatchObject({
      running: true,
      ready: true,
      runs: 0,
      home: gatewayFixture.home,
    });
  });

  test.each([
    ["gateway status", 1],
    ["gateway stop", 0],
    ["events", 0],
    ["events --run 4k2m", 1],
    ["events --json", 0],
  ])("%s starts nothing and creates nothing", async (words, code) => {
    await using gatewayFixture = await BackgroundGateway.open();
    expect(await gatewayFixture.holdfast(...words.split(" "))).toMatchObject({ code, stdout: "" });
    expect(await readdir(gatewayFixture.home)).toEqual([]);
    expect(await gatewayFixture.processes()).toEqual([]);
  });

  test("and events leave a state directory as they find it", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    const client = await gatewayFixture.client();
    const { run } = await client.exec({ body: { argv: ["true"] } });
    await gatewayFixture.stop();
    await waitFor("its process has left", async () => (await gatewayFixture.processes()).length === 0);
    const before = [await readdir(gatewayFixture.home), await readFile(gatewayFixture.store)];
    const { stdout } = await gatewayFixture.holdfast("events", "--run", run.runId.slice(0, 9));
    expect(stdout).toMatch(/ {2}spawn .*\n.* {2}exit .*\n$/s);
    expect(await gatewayFixture.holdfast("gateway", "status")).toMatchObject({ code: 1 });
    expect([await readdir(gatewayFixture.home), await readFile(gatewayFixture.store)]).toEqual(before);
  });
});

describe.concurrent("gateway stop", () => {
  test("leaves the runs to their anchors, and says how many", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    const runId = await gatewayFixture.startScript("sleep 7003");
    const { code, stdout } = await gatewayFixture.holdfast("gateway", "stop");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^gateway in_\w{8} is down; runs: 1 left to their anchors\n$/);
    expect(await gatewayFixture.holdfast("gateway", "status")).toMatchObject({ code: 1 });
    expect(await gatewayFixture.record(runId)).toMatchObject({ state: "running" });
    expect(await gatewayFixture.membersOf(runId)).not.toEqual([]);
  });

  test("drains: waits for a task to end", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    const runId = await gatewayFixture.startScript("sleep 2.5; exit 3");
    const answer = await gatewayFixture.json("gateway", "stop", "--runs", "drain", "--wait", "20s");
    expect(answer).toEqual({ running: false, ended: 1, terminated: 0, left: 0, callers: 0 });
    expect(await gatewayFixture.record(runId)).toMatchObject({ state: "exited", exit: { code: 3 } });
  });

  test("drains no longer than it was told, and leaves the rest", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    const runId = await gatewayFixture.startScript("sleep 7004");
    const answer = await gatewayFixture.json("gateway", "stop", "--runs", "drain", "--wait", "50ms");
    expect(answer).toEqual({ running: false, ended: 0, terminated: 0, left: 1, callers: 0 });
    expect(await gatewayFixture.record(runId)).toMatchObject({ state: "running" });
  });

  test("terminates, and is back when everything is gone", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    const runs = [
      await gatewayFixture.startScript("sleep 7005"),
      await gatewayFixture.startScript("sleep 7006"),
    ];
    const { code, stdout } = await gatewayFixture.holdfast("gateway", "stop", "--runs", "terminate");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^gateway in_\w{8} is down; runs: 2 terminated\n$/);
    for (const runId of runs) {
      expect(await gatewayFixture.membersOf(runId)).toEqual([]);
      expect(await gatewayFixture.record(runId)).toMatchObject({
        state: "exited",
        exit: { reason: "shutdown" },
      });
    }
    await gatewayFixture.expectNoProcesses();
  });

  test("where none runs says so, and that is no failure", async () => {
    await using gatewayFixture = await BackgroundGateway.open();
    expect(await gatewayFixture.holdfast("gateway", "stop")).toMatchObject({
      code: 0,
      stdout: "",
      stderr: "holdfast: no gateway is running\n",
    });
    expect(await gatewayFixture.json("gateway", "stop")).toEqual({ running: false });
  });
});

describe.concurrent("gateway restart", () => {
  test("keeps a live run: its output goes on, its exit code is true", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    await using gate = await RunGate.create();
    const runId = await gatewayFixture.startScript(inTwoParts(gate));
    await gatewayFixture.waitForOutput(runId, "up");
    const { pid } = await gatewayFixture.status();
    const { code, stdout } = await gatewayFixture.holdfast("gateway", "restart");
    expect(code).toBe(0);
    expect(stdout).toMatch(/ is down; runs: 1 left to their anchors\nstarted: .* 1 open run, state in .*\n$/);
    expect((await gatewayFixture.status()).pid).not.toBe(pid);
    await gate.release();
    expect(await gatewayFixture.holdfast("logs", "-f", runId)).toMatchObject({
      code: 0,
      stdout: "up\nafter\n",
    });
    expect(await gatewayFixture.waitForEnd(runId)).toMatchObject({
      exit: { reason: "exit", code: 7 },
      emptiness: "proven",
    });
  });

  test("where none runs starts one, and says both", async () => {
    await using gatewayFixture = await BackgroundGateway.open();
    const { code, stdout, stderr } = await gatewayFixture.holdfast("gateway", "restart");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "holdfast: no gateway was running\n" });
    expect(stdout).toMatch(/^started: gateway [^\n]+\n$/);
    expect(await gatewayFixture.json("gateway", "restart")).toMatchObject({ running: true, started: true });
  });
});

describe.concurrent("a command that acts", () => {
  test("starts a gateway where none runs, and says so beside its answer", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    const runId = await gatewayFixture.startScript("sleep 7007");
    await gatewayFixture.stop();
    const { code, stdout, stderr } = await gatewayFixture.holdfast("process", "clear");
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: "removed 0 ended runs from lists; --all lists them\n",
    });
    expect(stderr).toMatch(
      /^holdfast: started a gateway in the background \(pid \d+\); `holdfast gateway stop` stops it\n$/,
    );
    const kill = (): Promise<CliResult> => gatewayFixture.holdfast("process", "kill", runId);
    expect(await kill()).toMatchObject({ code: 0, stderr: "", stdout: `${runId} is gone (manual-cancel)\n` });
    expect(await kill()).toMatchObject({
      code: 0,
      stderr: "",
      stdout: expect.stringContaining(`${runId}: it had already ended: `) as string,
    });
  });

  test("that stops a run starts no gateway: it stops the run directly, and says so", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    const runId = await gatewayFixture.startScript("sleep 7007");
    await gatewayFixture.stop();
    const { code, stdout, stderr } = await gatewayFixture.holdfast("process", "kill", runId);
    expect(stdout).toMatch(new RegExp(`^${runId} is gone \\(manual-cancel by cli:\\S+, proven empty\\)\\n$`));
    expect(stderr).toBe(
      `holdfast: no gateway is running; stopped ${runId} directly; the next gateway completes its record\n`,
    );
    expect(code).toBe(0);
    expect(await reachGateway(gatewayFixture.home)).toBeNull();
  });

  test("may steer at once what the gateway it started has taken up", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    const runId = await gatewayFixture.startBash();
    process.kill((await gatewayFixture.status()).pid, "SIGKILL");
    const sent = await gatewayFixture.holdfast("process", "submit", runId, "echo again$((1+1))");
    expect(sent).toMatchObject({ code: 0, stdout: "" });
    await gatewayFixture.waitForScreen(runId, "again2");
  });

  test.each(["process write 4k2m x", "process clear", "sessions create --key k"])(
    "inside a run starts nothing: %s",
    async (words) => {
      await using gatewayFixture = await BackgroundGateway.open();
      const { child, finished } = gatewayFixture.startWith(
        { HOLDFAST_RUN_ID: "run_4k2m4k2m4k2m" },
        ...words.split(" "),
      );
      child.stdin.end();
      expect(await finished).toEqual({
        code: 125,
        signal: null,
        stdout: "",
        stderr:
          "holdfast: no gateway is running, and inside a run none is started; nothing was done. Start one outside: holdfast gateway start\n",
      });
      expect(await readdir(gatewayFixture.home)).toEqual([]);
    },
  );
});
