import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * The directory of this package. Two levels above this module in src/ and in dist/, and above the bundle's chunks:
 * every module that builds a path from `import.meta.url` must lie directly in a folder of src/.
 */
export const PACKAGE_ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** True in a checkout of the sources, false in an installed package. */
export const isCheckout = existsSync(`${PACKAGE_ROOT}scripts/build-anchor.mjs`);

const versionFrom = (file: string): string =>
  (JSON.parse(readFileSync(file, "utf8")) as { readonly version: string }).version;

let runningVersion: string | null = null;

/** The version of a `package.json`; by default the running one, read once, because an upgrade may replace the file. */
export function packageVersion(file?: string): string {
  if (file !== undefined) return versionFrom(file);
  runningVersion ??= versionFrom(`${PACKAGE_ROOT}package.json`);
  return runningVersion;
}
