import { readFileSync } from "node:fs";

/** What `package.json` says; it lies two above this module, in src and in dist alike. */
export function packageVersion(file: string | URL = new URL("../../package.json", import.meta.url)): string {
  return (JSON.parse(readFileSync(file, "utf8")) as { readonly version: string }).version;
}
