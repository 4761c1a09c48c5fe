import { mkdirSync, readdirSync } from "node:fs";
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
import { installTarballs, packTarballs } from "./packages.js";

const INSTALLED = String.raw`C:\app\node_modules\holdfast\dist\cli\main.js`;

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
      const packed = await packTarballs(["linux-x64", "win32-x64"], join(windows.path, "packages"));
      const project = join(windows.driveC, "app");
      mkdirSync(project);
      await installTarballs(project, packed, { flags: ["--os=win32", "--cpu=x64"] });
    }, 900_000);

    afterAll(() => windows[Symbol.asyncDispose]());

    test("has the anchor for Windows, and no other", () => {
      expect(readdirSync(join(windows.driveC, "app/node_modules/@holdfast"))).toEqual(["anchor-win32-x64"]);
    });

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
      const [hello, again] = (await run(
        holdfast("run", "--", "cmd", "/c", "echo hello"),
        holdfast("run", "--", "cmd", "/c", "echo again& exit 3"),
      )) as [WindowsResult, WindowsResult];
      expect(hello).toMatchObject({ code: 0, stdout: "hello\r\n" });
      expect(hello.stderr).toMatch(/^holdfast: started a gateway in the background[^\n]*\n$/);
      expect(again).toMatchObject({ code: 3, stdout: "again\r\n" });
      expect(ours()).toContainEqual(expect.stringContaining("gateway"));
      const [stopped, alive] = (await run(holdfast("gateway", "stop"), [
        windows.node,
        "-e",
        `console.log(process.kill(${bystanderPid}, 0))`,
      ])) as [WindowsResult, WindowsResult];
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
