import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findByPath } from "../../support/live-processes.js";
import { waitFor } from "../../support/wait-for.js";
import {
  isWindows,
  type WindowsResult,
  whyNoWindows,
  WindowsFixture,
} from "../../support/windows/windows-fixture.js";
import { installTarballs, npmPath, packTarballs } from "./packages.js";

const require = createRequire(npmPath());
const INSTALLED = String.raw`C:\app\node_modules\holdfast\dist\cli\main.js`;
const BATCH_FILE = String.raw`C:\app\node_modules\.bin\holdfast.cmd`;

/** Outside of every run; prints its pid. */
const bystander = `
  const { spawn } = require("child_process");
  const child = spawn(process.execPath, ["-e", "setTimeout(() => {}, 600000)"], { detached: true, stdio: "ignore" });
  child.unref();
  console.log(child.pid);`;

describe.skipIf(whyNoWindows !== null || isWindows)(
  "installed from its packages on Windows, into an empty project",
  () => {
    let windows: WindowsFixture;
    const run = (...commands: readonly (readonly string[])[]): Promise<readonly WindowsResult[]> =>
      // Without the variable that names the anchor of the checkout.
      windows.run(...commands.map((argv) => ({ argv, env: { HOLDFAST_ANCHOR: "" } })));
    const holdfast = (...words: readonly string[]): readonly string[] => [windows.node, INSTALLED, ...words];

    beforeAll(async () => {
      windows = new WindowsFixture({ withAnchor: true });
      const { main, anchor } = await packTarballs("win32-x64", join(windows.path, "packages"));
      const project = join(windows.driveC, "app");
      mkdirSync(project);
      await installTarballs(project, [main, anchor], { flags: ["--os=win32", "--cpu=x64"] });
      // npm writes batch files only on Windows: with this part of it.
      const writeBatchFile = require("cmd-shim") as (from: string, to: string) => Promise<void>;
      const modules = join(project, "node_modules");
      await writeBatchFile(join(modules, "holdfast/dist/cli/main.js"), join(modules, ".bin/holdfast"));
    }, 900_000);

    afterAll(() => windows[Symbol.asyncDispose]());

    test("finds its anchor in the package, as doctor reports", async () => {
      const [result] = await run(holdfast("doctor", "--json"));
      const { checks } = JSON.parse(result?.stdout ?? "") as { checks: { name: string; detail: string }[] };
      expect(checks.find(({ name }) => name === "anchor")?.detail).toContain(
        String.raw`C:\app\node_modules\@holdfast\anchor-win32-x64\bin\anchor.exe`,
      );
    });

    test("runs a command, stops its gateway, and leaves nothing", async () => {
      const [planted] = await run([windows.node, "-e", bystander]);
      const bystanderPid = Number(planted?.stdout);
      const [hello, again, stopped, alive] = (await run(
        holdfast("run", "--", "cmd", "/c", "echo hello"),
        ["cmd", "/c", BATCH_FILE, "run", "--", "cmd", "/c", "echo again& exit 3"],
        holdfast("gateway", "stop"),
        [windows.node, "-e", `console.log(process.kill(${bystanderPid}, 0))`],
      )) as [WindowsResult, WindowsResult, WindowsResult, WindowsResult];
      expect(hello).toMatchObject({ code: 0, stdout: "hello\r\n" });
      expect(hello.stderr).toMatch(/^holdfast: started a gateway in the background[^\n]*\n$/);
      expect(again).toMatchObject({ code: 3, stdout: "again\r\n" });
      expect(stopped).toMatchObject({ code: 0, stdout: expect.stringContaining("is down") });
      expect(alive.stdout).toBe("true\n");
      await run([windows.node, "-e", `process.kill(${bystanderPid})`]);
      // The launcher ends within a moment of its last anchor.
      await waitFor("no process of holdfast is left", () => ours().length === 0);
    });

    /** Gateways, launchers, anchors and commands; not those of Wine itself. */
    function ours(): readonly string[] {
      return findByPath(join(windows.path, "prefix"))
        .map(({ argv }) => argv.join(" "))
        .filter((command) => /node\.exe|anchor|cmd(\.exe)? /i.test(command));
    }
  },
);
