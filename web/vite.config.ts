import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

/** Writes which packages the page contains, beside it: their licenses are shipped with it. */
const listPackages: Plugin = {
  name: "list-packages",
  writeBundle() {
    const found = [...this.getModuleIds()].flatMap((id) => {
      const [, name] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id) ?? [];
      return name === undefined ? [] : [name];
    });
    const list = fileURLToPath(new URL("../dist/web-packages.json", import.meta.url));
    writeFileSync(list, JSON.stringify([...new Set(found)].toSorted()));
  },
};

export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  plugins: [listPackages],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../dist/web",
    emptyOutDir: true,
    target: "es2022",
    // The page's policy allows no data: URLs and no inline scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
