import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, test } from "vitest";
import { canCompile, compiler, execute, project } from "../../support/anchor/sanitizers.js";
import { repetitions } from "../../support/scale.js";
import { temporaryHome } from "../../support/supervisor/real-supervisor.js";

describe.skipIf(!canCompile)("parts of the anchor, tested alone", () => {
  const hasValgrind = spawnSync("valgrind", ["--version"], { stdio: "ignore" }).status === 0;
  const flags = ["-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Werror"];
  const sanitize = ["-fsanitize=address,undefined"];
  const factor = repetitions(1, 50);
  const programs = [
    { name: "fuzz-wire", parts: ["wire"], place: false, sanitized: 10_000, watched: 200 },
    {
      name: "check-spool",
      parts: ["spool", "posix-files", "posix-io"],
      place: true,
      sanitized: 4,
      watched: 1,
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

  for (const { name, parts, place, sanitized, watched } of programs) {
    test(`${name} finds nothing with sanitizers`, async () => {
      const program = await compile(name, parts, sanitize);
      for (let seed = 1; seed <= repetitions(1, 2); seed++)
        await execute(program, await argumentsOf(place, seed, sanitized * factor));
    });

    test.skipIf(!hasValgrind)(`${name} finds nothing under valgrind`, async () => {
      const program = await compile(name, parts, []);
      const args = await argumentsOf(place, 3, watched * factor);
      await execute("valgrind", ["-q", "--error-exitcode=9", program, ...args]);
    });
  }
});
