// Bundles the command line and the library over the output of tsc in dist. A command then loads a few files instead of
// some hundred, which takes most of its start-up time. The other modules in dist are for tests; they are not packed.
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

/**
 * Bundled packages, which users do not install. The others load native code or workers, or are needed only in a
 * gateway.
 */
export const bundled = [
  "commander",
  "get-east-asian-width",
  "kysely",
  "picocolors",
  "smol-toml",
  "ws",
  "zod",
];

/** Requires the bundle: an import of CommonJS would parse it twice. */
const ENTRY = `#!/usr/bin/env node
import { createRequire } from "node:module";
createRequire(import.meta.url)("../bundle/main.cjs");
`;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dependencies = Object.keys(JSON.parse(readFileSync(`${root}/package.json`, "utf8")).dependencies);

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle();

/**
 * The command line is bundled as CommonJS, which Node 20 loads faster than ES modules. Tests bundle to another
 * directory, with plugins that change the sources.
 */
export async function bundle(dir = `${root}/dist`, plugins = []) {
  // One level below dist like the modules, so that `new URL("../../…", import.meta.url)` stays valid.
  for (const each of ["chunks", "bundle"]) rmSync(`${dir}/${each}`, { recursive: true, force: true });
  await write({ index: "src/index.ts" }, plugins, {
    dir: `${dir}/chunks`,
    format: "esm",
    chunkFileNames: "[name].js",
  });
  writeFileSync(`${dir}/index.js`, 'export * from "./chunks/index.js";\n');
  await write({ main: "src/cli/main.ts" }, plugins, {
    ...{ dir: `${dir}/bundle`, format: "cjs" },
    ...{ entryFileNames: "[name].cjs", chunkFileNames: "[name].cjs" },
  });
  mkdirSync(`${dir}/cli`, { recursive: true });
  writeFileSync(`${dir}/cli/main.js`, ENTRY);
  chmodSync(`${dir}/cli/main.js`, 0o755);
}

async function write(input, plugins, output) {
  const build = await rolldown({
    ...{ cwd: root, input, plugins, platform: "node" },
    transform: { target: "es2023" },
    resolve: { extensionAlias: { ".js": [".ts", ".js"] } },
    external: (id) => dependencies.includes(packageOf(id)) && !bundled.includes(packageOf(id)),
  });
  await build.write(output);
  await build.close();
}

function packageOf(id) {
  const [scope, name] = id.split("/");
  return scope.startsWith("@") ? `${scope}/${name}` : scope;
}
