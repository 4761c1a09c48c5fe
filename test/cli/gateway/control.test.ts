import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { reachGateway } from "../../../src/gateway/locate.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import type { CliResult } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

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
  test("starts one gateway, and the second time only reports it", async () => {
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

  test("twice at the same time starts one gateway, and one command reports that it started none", async () => {
    await using gatewayFixture = await BackgroundGateway.open();
    const both = await Promise.all(
      [0, 1].map(() => gatewayFixture.json<{ started: boolean; pid: number }>("gateway", "start")),
    );
    expect(both.filter(({ started }) => started)).toHaveLength(1);
    expect(new Set(both.map(({ pid }) => pid)).size).toBe(1);
    await waitFor("the other process has ended", async () => (await gatewayFixture.processes()).length === 1);
  });

  test("removes the variables of a run from the gateway's environment", async () => {
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
});

describe.concurrent("gateway status", () => {
  test("exits with 0 if a gateway runs and with 1 if none does, also with --json", async () => {
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
    ["events --run 4k2m", 1],
  ])("%s starts nothing and creates nothing", async (words, code) => {
    await using gatewayFixture = await BackgroundGateway.open();
    expect(await gatewayFixture.holdfast(...words.split(" "))).toMatchObject({ code, stdout: "" });
    expect(await readdir(gatewayFixture.home)).toEqual([]);
    expect(await gatewayFixture.processes()).toEqual([]);
  });
});

describe.concurrent("gateway stop", () => {
  test("leaves the runs to their anchors, and prints their number", async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    const runId = await gatewayFixture.startScript("sleep 7003");
    const { code, stdout } = await gatewayFixture.holdfast("gateway", "stop");
    expect(code).toBe(0);
    expect(stdout).toMatch(/^gateway in_\w{8} is down; runs: 1 left to their anchors\n$/);
    expect(await gatewayFixture.holdfast("gateway", "status")).toMatchObject({ code: 1 });
    expect(await gatewayFixture.record(runId)).toMatchObject({ state: "running" });
    expect(await gatewayFixture.membersOf(runId)).not.toEqual([]);
  });

  test("--runs terminate returns when all runs are gone", async () => {
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

  test("without a gateway succeeds and says so", async () => {
    await using gatewayFixture = await BackgroundGateway.open();
    expect(await gatewayFixture.holdfast("gateway", "stop")).toMatchObject({
      code: 0,
      stdout: "",
      stderr: "holdfast: no gateway is running\n",
    });
    expect(await gatewayFixture.json("gateway", "stop")).toEqual({ running: false });
  });
});

describe.concurrent("a command that acts", () => {
  test("starts a gateway if none runs, and says so on stderr", async () => {
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

  test("that stops a run without a gateway stops it directly and starts none", async () => {
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

  test.each(["process write 4k2m x", "process clear", "sessions create --key k"])(
    "inside a run starts no gateway: %s",
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
