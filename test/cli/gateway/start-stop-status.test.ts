import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { reachGateway } from "../../../src/gateway/locate-gateway.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { BatchCli } from "../../support/cli/batch-cli.js";
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
    expect((await holdfast("start")).stdout).not.toContain("restart to use");
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

test("gateway start and status report whether a gateway runs; a gateway has no variables of a run", async () => {
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
  const marks = ["LEASE_ID", "SESSION_KEY", "GATEWAY_INSTANCE_ID", "TOKEN"].map((name) => `HOLDFAST_${name}`);
  const env = Object.fromEntries(marks.map((name) => [name, "of-a-run"]));
  const starting = gatewayFixture.startWith({ ...env, KEPT: "yes" }, "gateway", "start");
  starting.child.stdin.end();
  const first = await starting.finished;
  expect(first).toMatchObject({ code: 0, stderr: "" });
  expect(first.stdout).toMatch(
    /^started: gateway in_\w{8} \S+, pid \d+, up \S+, 0 open runs, state in \S+\n$/,
  );
  const { pid, instanceId } = await gatewayFixture.status();
  expect(first.stdout).toContain(`pid ${pid},`);
  const names = (await readFile(`/proc/${pid}/environ`, "latin1"))
    .split("\0")
    .map((line) => line.slice(0, line.indexOf("=")));
  expect(names).toContain("KEPT");
  expect(names).toContain("HOLDFAST_HOME");
  expect(names.filter((name) => marks.includes(name))).toEqual([]);

  const second = await gatewayFixture.holdfast("gateway", "start");
  expect(second).toMatchObject({ code: 0, stderr: "" });
  expect(second.stdout).toContain(`already running: gateway ${instanceId} `);
  expect(second.stdout).toContain(`pid ${pid},`);
  expect(await gatewayFixture.json("gateway", "start")).toMatchObject({ running: true, started: false, pid });
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

test("gateway start twice at the same time starts one gateway, and one command reports that it started none", async () => {
  await using gatewayFixture = await BackgroundGateway.open();
  const both = await Promise.all(
    [0, 1].map(() => gatewayFixture.json<{ started: boolean; pid: number }>("gateway", "start")),
  );
  expect(both.filter(({ started }) => started)).toHaveLength(1);
  expect(new Set(both.map(({ pid }) => pid)).size).toBe(1);
  await waitFor("the other process has ended", async () => (await gatewayFixture.processes()).length === 1);
});

test("a command that needs no gateway, or one inside a run, starts none and creates nothing", async () => {
  await using gatewayFixture = await BackgroundGateway.open();
  await using batchCli = new BatchCli(gatewayFixture.env);
  const none = "holdfast: no gateway is running\n";
  expect(await batchCli.holdfast("gateway", "status")).toMatchObject({ code: 1, stdout: "", stderr: none });
  expect(await batchCli.holdfast("gateway", "stop")).toMatchObject({ code: 0, stdout: "", stderr: none });
  expect((await batchCli.holdfast("gateway", "stop", "--json")).stdout).toBe('{"running":false}\n');
  expect(await batchCli.holdfast("events", "--run", "4k2m")).toMatchObject({ code: 1, stdout: "" });
  const inside = { HOLDFAST_RUN_ID: "run_4k2m4k2m4k2m" };
  for (const words of ["process write 4k2m x", "process clear", "sessions create --key k"])
    expect(await batchCli.holdfastWith(inside, ...words.split(" ")), words).toEqual({
      code: 125,
      signal: null,
      stdout: "",
      stderr:
        "holdfast: no gateway is running, and inside a run none is started; nothing was done. Start one outside: holdfast gateway start\n",
    });
  expect(await readdir(gatewayFixture.home)).toEqual([]);
});

test("gateway stop leaves the runs to their anchors; the next command stops one directly, or starts a gateway", async () => {
  await using gatewayFixture = await BackgroundGateway.started();
  const runId = await gatewayFixture.startScript("sleep 7003");
  const direct = await gatewayFixture.startScript("sleep 7007");
  const stopped = await gatewayFixture.holdfast("gateway", "stop");
  expect(stopped.code).toBe(0);
  expect(stopped.stdout).toMatch(/^gateway in_\w{8} is down; runs: 2 left to their anchors\n$/);
  expect(await reachGateway(gatewayFixture.home)).toBeNull();
  expect(await gatewayFixture.record(runId)).toMatchObject({ state: "running" });
  expect(await gatewayFixture.membersOf(runId)).not.toEqual([]);

  const killed = await gatewayFixture.holdfast("process", "kill", direct);
  expect(killed.stdout).toMatch(
    new RegExp(`^${direct} is gone \\(manual-cancel by cli:\\S+, proven empty\\)\\n$`),
  );
  expect(killed.stderr).toBe(
    `holdfast: no gateway is running; stopped ${direct} directly; the next gateway completes its record\n`,
  );
  expect(killed.code).toBe(0);
  expect(await reachGateway(gatewayFixture.home)).toBeNull();

  const { code, stdout, stderr } = await gatewayFixture.holdfast("process", "clear");
  expect(code).toBe(0);
  expect(stdout).toMatch(/^removed [01] ended runs? from lists; --all lists them\n$/);
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

  const runs = [
    await gatewayFixture.startScript("sleep 7005"),
    await gatewayFixture.startScript("sleep 7006"),
  ];
  const terminated = await gatewayFixture.holdfast("gateway", "stop", "--runs", "terminate");
  expect(terminated.code).toBe(0);
  expect(terminated.stdout).toMatch(/^gateway in_\w{8} is down; runs: 2 terminated\n$/);
  for (const each of runs) {
    expect(await gatewayFixture.membersOf(each)).toEqual([]);
    expect(await gatewayFixture.record(each)).toMatchObject({
      state: "exited",
      exit: { reason: "shutdown" },
    });
  }
  await gatewayFixture.expectNoProcesses();
});
