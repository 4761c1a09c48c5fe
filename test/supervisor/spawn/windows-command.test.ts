import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { BadInput } from "../../../src/errors.js";
import {
  type LaunchCommand,
  quoteForBatch,
  resolveShellWords,
  resolveWindowsCommand,
  windowsShellWords,
} from "../../../src/supervisor/spawn/windows-command.js";
import { temporaryDirectory } from "../../support/temporary-directory.js";

const files = new Set(
  [
    String.raw`C:\node\npx`,
    String.raw`C:\node\npx.cmd`,
    String.raw`C:\node\node.exe`,
    String.raw`C:\windows\system32\cmd.exe`,
    String.raw`C:\work\run.bat`,
    String.raw`C:\work\git.exe`,
    String.raw`C:\100%\odd.cmd`,
  ].map((path) => path.toLowerCase()),
);
const env = {
  Path: String.raw`relative;C:\node;"C:\windows\system32";C:\100%`,
  SystemRoot: String.raw`C:\windows`,
};
const context = { env, cwd: String.raw`C:\work`, isFile: (path: string) => files.has(path.toLowerCase()) };
const resolve = (...argv: string[]): LaunchCommand => resolveWindowsCommand(argv, context);
const cmd = [String.raw`C:\windows\System32\cmd.exe`, "/e:on", "/v:off", "/d", "/s", "/c"];

describe("a command on Windows", () => {
  test("is searched on PATH with the suffixes of PATHEXT", () => {
    expect(resolve("node", "-v")).toEqual({ argv: [String.raw`C:\node\node.exe`, "-v"], verbatim: false });
    expect(resolve("NODE.EXE").argv[0]?.toLowerCase()).toBe(String.raw`c:\node\node.exe`);
  });

  test("is passed unchanged if it is not found, so that its start fails", () => {
    expect(resolve("missing", "a b")).toEqual({ argv: ["missing", "a b"], verbatim: false });
  });

  test("is not searched in the working directory, where a repository could place it", () => {
    expect(resolve("git").argv).toEqual(["git"]);
    expect(resolve(String.raw`.\git`).argv).toEqual([String.raw`C:\work\git.exe`]);
  });

  test("runs a batch file through cmd.exe, not the POSIX script beside it", () => {
    expect(resolve("npx", "--yes", "a b")).toEqual({
      argv: [...cmd, String.raw`""C:\node\npx.cmd" --yes "a b""`],
      verbatim: true,
    });
    expect(resolve("./run").argv.at(-1)).toBe(String.raw`""C:\work\run.bat""`);
    expect(resolve("odd").argv.at(-1)).toBe(String.raw`""C:\100%%cd:~,%\odd.cmd""`);
  });

  test("uses only suffixes that need no other program", () => {
    const scripts = { ...context, env: { ...env, PATHEXT: ".VBS;.CMD" } };
    expect(resolveWindowsCommand(["node"], scripts).argv).toEqual(["node"]);
    expect(resolveWindowsCommand(["npx"], scripts).verbatim).toBe(true);
  });

  // On Linux a path of Windows is the name of a file in the working directory.
  test.skipIf(process.platform === "win32")(
    "is found behind a directory that cannot be read, and if it is an alias that cannot be followed",
    async () => {
      await using directory = await temporaryDirectory();
      process.chdir(directory.path);
      const alias = String.raw`C:\apps\python.exe`;
      symlinkSync(alias, alias);
      writeFileSync(String.raw`C:\bin\tool.exe`, "");
      mkdirSync(String.raw`C:\bin\folder.exe`);
      const path = [`C:\\${"x".repeat(300)}`, String.raw`C:\apps`, String.raw`C:\bin`].join(";");
      const found = (name: string): string | undefined =>
        resolveWindowsCommand([name], { env: { PATH: path }, cwd: "C:\\" }).argv[0];
      expect(["python", "tool", "folder", "none"].map(found)).toEqual([
        alias,
        String.raw`C:\bin\tool.exe`,
        "folder",
        "none",
      ]);
    },
  );

  test("is refused if its command line is longer than the system allows", () => {
    expect(() => resolve("node", "x".repeat(33_000))).toThrow(BadInput);
    expect(resolve("node", "x".repeat(30_000)).verbatim).toBe(false);
    expect(() => resolve("npx", "x".repeat(9_000))).toThrow(BadInput);
  });
});

describe("a working directory on a server", () => {
  const share = { ...context, cwd: String.raw`\\server\share\work` };

  test("is refused for a batch file and for cmd.exe, which would use another one", () => {
    expect(() => resolveWindowsCommand(["npx"], share)).toThrow(/cannot run in \\\\server\\share/);
    expect(() => resolveShellWords(windowsShellWords(undefined, "dir", env), share)).toThrow(BadInput);
  });

  test("is no obstacle for other programs", () => {
    expect(resolveWindowsCommand(["node"], share).verbatim).toBe(false);
    expect(resolveShellWords(["node", "-c", "x"], share).verbatim).toBe(false);
  });
});

describe("an argument of a batch file", () => {
  test.each([
    ["plain-1.2/x", "plain-1.2/x"],
    ["", '""'],
    ["a b", '"a b"'],
    ["a&calc", '"a&calc"'],
    ['a" & calc "', '"a"" & calc """'],
    ["100%", '"100%%cd:~,%"'],
    ["%PATH%", '"%%cd:~,%PATH%%cd:~,%"'],
    ["!x!", '"!x!"'],
    ["end\\", '"end\\\\"'],
    ['back\\"quote', '"back\\\\""quote"'],
  ])("%j is quoted as %j", (word, quoted) => {
    expect(quoteForBatch(word)).toBe(quoted);
  });

  test("cannot contain a line break, which would end the command", () => {
    expect(() => quoteForBatch("a\r\ncalc")).toThrow(BadInput);
  });
});

describe("a command line of a shell", () => {
  test("is for cmd.exe by default", () => {
    expect(windowsShellWords(undefined, "dir", { comspec: String.raw`D:\cmd.exe` })[0]).toBe(
      String.raw`D:\cmd.exe`,
    );
    const words = windowsShellWords(undefined, 'echo "a b" & dir', env);
    expect(words.slice(1)).toEqual(["/d", "/s", "/c", 'echo "a b" & dir']);
    expect(resolveShellWords(words, context)).toEqual({
      argv: [String.raw`C:\windows\System32\cmd.exe`, "/d", "/s", "/c", '"echo "a b" & dir"'],
      verbatim: true,
    });
  });

  test("cannot contain a line break for cmd.exe, which would drop the rest", () => {
    expect(() => resolveShellWords(windowsShellWords(undefined, "echo a\necho b", env), context)).toThrow(
      BadInput,
    );
  });

  test("is passed with -Command to PowerShell, and with -c to other shells", () => {
    expect(windowsShellWords("pwsh", "ls", env)).toEqual(["pwsh", "-Command", "ls"]);
    expect(windowsShellWords(String.raw`C:\x\PowerShell.exe`, "ls", env)[1]).toBe("-Command");
    expect(windowsShellWords("bash", "ls", env)).toEqual(["bash", "-c", "ls"]);
    expect(resolveShellWords(["node", "-c", "a b"], context)).toEqual({
      argv: [String.raw`C:\node\node.exe`, "-c", "a b"],
      verbatim: false,
    });
  });
});
