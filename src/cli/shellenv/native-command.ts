import { accessSync, constants, lstatSync, mkdirSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { findAnchorBinary, missingBinaryHint, requireSameVersion } from "../../anchor/binary.js";
import { AnchorUnusable } from "../../errors.js";
import { CLI_MAIN } from "../../gateway/start-in-background.js";
import { renameFileSync } from "../../home/rename-file.js";
import { createStateDirectory } from "../../home/state-directory.js";

/**
 * Makes the directory that has the native `holdfast`, for PATH, and returns its path. All entries are links, so an upgrade
 * in place needs nothing; anchor/client/exec-node.c describes them.
 */
export async function makeNativeCommand(path: string, cli = CLI_MAIN): Promise<string> {
  const { home } = await createStateDirectory(path);
  const binary = findAnchorBinary();
  requireSameVersion(binary);
  try {
    accessSync(binary, constants.X_OK);
  } catch (cause) {
    throw new AnchorUnusable(
      binary,
      `the native command cannot be made: ${binary} is missing or cannot be executed. To fix it, ${missingBinaryHint(binary)}`,
      { cause },
    );
  }
  const native = join(home, "native");
  const bin = join(native, "bin");
  mkdirSync(bin, { recursive: true, mode: 0o700 });
  replaceLink(join(native, "cli.js"), cli);
  replaceLink(join(native, "node"), process.execPath);
  replaceLink(join(bin, "holdfast"), binary);
  return bin;
}

/** Replaces a link atomically. */
function replaceLink(path: string, target: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true && readlinkSync(path) === target)
    return;
  const temporary = `${path}.${process.pid}.tmp`;
  rmSync(temporary, { force: true });
  symlinkSync(target, temporary);
  renameFileSync(temporary, path);
}
