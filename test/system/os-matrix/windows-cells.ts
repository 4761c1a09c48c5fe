import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { rolldown } from "rolldown";
import { isWindows, WindowsFixture, windowsPath } from "../../support/windows/windows-fixture.js";
import type { CellResult } from "./cells/cell.js";

/** Below the checkout, so that packages with native code are found. */
const directory = resolve("build/os-matrix");

async function bundle(): Promise<string> {
  const build = await rolldown({
    input: resolve("test/system/os-matrix/cells/main.ts"),
    platform: "node",
    // Node 22 has no `await using`.
    transform: { target: "es2023" },
    resolve: { extensionAlias: { ".js": [".ts", ".js"] } },
    external: ["@photostructure/sqlite", /^node:/],
  });
  try {
    const { output } = await build.generate({ format: "esm" });
    if (output.length !== 1) throw new Error("the matrix is more than one file");
    await mkdir(directory, { recursive: true });
    const path = join(directory, "main.mjs");
    await writeFile(path, output[0].code);
    return path;
  } finally {
    await build.close();
  }
}

/** Runs all cells in one process of Node for Windows, under Wine or on Windows. */
export async function runWindowsCells(): Promise<readonly CellResult[]> {
  const main = await bundle();
  await using windows = new WindowsFixture({ withAnchor: true });
  const argv = [windows.node, windowsPath(main), ...(isWindows ? [] : ["wine"])];
  const [result] = await windows.run({ argv, cwd: windowsPath(".") });
  if (result?.code !== 0) throw new Error(`the matrix ended with ${result?.code}: ${result?.stderr}`);
  return JSON.parse(result.stdout) as CellResult[];
}
