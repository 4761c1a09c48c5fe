// Builds the packages of a release: holdfast, and the anchor for each platform, which holdfast names as optional.
//
// Usage: pack.mjs [--built] [--target linux-x64|linux-arm64|win32-x64|win32-arm64] [--to directory]
//
//   --built   pack the existing dist instead of building first
//   --target  only this anchor
//   --to      directory of the .tgz files; default build/packages

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { bundled } from "./bundle.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const checkout = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const { name, version, license, engines } = checkout;
const TARGETS = ["linux-x64", "linux-arm64", "win32-x64", "win32-arm64"];
const SYSTEMS = { linux: "Linux", win32: "Windows" };

/** Bundled packages that the library's type declarations also need. */
const TYPED = ["zod"];

const { values: options } = parseArgs({
  options: { built: { type: "boolean" }, target: { type: "string" }, to: { type: "string" } },
});
const destination = resolve(options.to ?? join(root, "build/packages"));

if (options.built !== true) run("npm", ["run", "--silent", "build"]);
rmSync(destination, { recursive: true, force: true });
packMain();
for (const target of options.target === undefined ? TARGETS : [options.target]) packAnchor(target);

function packMain() {
  const { description, type, bin, exports, dependencies } = checkout;
  const needed = ([each]) => !bundled.includes(each) || TYPED.includes(each);
  const stage = openStage(name, {
    ...{ name, version, description, license, type, bin, exports, engines },
    dependencies: Object.fromEntries(Object.entries(dependencies).filter(needed)),
    optionalDependencies: Object.fromEntries(TARGETS.map((target) => [anchorName(target), version])),
  });
  for (const each of ["README.md", "CHANGELOG.md", "docs"])
    cpSync(join(root, each), join(stage, each), { recursive: true });
  for (const each of ["cli/main.js", "bundle", "index.js", "chunks"])
    cpSync(join(root, "dist", each), join(stage, "dist", each), { recursive: true });
  cpSync(join(root, "dist"), join(stage, "dist"), { recursive: true, filter: isDeclaration });
  writeFileSync(join(stage, "THIRD-PARTY-LICENSES"), bundled.map(licenseOf).join("\n"));
  closeStage(stage);
}

/** Accepts directories too, except those without declarations. */
function isDeclaration(path) {
  return path.endsWith(".d.ts") || !/\.\w+$|\/(bundle|cli|chunks)$/.test(path);
}

function packAnchor(target) {
  const [system, cpu] = target.split("-");
  const suffix = system === "win32" ? ".exe" : "";
  run(process.execPath, [join(root, "scripts/build-anchor.mjs"), "--target", target]);
  const stage = openStage(`anchor-${target}`, {
    name: anchorName(target),
    version,
    description: `The native part of Holdfast for ${SYSTEMS[system]} on ${cpu}: one binary that needs nothing else.`,
    ...{ license, engines, type: "commonjs" },
    os: [system],
    cpu: [cpu],
    preferUnplugged: true,
  });
  const binary = join(stage, `bin/anchor${suffix}`);
  mkdirSync(dirname(binary));
  copyFileSync(join(root, "build", `anchor-${target}${suffix}`), binary);
  chmodSync(binary, 0o755);
  closeStage(stage);
}

function anchorName(target) {
  return `@holdfast/anchor-${target}`;
}

function licenseOf(dependency) {
  const directory = join(root, "node_modules", dependency);
  const file = readdirSync(directory).find((entry) => /^licen[cs]e(\.\w+)?$/i.test(entry));
  if (file === undefined) throw new Error(`${dependency} has no license file`);
  return `${dependency}\n\n${readFileSync(join(directory, file), "utf8")}`;
}

function openStage(directory, manifest) {
  const stage = join(destination, directory);
  mkdirSync(stage, { recursive: true });
  copyFileSync(join(root, "LICENSE"), join(stage, "LICENSE"));
  writeFileSync(join(stage, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  return stage;
}

function closeStage(stage) {
  run("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", destination, stage]);
  rmSync(stage, { recursive: true });
}

function run(command, args) {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
  if (status !== 0) {
    console.error(`${command} ${args.join(" ")} failed${error ? `: ${error.message}` : ""}`);
    process.exit(1);
  }
}
