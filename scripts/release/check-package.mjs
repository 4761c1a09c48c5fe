// Checks a packed anchor package as npm will see it: its files, its manifest, and the binary for its platform.

import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { contentProblems } from "./contents.mjs";

const checkout = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

const BLOCK = 512;
/** npm runs these when it installs a package. */
const INSTALL_SCRIPTS = ["preinstall", "install", "postinstall", "prepare"];

/** Returns what is wrong with the package of a target such as linux-x64; nothing if it can be published. */
export function anchorPackageProblems(tarball, { name, version, target, binary, licensed }) {
  const [system, cpu] = target.split("-");
  const entries = readTarball(tarball);
  const paths = entries.map(({ path }) => path).sort((one, other) => (one < other ? -1 : 1));
  const files = [
    "LICENSE",
    "README.md",
    "package.json",
    ...(licensed ? ["THIRD-PARTY-LICENSES"] : []),
    binary,
  ];
  const expected = files.map((path) => `package/${path}`).sort();
  const problems = contentProblems(entries, checkout, [/./]);
  if (paths.join() !== expected.join())
    problems.push(`has ${paths.join(", ")}; expected ${expected.join(", ")}`);
  const program = entries.find(({ path }) => path === `package/${binary}`);
  if (program !== undefined && (program.mode & 0o777) !== 0o755)
    problems.push(`${binary} has mode ${(program.mode & 0o777).toString(8)}, not 755`);
  const manifest = manifestOf(entries);
  const fields = { name, version, license: "MIT", os: [system], cpu: [cpu] };
  for (const [field, value] of Object.entries(fields))
    if (JSON.stringify(manifest[field]) !== JSON.stringify(value))
      problems.push(`${field} is ${JSON.stringify(manifest[field])}, not ${JSON.stringify(value)}`);
  // A static binary works with every libc; npm would leave the package out where the field does not match.
  if (manifest.libc !== undefined) problems.push("names a libc");
  for (const kind of ["dependencies", "optionalDependencies", "scripts"])
    if (manifest[kind] !== undefined) problems.push(`has ${kind}`);
  return problems.map((problem) => `${tarball}: ${problem}`);
}

/** Returns what is wrong with the main package: it names each anchor in its own version, and runs nothing when installed. */
export function mainPackageProblems(tarball, { anchors, version }) {
  const entries = readTarball(tarball);
  const manifest = manifestOf(entries);
  const problems = contentProblems(entries, checkout);
  const named = Object.entries(manifest.optionalDependencies ?? {}).map(
    ([name, range]) => `${name}@${range}`,
  );
  const expected = anchors.map((name) => `${name}@${version}`);
  if (named.join() !== expected.join()) problems.push(`names the anchors ${named.join(", ")}`);
  const scripts = INSTALL_SCRIPTS.filter((script) => manifest.scripts?.[script] !== undefined);
  if (scripts.length > 0) problems.push(`runs ${scripts.join(", ")} when it is installed`);
  for (const path of ["LICENSE", "README.md", "CHANGELOG.md", "THIRD-PARTY-LICENSES", "dist/web/index.html"])
    if (!entries.some((entry) => entry.path === `package/${path}`)) problems.push(`has no ${path}`);
  if (entries.some(({ path }) => /\/anchor(\.exe)?$/.test(path))) problems.push("contains an anchor");
  return problems.map((problem) => `${tarball}: ${problem}`);
}

function manifestOf(entries) {
  const manifest = entries.find(({ path }) => path === "package/package.json");
  return JSON.parse(manifest?.content.toString("utf8") ?? "{}");
}

/** Reads the files of an archive as npm writes it: ustar, without links. */
function readTarball(path) {
  const archive = gunzipSync(readFileSync(path));
  const entries = [];
  for (let at = 0; at + BLOCK <= archive.length && archive[at] !== 0;) {
    const field = (offset, length) =>
      archive.toString("utf8", at + offset, at + offset + length).replace(/\0.*$/s, "");
    const size = Number.parseInt(field(124, 12), 8);
    const [name, prefix] = [field(0, 100), field(345, 155)];
    const content = archive.subarray(at + BLOCK, at + BLOCK + size);
    // "0" is a file; npm writes other kinds only as headers of a long path.
    if (field(156, 1) === "0" || field(156, 1) === "")
      entries.push({
        path: prefix === "" ? name : `${prefix}/${name}`,
        mode: Number.parseInt(field(100, 8), 8),
        content,
      });
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return entries;
}
