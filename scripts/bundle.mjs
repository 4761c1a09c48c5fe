// Bundles the command line and the library over the output of tsc in dist. A command then loads a few files instead of
// some hundred, which takes most of its start-up time. The other modules in dist are for tests; they are not packed.
import { readFileSync, rmSync } from "node:fs";
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

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dependencies = Object.keys(JSON.parse(readFileSync(`${root}/package.json`, "utf8")).dependencies);

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle();

/** Tests bundle to another directory, with plugins that change the sources. */
export async function bundle(dir = `${root}/dist`, plugins = []) {
  // One level below dist like the modules, so that `new URL("../../…", import.meta.url)` stays valid.
  rmSync(`${dir}/chunks`, { recursive: true, force: true });
  const build = await rolldown({
    cwd: root,
    input: { "cli/main": "src/cli/main.ts", index: "src/index.ts" },
    platform: "node",
    plugins,
    transform: { target: "es2023" },
    resolve: { extensionAlias: { ".js": [".ts", ".js"] } },
    external: (id) => dependencies.includes(packageOf(id)) && !bundled.includes(packageOf(id)),
  });
  await build.write({ dir, format: "esm", chunkFileNames: "chunks/[name].js" });
  await build.close();
}

function packageOf(id) {
  const [scope, name] = id.split("/");
  return scope.startsWith("@") ? `${scope}/${name}` : scope;
}
