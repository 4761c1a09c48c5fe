import { readFileSync } from "node:fs";

const versionIn = (file: string | URL): string =>
  (JSON.parse(readFileSync(file, "utf8")) as { readonly version: string }).version;

/** Read once: `package.json` may be replaced under a process that goes on. It lies two above this module, in src and in dist alike. */
const running = versionIn(new URL("../../package.json", import.meta.url));

/** The version that this process runs, or that a `package.json` says. */
export function packageVersion(file?: string): string {
  return file === undefined ? running : versionIn(file);
}
