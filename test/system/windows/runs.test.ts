import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  buildWindowsProgram,
  type WindowsResult,
  whyNoWindows,
  WindowsFixture,
  windowsPath,
} from "../../support/windows/windows-fixture.js";

/** Writes the pids of a tree to a file: a detached process, one that ignores Ctrl-Break, and one behind `start /b`. */
const tree = `
  const { spawn } = require("child_process");
  const idle = "setTimeout(() => {}, 600000)";
  const start = (...words) => spawn(words[0], words.slice(1), { stdio: "ignore", detached: words.includes("detached") });
  const note = (name) => 'require("fs").writeFileSync("C:/tree/' + name + '", String(process.pid));';
  start(process.execPath, "-e", note("detached") + idle, "detached");
  start(process.execPath, "-e", note("deaf") + 'process.on("SIGBREAK", () => {});' + idle);
  start("cmd.exe", "/c", "start", "/b", process.execPath, "-e", note("background") + idle);
  eval(note("leader"));
  setTimeout(() => {}, 600000);
`;

/** Runs \`holdfast\` in the background while it does other things, all on Windows; prints what it found as JSON. */
const killGateway = `
  const { spawn, spawnSync } = require("child_process");
  const cli = (...words) => [process.env.CLI, ...words];
  const ticks = 'let at = 0; const timer = setInterval(() => { console.log("tick " + ++at); if (at === 80) { clearInterval(timer); process.exitCode = 42; } }, 100);';
  spawnSync(process.execPath, cli("gateway", "start"));
  const status = JSON.parse(spawnSync(process.execPath, cli("gateway", "status", "--json")).stdout);
  const foreground = spawn(process.execPath, cli("run", "--", process.execPath, "-e", ticks));
  let output = "";
  foreground.stdout.on("data", (part) => {
    if (output === "") process.kill(status.pid, "SIGKILL");
    output += part;
  });
  foreground.on("close", (code) => {
    const next = JSON.parse(spawnSync(process.execPath, cli("gateway", "status", "--json")).stdout);
    console.log(JSON.stringify({ code, output, same: next.pid === status.pid }));
    spawnSync(process.execPath, cli("gateway", "stop"));
  });
`;

const moduleUrl = (file: string): string =>
  `file:///${windowsPath(resolve("dist", file)).replaceAll("\\", "/")}`;

/** Prints the metrics of the gateway. */
const metrics = `
  import { request } from "node:http";
  import { readOperatorToken } from "${moduleUrl("sessions/tokens.js")}";
  import { socketAddress } from "${moduleUrl("home/local-socket.js")}";
  const home = process.env.LOCALAPPDATA + "/holdfast";
  const headers = { authorization: "Bearer " + (await readOperatorToken(home)) };
  request({ socketPath: socketAddress(home + "/gateway.sock"), path: "/metrics", headers }, (answer) => answer.pipe(process.stdout)).end();
`;

interface TreeProcess {
  readonly identity: { readonly pid: number };
}

describe.skipIf(whyNoWindows !== null)("a run on Windows", () => {
  let windows: WindowsFixture;
  beforeAll(() => {
    windows = new WindowsFixture({ withAnchor: true });
    const bin = join(windows.driveC, "bin");
    mkdirSync(bin);
    writeFileSync(join(bin, "tool.cmd"), "@echo got %*\r\n@exit /b 5\r\n");
  }, 600_000);
  afterAll(async () => {
    await windows.holdfast(["gateway", "stop", "--runs", "terminate"]);
    await windows[Symbol.asyncDispose]();
  });

  const holdfast = (...commands: readonly (readonly string[])[]): Promise<readonly WindowsResult[]> =>
    windows.holdfast(...commands);
  const node = (script: string): readonly string[] => [windows.node, "-e", script];

  test("has its output, its input and its exit code", async () => {
    const cli = (...words: readonly string[]): readonly string[] => [windows.node, windows.cli, ...words];
    const [both, echoed, batch, crash, missing, direct] = await windows.run(
      { argv: cli("run", "--", ...node(`console.log("out"); console.error("err"); process.exitCode = 7`)) },
      { argv: cli("run", "--", ...node("process.stdin.pipe(process.stdout)")), input: "in and out ü\n" },
      { argv: cli("run", "--", String.raw`C:\bin\tool`, "a b", "x&echo owned") },
      { argv: cli("run", "--name", "crash", "--", ...node("process.exit(0xc0000005)")) },
      { argv: cli("run", "--", "no-such-program") },
      { argv: cli("run", "--in-process", "--", "cmd", "/c", "echo direct") },
    );
    expect(both).toMatchObject({ code: 7, stdout: "out\n", stderr: expect.stringContaining("err\n") });
    expect(echoed).toMatchObject({ code: 0, stdout: "in and out ü\n" });
    expect(batch).toMatchObject({ code: 5, stdout: 'got "a b" "x&echo owned"\r\n' });
    expect(crash?.code).toBe(0xc000_0005);
    expect(missing).toMatchObject({ code: 127, stderr: expect.stringContaining("no such command") });
    expect(direct).toMatchObject({ code: 0, stdout: "direct\r\n", stderr: "" });
    const [text, json] = (await holdfast(["runs", "show", "crash"], ["runs", "show", "crash", "--json"])) as [
      WindowsResult,
      WindowsResult,
    ];
    expect(text.stdout).toContain("0xC0000005 (from anchor)");
    const { exit, boundary, tier } = JSON.parse(json.stdout) as Record<string, unknown>;
    expect(exit).toMatchObject({ reason: "exit", code: 0xc000_0005 });
    expect(tier).toMatch(/^job\+launcher\+/);
    expect(boundary).toMatchObject({ cgroup: null, jobId: expect.stringMatching(/^Global\\holdfast-/) });
  });

  test("is stopped with its whole tree, and nothing else is", async () => {
    mkdirSync(join(windows.driveC, "tree"));
    const waitForTree = `const fs = require("fs"), names = ["leader", "detached", "deaf", "background"];
      const timer = setInterval(() => { if (names.every((name) => fs.existsSync("C:/tree/" + name))) clearInterval(timer); }, 50);`;
    const bystander = `const { spawn } = require("child_process");
      const child = spawn(process.execPath, ["-e", "setTimeout(() => {}, 600000)"], { detached: true, stdio: "ignore" });
      child.unref(); console.log(child.pid);`;
    const [outside, started, , listed] = (await windows.run(
      { argv: node(bystander) },
      { argv: [windows.node, windows.cli, "run", "-d", "--name", "tree", "--", ...node(tree)] },
      { argv: node(waitForTree) },
      { argv: [windows.node, windows.cli, "ps", "--json"] },
    )) as [WindowsResult, WindowsResult, WindowsResult, WindowsResult];
    expect(started.code).toBe(0);
    const names = ["leader", "detached", "deaf", "background"];
    const pids = names.map((name) => Number(readFileSync(join(windows.driveC, "tree", name), "utf8")));
    const [{ processes }] = JSON.parse(listed.stdout) as [{ processes: readonly TreeProcess[] }];
    const members = processes.map(({ identity }) => identity.pid);
    expect(members).toEqual(expect.arrayContaining(pids));
    const bystanderPid = Number(outside.stdout);
    expect(members).not.toContain(bystanderPid);
    const alive = `console.log(JSON.stringify(${JSON.stringify([...pids, bystanderPid])}.map((pid) => {
      try { return process.kill(pid, 0); } catch { return false; } })));`;
    const [who, stopped, left, , shown, counted] = (await windows.run(
      { argv: [windows.node, windows.cli, "who", String(pids[0])] },
      { argv: [windows.node, windows.cli, "stop", "tree", "--grace", "500ms"] },
      { argv: node(alive) },
      { argv: node(`process.kill(${bystanderPid})`) },
      { argv: [windows.node, windows.cli, "runs", "show", "tree", "--json"] },
      { argv: [windows.node, "--input-type=module", "-e", metrics] },
    )) as [WindowsResult, WindowsResult, WindowsResult, WindowsResult, WindowsResult, WindowsResult];
    // The host of a console may be among them.
    expect(counted.stdout).toMatch(/^holdfast_run_cleanup_kill_total\{mode="job"\} [3-9]$/m);
    expect(who.stdout).toContain(`${pids[0]} is the leader of run_`);
    expect(stopped).toMatchObject({ code: 0, stdout: expect.stringContaining("is gone (manual-cancel)") });
    expect(JSON.parse(left.stdout)).toEqual([...pids.map(() => false), true]);
    expect(JSON.parse(shown.stdout)).toMatchObject({
      emptiness: "proven",
      exit: { reason: "manual-cancel" },
    });
  });

  test("is stopped by Ctrl-C in its console, and by nothing else on it", async () => {
    const program = join(windows.path, "user.exe");
    buildWindowsProgram(resolve("test/system/windows/tree.c"), program);
    // Ctrl-C reaches every process on the console: the command has another one.
    const command = `process.on('SIGINT',()=>process.exit(9));process.on('SIGBREAK',()=>{});require('fs').writeFileSync('C:/running','');setInterval(()=>{},600000)`;
    const run = ["run", "--name", "typed", "--grace", "500ms", "--", windows.node, "-e", command];
    const line = [windows.node, windows.cli, ...run].map((word) => `"${word}"`).join(" ");
    const [typed, shown] = await windows.run(
      { argv: [windowsPath(program), "interrupt", String.raw`C:\running`, line] },
      { argv: [windows.node, windows.cli, "runs", "show", "typed", "--json"] },
    );
    expect(typed?.code).toBe(130);
    expect(JSON.parse(shown?.stdout ?? "")).toMatchObject({
      emptiness: "proven",
      exit: { reason: "manual-cancel", actor: expect.stringMatching(/^cli:/), signal: "SIGKILL" },
    });
  });

  test("becomes a service, while none of its processes can alone", async () => {
    const child = `console.log(process.pid); setTimeout(() => {}, 600000)`;
    const parent = `require("child_process").spawn(process.execPath, ["-e", ${JSON.stringify(child)}], { stdio: "inherit" });
      setTimeout(() => {}, 600000)`;
    const untilLogged = `const { spawnSync } = require("child_process"); let text = "";
      for (let at = 0; text === "" && at < 20; at += 1) text = spawnSync(process.execPath, [process.env.CLI, "logs", "server"]).stdout.toString();
      console.log(text);`;
    const [, logged] = (await windows.run(
      {
        argv: [
          windows.node,
          windows.cli,
          "run",
          "-d",
          "--name",
          "server",
          "--timeout",
          "600s",
          "--",
          ...node(parent),
        ],
      },
      { argv: node(untilLogged), env: { CLI: windows.cli } },
    )) as [WindowsResult, WindowsResult];
    const pid = logged.stdout.trim();
    const [refused, listed, adopted, shown, alive, stopped] = (await holdfast(
      ["service", "adopt", pid],
      ["runs", "list", "--all", "--json"],
      ["service", "adopt", "server"],
      ["runs", "show", "server", "--json"],
      ["who", pid],
      ["service", "stop", "server"],
    )) as [WindowsResult, WindowsResult, WindowsResult, WindowsResult, WindowsResult, WindowsResult];
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /nothing was changed: on Windows a process cannot leave the job of its run; adopt the run instead/,
      ),
    });
    // Nothing was recorded either.
    const kinds = (JSON.parse(listed.stdout) as { kind: string }[]).map(({ kind }) => kind);
    expect(kinds).not.toContain("service");
    expect(adopted).toMatchObject({ code: 0, stderr: expect.stringContaining("it is a service now") });
    expect(JSON.parse(shown.stdout)).toMatchObject({ kind: "service", deadlines: { overallMs: null } });
    expect(alive.code).toBe(0);
    expect(stopped).toMatchObject({ code: 0, stdout: expect.stringContaining("is gone (manual-cancel)") });
  });

  test("has names with spaces and letters outside of ASCII; a directory that is too long is refused", async () => {
    const place = join(windows.driveC, "lang ü");
    const long = ["d", "e", "f"].map((letter) => letter.repeat(100));
    mkdirSync(join(place, ...long), { recursive: true });
    copyFileSync(join(windows.driveC, "windows/system32/hostname.exe"), join(place, "hast du möre.exe"));
    writeFileSync(join(place, "grüße mich.cmd"), "@echo %~1 & exit /b 3\r\n");
    const directory = String.raw`C:\lang ü`;
    const run = (cwd: string, ...words: readonly string[]): { argv: readonly string[] } => ({
      argv: [windows.node, windows.cli, "run", "--cwd", cwd, "--", ...words],
    });
    const [program, batch, inside, tooLong] = await windows.run(
      run("C:\\", `${directory}\\hast du möre.exe`),
      run("C:\\", `${directory}\\grüße mich`, "a b"),
      run(directory, ...node("console.log(process.cwd())")),
      run([directory, ...long].join("\\"), ...node("")),
    );
    expect(program).toMatchObject({ code: 0 });
    expect(program?.stdout.trim()).not.toBe("");
    expect(batch).toMatchObject({ code: 3, stdout: "a b \r\n" });
    expect(inside).toMatchObject({ code: 0, stdout: `${directory}\n` });
    expect(tooLong).toMatchObject({ code: 2, stderr: expect.stringContaining("cannot enter directory") });
  });

  test("starts after the launcher was killed, whose socket is left behind", async () => {
    const kill = `const fs = require("fs"), instances = "C:/crash/instances/";
      for (const name of fs.readdirSync(instances)) {
        process.kill(JSON.parse(fs.readFileSync(instances + name + "/launcher.json")).pid, "SIGKILL");
        console.log(fs.existsSync(instances + name + "/launcher.sock"));
      }`;
    const env = { HOLDFAST_HOME: String.raw`C:\crash` };
    const run = { argv: [windows.node, windows.cli, "run", "--", ...node(`console.log("up")`)], env };
    const [first, killed, second] = await windows.run(run, { argv: node(kill), env }, run, {
      argv: [windows.node, windows.cli, "gateway", "stop"],
      env,
    });
    expect(first).toMatchObject({ code: 0, stdout: "up\n" });
    expect(killed).toMatchObject({ code: 0, stdout: "true\n" });
    expect(second).toMatchObject({ code: 0, stdout: "up\n" });
  });

  test("starts after the marker of the launcher's pipe was removed", async () => {
    const env = { HOLDFAST_HOME: String.raw`C:\unmarked` };
    const run = { argv: [windows.node, windows.cli, "run", "--", ...node(`console.log("up")`)], env };
    const remove = `const fs = require("fs"), instances = "C:/unmarked/instances/";
      for (const name of fs.readdirSync(instances)) fs.rmSync(instances + name + "/launcher.sock");`;
    const [, removed, again] = await windows.run(run, { argv: node(remove), env }, run, {
      argv: [windows.node, windows.cli, "gateway", "stop"],
      env,
    });
    expect(removed).toMatchObject({ code: 0 });
    expect(again).toMatchObject({ code: 0, stdout: "up\n" });
  });

  test("continues when its gateway is killed: output and exit code are exact", async () => {
    const [result] = await windows.run({
      argv: node(killGateway),
      env: { CLI: windows.cli, HOLDFAST_HOME: String.raw`C:\killed` },
    });
    expect(existsSync(join(windows.driveC, "killed"))).toBe(true);
    const expected = Array.from({ length: 80 }, (_, at) => `tick ${at + 1}\n`).join("");
    expect(JSON.parse(result?.stdout ?? "")).toEqual({ code: 42, output: expected, same: false });
  });
});
