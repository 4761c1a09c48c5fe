// Commands that the scenarios run, and how their runs end.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Launcher } from "./client.mjs";

const { SystemRoot: systemRoot = "C:\\windows" } = process.env;
export const cmd = join(systemRoot, "system32", "cmd.exe");
export const node = process.execPath;
/** The built tree.c. */
export const { TREE_PROGRAM: treeProgram = "" } = process.env;

export const shell = (line) => [cmd, "/d", "/s", "/c", `"${line}"`];
export const program = (source) => [node, "-e", source];

export function temporary() {
  return mkdtempSync(join(tmpdir(), "hf-tree-"));
}

export function ending({ json }) {
  const exit = JSON.parse(json);
  const { reason, leader, killMode, emptiness, tier, actor } = exit;
  return { reason, leader, killMode, emptiness, tier, actor, residue: exit.residue.map(({ kind }) => kind) };
}

/** Runs a command to its end. */
export async function complete(args, change = {}) {
  const launcher = await Launcher.start();
  const link = await launcher.run("run_one", args, change);
  const exit = await link.receive("exited");
  launcher.holding.close();
  return {
    ...ending(exit),
    output: launcher.output("run_one"),
    errors: launcher.output("run_one", "stderr"),
  };
}
