import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { AnchorUnusable } from "../../errors.js";
import { isCheckout, PACKAGE_ROOT, packageVersion } from "../../home/package.js";

const PLATFORM = `${process.platform}-${process.arch}`;
const PACKAGED_PLATFORMS: readonly string[] = ["linux-x64", "linux-arm64"];
const PACKAGE = `@holdfast/anchor-${PLATFORM}`;

const CHECKOUT_BINARY = join(PACKAGE_ROOT, "build/anchor");

/**
 * Returns the path of the anchor binary: the value of `HOLDFAST_ANCHOR`, the build of a checkout, or the binary of this
 * platform's package.
 */
export function findAnchorBinary(env: NodeJS.ProcessEnv = process.env): string {
  return env["HOLDFAST_ANCHOR"] || (isCheckout ? CHECKOUT_BINARY : packagedFile("bin/anchor"));
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
  if (path !== packagedFile("bin/anchor") || !existsSync(path)) return;
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
  if (path !== packagedFile("bin/anchor")) return "correct HOLDFAST_ANCHOR or unset it";
  if (!PACKAGED_PLATFORMS.includes(PLATFORM))
    return `use one of ${PACKAGED_PLATFORMS.join(", ")}; there is no anchor for ${PLATFORM}`;
  const version = packageVersion();
  return `install the package ${PACKAGE}: npm install ${PACKAGE}@${version} (npm leaves it out with --omit=optional, or when a lockfile was made on another platform)`;
}
