import { spawn, spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { scaled } from "../../support/scale.js";

const project = fileURLToPath(new URL("../../..", import.meta.url));
const scenarios = fileURLToPath(new URL("scenarios.mjs", import.meta.url));
const isWindows = process.platform === "win32";

/** node.exe, which Wine runs. */
const windowsNode = process.env["HOLDFAST_WINDOWS_NODE"] ?? "";
const wine = ["/usr/lib/wine/wine64", "wine64", "wine"].find((each) => spawnSync(each, ["--version"]).status === 0);
const zig = process.env["ZIG"] ?? "";

/** Null if the scenarios can run here; otherwise why not. */
export function whyNot(): string | null {
  if (isWindows) return null;
  if (wine === undefined) return "wine is not installed";
  if (!existsSync(windowsNode)) return "HOLDFAST_WINDOWS_NODE names no node.exe";
  return existsSync(zig) ? null : "ZIG names no zig program";
}

/** True under Wine, which lacks some functions of Windows. */
export const underWine = !isWindows;

const environment: NodeJS.ProcessEnv = {
  ...process.env,
  WINEPREFIX: process.env["WINEPREFIX"] ?? join(tmpdir(), "holdfast-wine"),
  WINEDEBUG: "-all",
  WINEDLLOVERRIDES: "mscoree,mshtml=",
  NODE_SKIP_PLATFORM_CHECK: "1",
};

/** Wine shows the root directory as drive Z. */
function windowsPath(path: string): string {
  return isWindows ? path : `Z:${path.replaceAll("/", "\\")}`;
}

/** Builds the anchor and the programs of the tests, and prepares Wine. */
export function prepare(): void {
  const program = join(project, "build/windows-tree.exe");
  const source = fileURLToPath(new URL("tree.c", import.meta.url));
  mkdirSync(join(project, "build"), { recursive: true });
  const target = isWindows ? `win32-${process.arch}` : "win32-x64";
  mustRun(process.execPath, [join(project, "scripts/build-anchor.mjs"), "--target", target]);
  const flags = ["-target", "x86_64-windows-gnu", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-s"];
  mustRun(zig === "" ? "zig" : zig, ["cc", ...flags, "-o", program, source]);
  if (wine !== undefined && !isWindows) mustRun(wine, ["wineboot", "-i"]);
  environment["HOLDFAST_ANCHOR"] = windowsPath(join(project, `build/anchor-${target}.exe`));
  environment["TREE_PROGRAM"] = windowsPath(program);
}

function mustRun(command: string, args: readonly string[]): void {
  const { status, stdout, stderr, error } = spawnSync(command, args, { env: environment, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: ${error?.message ?? ""}${stdout}${stderr}`);
}

/** Runs a scenario, and returns what it saw. Its output goes to files, because node.exe under Wine cannot use sockets. */
export async function observe(name: string): Promise<unknown> {
  const [command = "", ...words] = isWindows
    ? [process.execPath, scenarios, name]
    : [wine ?? "", windowsNode, windowsPath(scenarios), name];
  const directory = mkdtempSync(join(tmpdir(), "hf-scenario-"));
  const paths = [join(directory, "output"), join(directory, "errors")] as const;
  const files = paths.map((path) => openSync(path, "w"));
  const child = spawn(command, words, { env: environment, stdio: ["ignore", ...files] });
  for (const file of files) closeSync(file);
  const late = setTimeout(() => child.kill("SIGKILL"), scaled(90_000));
  const code = await new Promise((resolve) => child.on("exit", resolve));
  clearTimeout(late);
  const [output, errors] = [readFileSync(paths[0], "utf8"), readFileSync(paths[1], "utf8")];
  rmSync(directory, { recursive: true });
  if (code !== 0) throw new Error(`scenario ${name} ended with ${String(code)}: ${errors}${output}`);
  return JSON.parse(output) as unknown;
}
