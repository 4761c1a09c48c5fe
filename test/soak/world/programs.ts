import { spawnSync } from "node:child_process";
import { join, resolve } from "node:path";
import { builtMain, type WorldPrograms } from "./world.js";

/** Compiles the programs of the soak into a directory. */
export function buildPrograms(directory: string, main: string = builtMain): WorldPrograms {
  const compile = (name: string, output: string, flags: string): string => {
    const path = join(directory, output);
    const source = resolve("test/support/native", `${name}.c`);
    const line = `${process.env["CC"]?.trim() || "cc"} -std=c11 -D_GNU_SOURCE -Wall -Wextra -O2 ${flags} -o "$1" "$2"`;
    const { status, stderr } = spawnSync("sh", ["-c", line, "sh", path, source], { encoding: "utf8" });
    if (status !== 0) throw new Error(`${name}.c: ${stderr}`);
    return path;
  };
  return {
    main,
    bystander: compile("bystander", "bystander", ""),
    slowDisk: compile("slow-disk", "slow-disk.so", "-shared -fPIC"),
  };
}
