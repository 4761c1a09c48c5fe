import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type WindowsResult, whyNoWindows, WindowsFixture } from "../../support/windows/windows-fixture.js";

/** As text that does not depend on the user's name in the prefix. */
const profile = /C:\\users\\\w+/i;

describe.skipIf(whyNoWindows !== null)("the command line on Windows", () => {
  let windows: WindowsFixture;
  beforeAll(() => {
    windows = new WindowsFixture();
  });
  afterAll(() => windows[Symbol.asyncDispose]());

  test("help, config and ps work before anything exists", async () => {
    const [help, config, ps] = (await windows.holdfast(["--help"], ["config", "show", "--json"], ["ps"])) as [
      WindowsResult,
      WindowsResult,
      WindowsResult,
    ];
    expect(help).toMatchObject({ code: 0, stderr: "" });
    expect(help.stdout).toContain("run [options] <command...>");
    expect((JSON.parse(config.stdout) as { path: string }).path).toMatch(
      new RegExp(`^${profile.source}\\\\AppData\\\\Roaming\\\\holdfast\\\\config\\.toml$`, "i"),
    );
    expect(ps).toMatchObject({ code: 0, stderr: "holdfast: no run is open; --all lists ended runs\n" });
  });

  test("a gateway starts in the background, answers on its pipe, and stops", async () => {
    const [started, status, again, doctor, stopped, gone] = (await windows.holdfast(
      ["gateway", "start"],
      ["gateway", "status", "--json"],
      ["gateway", "start"],
      ["doctor"],
      ["gateway", "stop"],
      ["gateway", "status"],
    )) as [WindowsResult, WindowsResult, WindowsResult, WindowsResult, WindowsResult, WindowsResult];
    expect(started).toMatchObject({ code: 0, stdout: expect.stringMatching(/^started: gateway in_/) });
    const { pid, home } = JSON.parse(status.stdout) as { pid: number; home: string };
    expect(home).toMatch(new RegExp(`^${profile.source}\\\\AppData\\\\Local\\\\holdfast$`, "i"));
    // The same gateway, and not a second one.
    expect(again.stdout).toMatch(new RegExp(`^already running: .* pid ${pid},`));
    expect(doctor.stdout).toMatch(/ok {4}access .*user's profile/);
    expect(doctor.stdout).toMatch(/ok {4}gateway .* is running/);
    expect(stopped).toMatchObject({ code: 0, stdout: expect.stringContaining("is down") });
    expect(gone.stderr).toBe("holdfast: no gateway is running\n");
  });

  test("a second state directory has its own gateway and lock", async () => {
    const other = { HOLDFAST_HOME: String.raw`C:\other` };
    const cli = (...words: readonly string[]): readonly string[] => [windows.node, windows.cli, ...words];
    const results = await windows.run(
      { argv: cli("gateway", "start") },
      { argv: cli("gateway", "start"), env: other },
      { argv: cli("gateway", "status", "--json") },
      { argv: cli("gateway", "status", "--json"), env: other },
      { argv: cli("gateway", "run", "--quiet"), env: other },
      { argv: cli("gateway", "stop"), env: other },
      { argv: cli("gateway", "status", "--json") },
      { argv: cli("gateway", "stop") },
    );
    const pids = [2, 3, 6].map((at) => (JSON.parse(results[at]?.stdout ?? "") as { pid: number }).pid);
    expect(pids[0]).not.toBe(pids[1]);
    expect(pids[2]).toBe(pids[0]);
    expect(results[4]).toMatchObject({ code: 125, stderr: expect.stringContaining("already running") });
  });

  test("a removed marker of the pipe is written again", async () => {
    const home = join(windows.driveC, "marker");
    const env = { HOLDFAST_HOME: String.raw`C:\marker` };
    const cli = (...words: readonly string[]): readonly string[] => [windows.node, windows.cli, ...words];
    await windows.run({ argv: cli("gateway", "start"), env });
    expect(readFileSync(join(home, "gateway.sock"), "utf8")).toBe("");
    const wait = `const fs = require("fs"), marker = "C:/marker/gateway.sock"; fs.rmSync(marker);
      const timer = setInterval(() => { if (fs.existsSync(marker)) { clearInterval(timer); } }, 50);`;
    const [rewritten, status] = (await windows.run(
      { argv: [windows.node, "-e", wait] },
      { argv: cli("gateway", "stop"), env },
    )) as [WindowsResult, WindowsResult];
    expect([rewritten.code, status.code]).toEqual([0, 0]);
    expect(existsSync(join(home, "gateway.sock"))).toBe(false);
  });

  test("the service is a scheduled task, and can be removed", async () => {
    const install = { argv: [windows.node, windows.cli, "service", "install"] };
    const uninstall = { argv: [windows.node, windows.cli, "service", "uninstall"] };
    const [printed, none, installed, removed, gone, , deleted, unknown] = (await windows.run(
      { argv: [...install.argv, "--print"] },
      uninstall,
      install,
      uninstall,
      { argv: deleteTask },
      install,
      { argv: deleteTask },
      uninstall,
    )) as WindowsResult[];
    expect(printed?.stdout).toContain(`&quot;${windows.node}&quot; &quot;${windows.cli}&quot; gateway start`);
    expect(none).toMatchObject({ code: 0, stderr: expect.stringContaining("no service is installed") });
    expect(installed).toMatchObject({ code: 0, stdout: expect.stringContaining("gateway-task.xml") });
    expect(removed).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("a running gateway continues"),
    });
    // The task was registered, and was deleted.
    expect([gone?.code, deleted?.code]).toEqual([1, 0]);
    expect(unknown).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("removed "),
      stderr: expect.stringContaining("the service may still be registered: schtasks /delete"),
    });
  });
});

const deleteTask = ["schtasks", "/delete", "/tn", "Holdfast gateway", "/f"];
