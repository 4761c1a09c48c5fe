// The licences of what the packages contain: packages from npm that are bundled into dist, and the C library and runtime
// that Zig links into the anchors.

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { zigProgram } from "../zig.mjs";

/** SPDX ids of the licences that a package of a release may have. Another one is to be read before it is added. */
const ALLOWED = new Set([
  "0BSD",
  "Apache-2.0",
  "BlueOak-1.0.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "ISC",
  "MIT",
]);

/** What Zig links into each anchor, besides its own runtime. Nothing of macOS is linked in. */
const C_LIBRARIES = { linux: ["musl", "libc/musl/COPYRIGHT"], win32: ["mingw-w64", "libc/mingw/COPYING"] };

/** The file THIRD-PARTY-LICENSES of the main package. Throws if a package has no licence file. */
export function bundledLicenses(root, names) {
  const sorted = [...new Set(names)].sort((one, other) => one.localeCompare(other));
  return sorted.map((name) => section(name, licenseFile(join(root, "node_modules", name)))).join("\n");
}

/** The file THIRD-PARTY-LICENSES of an anchor; null if gcc has built it, for a test. */
export function anchorLicenses(system, { gcc = false } = {}) {
  if (gcc) return null;
  const library = zigLibrary();
  const linked = [["compiler-rt of Zig", "LICENSE"], C_LIBRARIES[system] ?? []];
  const named = linked.filter(([name]) => name !== undefined);
  return named.map(([name, path]) => section(name, readFileSync(join(library, path), "utf8"))).join("\n");
}

/** Returns the components of an SBOM whose licence is unknown or not allowed. */
export function licenseProblems(components) {
  return components.flatMap(({ name, version, licenses = [] }) => {
    const ids = licenses.map(({ license, expression }) => license?.id ?? license?.name ?? expression ?? "");
    if (ids.length > 0 && ids.every((id) => ALLOWED.has(id))) return [];
    return [`${name}@${version} has the licence ${ids.join(", ") || "(none)"}, which is not on the list`];
  });
}

function section(name, text) {
  return `${name}\n\n${text}`;
}

function licenseFile(directory) {
  const file = readdirSync(directory).find((entry) => /^licen[cs]e(\.\w+)?$/i.test(entry));
  if (file === undefined) throw new Error(`${directory} has no licence file`);
  return readFileSync(join(directory, file), "utf8");
}

function zigLibrary() {
  const { stdout } = spawnSync(zigProgram(), ["env"], { encoding: "utf8" });
  const [, directory] = /\.?"?lib_dir"? ?[=:] ?"([^"]+)"/.exec(stdout) ?? [];
  if (directory === undefined) throw new Error(`zig env names no lib_dir: ${stdout}`);
  return directory;
}
