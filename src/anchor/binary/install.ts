import { createHash, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { access, chmod, lstat, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { AnchorUnusable } from "../../errors.js";
import { errnoCode, errorMessage } from "../../home/errno.js";
import { missingBinaryHint } from "./find.js";

const ELF_MAGIC = Buffer.from([0x7f, 0x45, 0x4c, 0x46]);

/**
 * Copies the binary into the state directory, under a name derived from its content, because anchors outlive package
 * upgrades and their binary must neither change nor vanish. Idempotent; replaces a damaged copy.
 */
export async function installAnchorBinary(home: string, source: string): Promise<string> {
  const content = await readSource(source);
  // A shell would run a text file, and any other file would fail later with an unclear error.
  if (process.platform === "linux" && !content.subarray(0, 4).equals(ELF_MAGIC))
    throw new AnchorUnusable(
      source,
      `${source} is not an executable of this system; nothing can be started. Correct HOLDFAST_ANCHOR or unset it, or build the anchor again`,
    );
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 16);
  const directory = join(home, "bin");
  const path = join(directory, `anchor-${hash}`);
  if (!(await isIntact(path, content))) await writeCopy(directory, path, content);
  await requireExecutable(path);
  return path;
}

async function readSource(source: string): Promise<Buffer> {
  try {
    return await readFile(source);
  } catch (cause) {
    const problem = errnoCode(cause) === "ENOENT" ? "is missing" : "cannot be read";
    throw new AnchorUnusable(
      source,
      `the anchor binary ${source} ${problem}; nothing can be started. To fix it, ${missingBinaryHint(source)}`,
      { cause },
    );
  }
}

/** Compares the whole content, because the name is a hash of it. */
async function isIntact(path: string, content: Buffer): Promise<boolean> {
  try {
    const found = await lstat(path);
    const ours = found.isFile() && (process.getuid === undefined || found.uid === process.getuid());
    if (!ours || found.size !== content.length || !content.equals(await readFile(path))) return false;
    if ((found.mode & 0o777) !== 0o700) await chmod(path, 0o700);
    return true;
  } catch (error) {
    if (errnoCode(error) === "ENOENT") return false;
    throw copyError(path, error);
  }
}

async function writeCopy(directory: string, path: string, content: Buffer): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    try {
      await writeFile(temporary, content, { mode: 0o700, flag: "wx" });
      await chmod(temporary, 0o700);
      await rename(temporary, path);
    } finally {
      await rm(temporary, { force: true });
    }
  } catch (error) {
    throw copyError(path, error);
  }
}

async function requireExecutable(path: string): Promise<void> {
  try {
    // access(2) also fails on a file system mounted noexec.
    await access(path, constants.X_OK);
  } catch (cause) {
    throw new AnchorUnusable(
      path,
      `${path} cannot be executed; nothing can be started. The state directory is probably on a file system mounted noexec: point HOLDFAST_HOME to one that is not`,
      { cause },
    );
  }
}

function copyError(path: string, cause: unknown): AnchorUnusable {
  return new AnchorUnusable(
    path,
    `cannot copy the anchor binary to ${path}: ${errorMessage(cause)}. Nothing can be started until the state directory is writable`,
    { cause },
  );
}
