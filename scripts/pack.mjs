// Builds the packages of a release: holdfast, and the anchor for each platform, which holdfast names as optional. One
// machine builds all of them, with Zig from npm; each binary and each package is checked.
//
// Usage: pack.mjs [--built] [--no-fetch] [--target linux-x64|linux-arm64|darwin-x64|darwin-arm64|win32-x64|win32-arm64]…
//                 [--to directory] [--repository https://…]
//
//   --built     pack the existing dist instead of building first
//   --no-fetch  for tests: where Zig has not been fetched, build for Linux with Debian's gcc
//   --target    only these anchors
//   --to        directory of the .tgz files and of the SBOM; default build/packages
//   --repository  address of the repository, for the manifests; provenance demands it

import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { bundled } from "./bundle.mjs";
import { npm } from "./npm.mjs";
import { binaryProblems } from "./release/check-binary.mjs";
import { anchorPackageProblems, mainPackageProblems } from "./release/check-package.mjs";
import { anchorLicenses, bundledLicenses, licenseProblems } from "./release/licenses.mjs";
import { createSbom, unbundledProblems } from "./release/sbom.mjs";
import { isZigThere } from "./zig.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const checkout = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const { name, version, license, engines } = checkout;
const TARGETS = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64", "win32-x64", "win32-arm64"];
const SYSTEMS = { linux: "Linux", darwin: "macOS", win32: "Windows" };

/** Bundled packages that the library's type declarations also need. */
const TYPED = ["zod"];

const { values: options } = parseArgs({
  options: {
    built: { type: "boolean" },
    "no-fetch": { type: "boolean" },
    target: { type: "string", multiple: true },
    to: { type: "string" },
    repository: { type: "string" },
  },
});
/** Fields of every manifest. A checkout names no address: only the workflow that publishes knows it. */
const published = {
  ...{ author: "The Holdfast authors", keywords: checkout.keywords, publishConfig: { access: "public" } },
  ...(options.repository !== undefined && {
    homepage: `${options.repository}#readme`,
    repository: { type: "git", url: `git+${options.repository}.git` },
    bugs: `${options.repository}/issues`,
  }),
};
const destination = resolve(options.to ?? join(root, "build/packages"));

if (options.built !== true) mustSucceed("npm run build", npm(["run", "--silent", "build"], { cwd: root }));
rmSync(destination, { recursive: true, force: true });
packMain();
for (const target of options.target ?? TARGETS) packAnchor(target);

function packMain() {
  const { description, type, bin, exports, dependencies } = checkout;
  const needed = ([each]) => !bundled.includes(each) || TYPED.includes(each);
  const stage = openStage(name, {
    ...{ name, version, description, license, type, bin, exports, engines, ...published },
    files: ["dist", "docs", "CHANGELOG.md", "THIRD-PARTY-LICENSES"],
    dependencies: Object.fromEntries(Object.entries(dependencies).filter(needed)),
    optionalDependencies: Object.fromEntries(TARGETS.map((target) => [anchorName(target), version])),
  });
  for (const each of ["README.md", "CHANGELOG.md", "docs"])
    cpSync(join(root, each), join(stage, each), { recursive: true });
  for (const each of ["cli/main.js", "bundle", "index.js", "chunks", "web"])
    cpSync(join(root, "dist", each), join(stage, "dist", each), { recursive: true });
  cpSync(join(root, "dist"), join(stage, "dist"), { recursive: true, filter: isDeclaration });
  const inPage = JSON.parse(readFileSync(join(root, "dist/web-packages.json"), "utf8"));
  const contained = [...bundled, ...inPage];
  writeFileSync(join(stage, "THIRD-PARTY-LICENSES"), bundledLicenses(root, contained));
  writeSbom(Object.keys(dependencies), contained);
  const tarball = closeStage(stage, `${name}-${version}.tgz`);
  mustBeEmpty(mainPackageProblems(tarball, { anchors: TARGETS.map(anchorName), version }));
}

function writeSbom(installed, contained) {
  const sbom = createSbom(root, { roots: [...installed, ...contained], bundled: contained });
  mustBeEmpty(unbundledProblems(sbom, { bundled: contained, installed }));
  mustBeEmpty(licenseProblems(sbom.components));
  writeFileSync(join(destination, `${name}-${version}.cdx.json`), `${JSON.stringify(sbom, null, 2)}\n`);
}

/** Accepts directories too, except those without declarations. */
function isDeclaration(path) {
  return path.endsWith(".d.ts") || !/\.\w+$|\/(bundle|cli|chunks)$/.test(path);
}

function packAnchor(target) {
  const [system, cpu] = target.split("-");
  const gcc = options["no-fetch"] === true && system === "linux" && !isZigThere();
  const suffix = system === "win32" ? ".exe" : "";
  const built = join(root, "build", `anchor-${target}${gcc ? "-gcc" : ""}${suffix}`);
  const build = [join(root, "scripts/build-anchor.mjs"), "--target", target, ...(gcc ? ["--gcc"] : [])];
  const { status, error } = spawnSync(process.execPath, build, { cwd: root, stdio: "inherit" });
  mustSucceed(`the build of the anchor for ${target}`, { status, error });
  mustBeEmpty(binaryProblems(built, target, { glibc: gcc }));
  const description = `The native part of Holdfast for ${SYSTEMS[system]} on ${cpu}: one program that needs nothing else.`;
  const stage = openStage(`anchor-${target}`, {
    name: anchorName(target),
    version,
    description,
    ...{ license, engines, type: "commonjs", ...published },
    os: [system],
    cpu: [cpu],
    preferUnplugged: true,
  });
  const binary = `bin/anchor${suffix}`;
  mkdirSync(join(stage, "bin"));
  copyFileSync(built, join(stage, binary));
  chmodSync(join(stage, binary), 0o755);
  const linked = anchorLicenses(system, { gcc });
  if (linked !== null) writeFileSync(join(stage, "THIRD-PARTY-LICENSES"), linked);
  const readme = `# ${anchorName(target)}\n\n${description}\n\nnpm installs it with \`holdfast\`, on the platform it is for. It has no API of its own.\n`;
  writeFileSync(join(stage, "README.md"), readme);
  const tarball = closeStage(stage, `holdfast-anchor-${target}-${version}.tgz`);
  mustBeEmpty(
    anchorPackageProblems(tarball, {
      name: anchorName(target),
      version,
      target,
      binary,
      licensed: linked !== null,
    }),
  );
}

function anchorName(target) {
  return `@holdfast/anchor-${target}`;
}

function openStage(directory, manifest) {
  const stage = join(destination, directory);
  mkdirSync(stage, { recursive: true });
  copyFileSync(join(root, "LICENSE"), join(stage, "LICENSE"));
  writeFileSync(join(stage, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  return stage;
}

/** Returns the path of the tarball. */
function closeStage(stage, file) {
  const pack = ["pack", "--silent", "--ignore-scripts", "--pack-destination", destination, stage];
  mustSucceed(`npm pack of ${stage}`, npm(pack, { cwd: root, stdio: ["ignore", "inherit", "inherit"] }));
  rmSync(stage, { recursive: true });
  return join(destination, file);
}

function mustSucceed(what, { status, error }) {
  if (status === 0) return;
  console.error(`${what} failed${error ? `: ${error.message}` : ""}`);
  process.exit(1);
}

function mustBeEmpty(problems) {
  if (problems.length === 0) return;
  console.error(problems.join("\n"));
  process.exit(1);
}
