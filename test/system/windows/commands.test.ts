import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { resolve } from "node:path";
import {
  type WindowsResult,
  whyNoWindows,
  WindowsFixture,
  windowsPath,
} from "../../support/windows/windows-fixture.js";

const moduleUrl = (file: string): string =>
  `file:///${windowsPath(resolve("dist", file)).replaceAll("\\", "/")}`;

/** Starts what `resolveWindowsCommand` returns, as the anchor does, and prints its output. */
const launch = `
  import { spawnSync } from "node:child_process";
  import { resolveShellWords, resolveWindowsCommand, windowsShellWords } from "${moduleUrl("supervisor/spawn/windows-command.js")}";
  const { argv, shell } = JSON.parse(process.argv[1]);
  const context = { env: process.env, cwd: process.cwd() };
  const { argv: [program, ...words], verbatim } = shell === undefined
    ? resolveWindowsCommand(argv, context)
    : resolveShellWords(windowsShellWords(undefined, shell), context);
  const { stdout, status } = spawnSync(program, words, { encoding: "utf8", windowsVerbatimArguments: verbatim });
  process.stdout.write(stdout);
  process.exit(status);
`;

describe.skipIf(whyNoWindows !== null)("a command that was resolved for Windows", () => {
  let windows: WindowsFixture;
  beforeAll(() => {
    windows = new WindowsFixture();
    const bin = join(windows.driveC, "bin dir");
    mkdirSync(bin);
    writeFileSync(join(bin, "echo.mjs"), "console.log(JSON.stringify(process.argv.slice(2)));");
    // As npm writes it for every command of a package, with a POSIX script of the same name beside it.
    writeFileSync(join(bin, "tool"), "#!/bin/sh\n");
    writeFileSync(join(bin, "tool.cmd"), `@ECHO off\r\n"${windows.node}" "%~dp0\\echo.mjs" %*\r\n`);
    writeFileSync(join(bin, "code.bat"), "@exit /b 77\r\n");
  });
  afterAll(() => windows[Symbol.asyncDispose]());

  const start = async (request: {
    readonly argv?: readonly string[];
    readonly shell?: string;
  }): Promise<WindowsResult> => {
    const [result] = await windows.run({
      argv: [windows.node, "--input-type=module", "-e", launch, JSON.stringify(request)],
      env: { PATH: String.raw`C:\bin dir;C:\windows\system32` },
    });
    return result as WindowsResult;
  };

  test("gets its arguments unchanged, and no other program is started by them", async () => {
    const words = [
      "a b",
      "",
      "x&echo owned",
      "p|q",
      'q"&echo owned',
      "^caret",
      "!bang!",
      "(p)",
      "<r>",
      "end\\",
    ];
    words.push("a b\\", 'mixed \\" quote', "ü", "a,b;c=d");
    const { code, stdout } = await start({ argv: ["tool", ...words] });
    expect({ code, words: JSON.parse(stdout) as unknown }).toEqual({ code: 0, words });
  });

  test("keeps its exit code, also one of 32 bits", async () => {
    expect((await start({ argv: ["code"] })).code).toBe(77);
    const exit = `process.exit(0xc0000005)`;
    expect((await start({ argv: [windows.node, "-e", exit] })).code).toBe(0xc000_0005);
  });

  test("can be the command line of cmd.exe", async () => {
    expect(await start({ shell: 'echo one two & echo "three"' })).toMatchObject({
      code: 0,
      stdout: 'one two \r\n"three"\r\n',
    });
  });
});

/** Holds a file open without permission to delete it, as SQLite does, and closes it after a while. */
const heldOpen = `
  import { DatabaseSync } from "${moduleUrl("").replace(/dist\/?$/, "")}node_modules/@photostructure/sqlite/dist/index.mjs";
  import { writeFileSync, readFileSync } from "node:fs";
  import { renameFile } from "${moduleUrl("home/rename-file.js")}";
  const database = new DatabaseSync("C:/held.sqlite");
  database.exec("create table t (x)");
  writeFileSync("C:/next.sqlite", "replacement");
  let closed = false;
  setTimeout(() => { closed = true; database.close(); }, 200);
  await renameFile("C:/next.sqlite", "C:/held.sqlite");
  console.log(closed, readFileSync("C:/held.sqlite", "utf8"));
`;

test.skipIf(whyNoWindows !== null)(
  "a file that is held open for a moment is replaced when it is closed",
  async () => {
    await using windows = new WindowsFixture();
    const [result] = await windows.run({ argv: [windows.node, "--input-type=module", "-e", heldOpen] });
    expect(result).toMatchObject({ code: 0, stdout: "true replacement\n" });
  },
);
