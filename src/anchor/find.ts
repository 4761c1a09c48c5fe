import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { AnchorUnusable } from "../errors.js";
import { packageVersion } from "./package-version.js";

const PLATFORM = `${process.platform}-${process.arch}`;
const PACKAGED_FOR: readonly string[] = ["linux-x64", "linux-arm64"];
const PACKAGE = `@holdfast/anchor-${PLATFORM}`;

/** Beside both `src/` and `dist/`, so the same step leads there from either. */
const BUILT = fileURLToPath(new URL("../../build/anchor", import.meta.url));
const isCheckout = existsSync(new URL("../../scripts/build-anchor.mjs", import.meta.url));

/** The anchor's binary: what `HOLDFAST_ANCHOR` names, a checkout's own build, or this platform's package. */
export function findAnchor(env: NodeJS.ProcessEnv = process.env): string {
  return env["HOLDFAST_ANCHOR"] || (isCheckout ? BUILT : packaged("bin/anchor"));
}

/** A file of the anchor package; where it would be, when that is not installed. */
function packaged(file: string): string {
  try {
    return createRequire(import.meta.url).resolve(`${PACKAGE}/${file}`);
  } catch {
    return fileURLToPath(new URL(`../../../${PACKAGE}/${file}`, import.meta.url));
  }
}

/** Rejects an anchor package of another release: they are made, tested and installed together. */
export function requireSameRelease(path: string): void {
  if (path !== packaged("bin/anchor") || !existsSync(path)) return;
  const ours = packageVersion();
  const theirs = packageVersion(packaged("package.json"));
  if (ours !== theirs)
    throw new AnchorUnusable(
      path,
      `${PACKAGE} is version ${theirs}, but holdfast is ${ours}; nothing can be started. Install both in one version: npm install holdfast@${ours} ${PACKAGE}@${ours}`,
    );
}

/** What to do about an anchor that is not where it should be. */
export function remedyForMissing(path: string): string {
  if (path === BUILT) return "build it with `node scripts/build-anchor.mjs` in the checkout";
  if (path !== packaged("bin/anchor")) return "correct HOLDFAST_ANCHOR or unset it";
  if (!PACKAGED_FOR.includes(PLATFORM))
    return `use one of ${PACKAGED_FOR.join(", ")}: there is no anchor for ${PLATFORM}`;
  const version = packageVersion();
  return `install the package ${PACKAGE}: npm install ${PACKAGE}@${version} (npm leaves it out with --omit=optional, or when a lockfile was made on another platform)`;
}
