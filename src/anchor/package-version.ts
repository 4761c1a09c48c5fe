import { readFileSync } from "node:fs";

const versionFrom = (file: string | URL): string =>
  (JSON.parse(readFileSync(file, "utf8")) as { readonly version: string }).version;

let runningVersion: string | null = null;

/**
 * The version that this process runs, or that a `package.json` says. Its own is read once: the file may be replaced by
 * an upgrade while the process goes on. It lies two above this module, in src and in dist alike.
 */
export function packageVersion(file?: string): string {
  if (file !== undefined) return versionFrom(file);
  runningVersion ??= versionFrom(new URL("../../package.json", import.meta.url));
  return runningVersion;
}
