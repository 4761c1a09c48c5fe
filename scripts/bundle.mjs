// Bundles the command line and the library over what tsc has put into dist: a command is then a few files instead of
// some hundred, which is most of its start-up time. dist's other modules are for tests that look inside; they are not
// packed.
import { readFileSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

/** What is bundled; the packages' users do not install it. The others load native code, or workers, or only in a gateway. */
export const bundled = ["commander", "kysely", "picocolors", "smol-toml", "ws", "zod"];

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dependencies = Object.keys(JSON.parse(readFileSync(`${root}/package.json`, "utf8")).dependencies);

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle();

/** Tests bundle elsewhere, with what their plugins make of the sources. */
export async function bundle(dir = `${root}/dist`, plugins = []) {
  // A directory of its own, one below dist like the modules were: `new URL("../../…", import.meta.url)` still holds.
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
