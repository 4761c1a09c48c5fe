import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { resolveHome } from "../../../src/home/state-directory.js";
import { canCompile, compiler, execute, project } from "../../support/anchor/sanitizers.js";
import { repetitions } from "../../support/scale.js";
import { temporaryHome } from "../../support/supervisor/real-supervisor.js";

describe.skipIf(!canCompile)("parts of the anchor, tested alone", () => {
  const hasValgrind = spawnSync("valgrind", ["--version"], { stdio: "ignore" }).status === 0;
  const shim = join(project, "test/support/darwin/shim");
  const flags = [
    "-std=c11",
    "-D_GNU_SOURCE",
    `-I${join(project, "anchor")}`,
    "-g",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Werror",
  ];
  const sanitize = ["-fsanitize=address,undefined"];
  const factor = repetitions(1, 50);
  const programs = [
    { name: "fuzz-frame", parts: ["format/frame"], place: false, sanitized: 10_000, watched: 200, flags: [] },
    {
      name: "check-spool",
      parts: ["run/spool", "os/posix/files", "os/posix/io"],
      place: true,
      sanitized: 4,
      watched: 1,
      flags: [],
    },
    {
      name: "check-lineage-file",
      parts: ["os/darwin/lineage/lineage-file"],
      place: true,
      sanitized: 5_000,
      watched: 500,
      flags:
        process.platform === "darwin"
          ? []
          : // Without the rest of the shim, close is that of the system.
            [
              "-isystem",
              join(shim, "include"),
              "-include",
              join(shim, "include/macos.h"),
              "-Dshim_close=close",
            ],
    },
  ] as const;

  async function compile(name: string, parts: readonly string[], more: readonly string[]): Promise<string> {
    const output = join(await temporaryHome(), name);
    const sources = [`test/system/anchor/native/${name}.c`, ...parts.map((part) => `anchor/${part}.c`)];
    const [command = "cc", ...words] = compiler.split(/\s+/);
    await execute(command, [
      ...words,
      ...flags,
      ...more,
      "-o",
      output,
      ...sources.map((path) => join(project, path)),
    ]);
    return output;
  }

  async function argumentsOf(place: boolean, seed: number, rounds: number): Promise<string[]> {
    const numbers = [String(seed), String(rounds)];
    return place ? [await temporaryHome(), ...numbers] : numbers;
  }

  for (const { name, parts, place, sanitized, watched, flags: own } of programs) {
    test(`${name} finds nothing with sanitizers`, async () => {
      const program = await compile(name, parts, [...sanitize, ...own]);
      for (let seed = 1; seed <= repetitions(1, 2); seed++)
        await execute(program, await argumentsOf(place, seed, sanitized * factor));
    });

    test.skipIf(!hasValgrind)(`${name} finds nothing under valgrind`, async () => {
      const program = await compile(name, parts, own);
      const args = await argumentsOf(place, 3, watched * factor);
      await execute("valgrind", ["-q", "--error-exitcode=9", program, ...args]);
    });
  }

  test.each([
    ["linux", 0],
    ["darwin", 1],
  ] as const)(
    "on %s, the native client finds the state directory of the command line",
    async (platform, macOs) => {
      const program = await compile(
        "show-state-directory",
        ["client/state-directory"],
        [...sanitize, `-DON_MACOS=${macOs}`],
      );
      for (const env of [
        { HOME: "/Users/elisabeth" },
        { HOME: "/Users/elisabetta" },
        {
          HOME: "/Users/elisabetta",
          HOLDFAST_HOME: "/Users/elisabetta/Library/Application Support/holdfast",
        },
        { HOME: "/Users/e", XDG_STATE_HOME: "/state" },
        { HOME: "/Users/e", XDG_STATE_HOME: "state", HOLDFAST_HOME: "" },
      ]) {
        const { stdout } = spawnSync(program, [], { env, encoding: "utf8" });
        expect(stdout).toBe(`${resolveHome(env, platform)}\n`);
      }
    },
  );
});
