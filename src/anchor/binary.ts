import { createHash, randomBytes } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { access, chmod, lstat, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { AnchorUnusable } from "../errors.js";
import { errnoCode, errorMessage } from "../home/errno.js";
import { isCheckout, PACKAGE_ROOT, packageVersion } from "../home/package.js";
import { renameFile } from "../home/rename-file.js";

const PLATFORM = `${process.platform}-${process.arch}`;
const PACKAGED_PLATFORMS: readonly string[] = ["linux", "darwin", "win32"].flatMap((system) => [
  `${system}-x64`,
  `${system}-arm64`,
]);
const PACKAGE = `@holdfast/anchor-${PLATFORM}`;

/** Windows starts only files with this suffix. */
const SUFFIX = process.platform === "win32" ? ".exe" : "";
const PACKAGED_BINARY = `bin/anchor${SUFFIX}`;
const CHECKOUT_BINARY = join(PACKAGE_ROOT, `build/anchor${SUFFIX}`);

/**
 * Returns the path of the anchor binary: the value of `HOLDFAST_ANCHOR`, the build of a checkout, or the binary of this
 * platform's package.
 */
export function findAnchorBinary(env: NodeJS.ProcessEnv = process.env): string {
  return env["HOLDFAST_ANCHOR"] || (isCheckout ? CHECKOUT_BINARY : packagedFile(PACKAGED_BINARY));
}

/** Returns the path of a file of the anchor package, or its expected path if the package is not installed. */
function packagedFile(file: string): string {
  try {
    return createRequire(import.meta.url).resolve(`${PACKAGE}/${file}`);
  } catch {
    return join(PACKAGE_ROOT, "..", PACKAGE, file);
  }
}

/** Throws if the anchor package is of another release: both packages are tested and installed together. */
export function requireSameVersion(path: string): void {
  if (path !== packagedFile(PACKAGED_BINARY) || !existsSync(path)) return;
  const ours = packageVersion();
  const theirs = packageVersion(packagedFile("package.json"));
  if (ours !== theirs)
    throw new AnchorUnusable(
      path,
      `${PACKAGE} is version ${theirs}, but holdfast is ${ours}; nothing can be started. Install both in one version: npm install holdfast@${ours} ${PACKAGE}@${ours}`,
    );
}

/** Says how to repair a missing anchor binary. */
export function missingBinaryHint(path: string): string {
  if (path === CHECKOUT_BINARY) return "build it with `node scripts/build-anchor.mjs` in the checkout";
  if (path !== packagedFile(PACKAGED_BINARY)) return "correct HOLDFAST_ANCHOR or unset it";
  if (!PACKAGED_PLATFORMS.includes(PLATFORM))
    return `use one of ${PACKAGED_PLATFORMS.join(", ")}; there is no anchor for ${PLATFORM}`;
  const version = packageVersion();
  return `install the package ${PACKAGE}: npm install ${PACKAGE}@${version} (npm leaves it out with --omit=optional, or when a lockfile was made on another platform)`;
}

/** The first bytes of an executable: ELF, PE, and 64-bit Mach-O. */
const MAGIC: Partial<Record<NodeJS.Platform, Buffer>> = {
  linux: Buffer.from([0x7f, 0x45, 0x4c, 0x46]),
  win32: Buffer.from("MZ"),
  darwin: Buffer.from([0xcf, 0xfa, 0xed, 0xfe]),
};

/**
 * Copies the binary into the state directory, under a name derived from its content, because anchors outlive package
 * upgrades and their binary must neither change nor vanish. Idempotent; replaces a damaged copy.
 */
export async function installAnchorBinary(home: string, source: string): Promise<string> {
  const content = await readSource(source);
  // A shell would run a text file, and any other file would fail later with an unclear error.
  const magic = MAGIC[process.platform];
  if (magic !== undefined && !content.subarray(0, magic.length).equals(magic))
    throw new AnchorUnusable(
      source,
      `${source} is not an executable of this system; nothing can be started. Correct HOLDFAST_ANCHOR or unset it, or build the anchor again`,
    );
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 16);
  const directory = join(home, "bin");
  const path = join(directory, `anchor-${hash}${SUFFIX}`);
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
    const uid = process.getuid?.();
    const ours = found.isFile() && (uid === undefined || found.uid === uid);
    if (!ours || found.size !== content.length || !content.equals(await readFile(path))) return false;
    if (uid !== undefined && (found.mode & 0o777) !== 0o700) await chmod(path, 0o700);
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
      await renameFile(temporary, path);
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
