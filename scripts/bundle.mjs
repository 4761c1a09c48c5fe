// Bundles the command line and the library over the output of tsc in dist. A command then loads a few files instead of
// some hundred, which takes most of its start-up time. The other modules in dist are for tests; they are not packed.
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

/**
 * Bundled packages, which users do not install. The others load native code or workers, or are needed only in a
 * gateway.
 */
export const bundled = [
  "@modelcontextprotocol/core",
  "@modelcontextprotocol/server",
  "commander",
  "eslint-visitor-keys",
  "get-east-asian-width",
  "jsonc-parser",
  "kysely",
  "smol-toml",
  "toml-eslint-parser",
  "ws",
  "zod",
];

/** For `import` and old paths. Requires the bundle: an import of CommonJS would parse it twice. */
const ENTRY = `#!/usr/bin/env node
import { createRequire } from "node:module";
createRequire(import.meta.url)("../bundle/main.cjs");
`;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dependencies = Object.keys(JSON.parse(readFileSync(`${root}/package.json`, "utf8")).dependencies);

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
  const entries = {
    main: "src/cli/main.ts",
    "checkpoint-thread": "src/store/sqlite/checkpoint-thread.ts",
  };
  await write(entries, [...plugins, lazyBuiltins], {
    ...{ dir: `${dir}/bundle`, format: "cjs" },
    ...{ entryFileNames: "[name].cjs", chunkFileNames: "[name].cjs" },
    // All that every command loads is one file; otherwise each set of modules that the same commands share is one.
    codeSplitting: { groups: [{ name: "main", test: /\/src\/cli\/main\.ts$/ }] },
  });
  // Node looks for it from the directory of a module upwards, and would parse the large one of the package.
  writeFileSync(`${dir}/bundle/package.json`, '{ "type": "commonjs" }\n');
  inlineRuntime(`${dir}/bundle`);
  escapeToAscii(`${dir}/bundle`);
  chmodSync(`${dir}/bundle/main.cjs`, 0o755);
  mkdirSync(`${dir}/cli`, { recursive: true });
  writeFileSync(`${dir}/cli/main.js`, ENTRY);
  chmodSync(`${dir}/cli/main.js`, 0o755);
}

/** Loads each module of Node when it is first used: a command uses few of those that its files import. */
const lazyBuiltins = {
  name: "lazy-builtins",
  renderChunk(code) {
    let result = code;
    for (const [line, name, load] of code.matchAll(/^let (node_\w+) = (require\("node:[\w/]+"\));$/gm)) {
      const [before = "", after = ""] = result.split(line);
      // A module that is used as a whole, not only by its properties, is loaded at once.
      if (new RegExp(`\\b${name}\\b(?!\\.)`).test(after)) continue;
      const lazy = `let ${name}_loaded;\nconst ${name} = () => (${name}_loaded ??= ${load});`;
      const uses = new RegExp(`\\b(new )?${name}\\.`, "g");
      // `new f().C()` would construct f.
      const used = after.replaceAll(uses, (_, isNew) => (isNew ? `new (${name}()).` : `${name}().`));
      result = before + lazy + used;
    }
    return result;
  },
};

/** Every command needs the helpers of the bundler; a file of its own takes longer to find than to execute. */
function inlineRuntime(dir) {
  const main = readFileSync(`${dir}/main.cjs`, "utf8");
  const helpers = readFileSync(`${dir}/rolldown-runtime.cjs`, "utf8");
  const inlined = `((exports) => {\n${helpers}\nreturn exports;\n})({})`;
  const whole = main.replace('require("./rolldown-runtime.cjs")', () => inlined);
  writeFileSync(`${dir}/main.cjs`, whole);
}

/** Node reads a file of ASCII characters several times faster, and V8 keeps it in half the memory. */
function escapeToAscii(dir) {
  for (const name of readdirSync(dir).filter((each) => each.endsWith(".cjs"))) {
    const code = readFileSync(`${dir}/${name}`, "utf8");
    const escaped = (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
    writeFileSync(`${dir}/${name}`, code.replaceAll(/[^\0-\x7f]/g, escaped));
  }
}

async function write(input, plugins, output) {
  const build = await rolldown({
    ...{ cwd: root, input, plugins, platform: "node" },
    transform: { target: "es2023" },
    resolve: {
      extensionAlias: { ".js": [".ts", ".js"] },
      // Its file for Node requires its parts in a way that no bundler follows.
      alias: { "jsonc-parser": `${root}/node_modules/jsonc-parser/lib/esm/main.js` },
    },
    external: (id) => dependencies.includes(packageOf(id)) && !bundled.includes(packageOf(id)),
  });
  await build.write(output);
  await build.close();
}

function packageOf(id) {
  const [scope, name] = id.split("/");
  return scope.startsWith("@") ? `${scope}/${name}` : scope;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle();
