// Installs the packages in build/packages into a clean prefix on each version of Node, as root and as a user, with and
// without scripts, from the network and offline, and runs a command. The first deviation ends it. Needs Linux on x64 and
// root; Node comes from npm.
//
// Usage: install-matrix.mjs [--node 20,22,24] [--packages build/packages]

import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import {
  createCleanRoot,
  fillCache,
  removeCleanRoot,
  runInCleanRoot,
  whyNoCleanRoot,
} from "./clean-root.mjs";

const checkout = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const { values: options } = parseArgs({
  options: {
    node: { type: "string", default: "20,22,24" },
    packages: { type: "string", default: join(checkout, "build/packages") },
  },
});
const why = whyNoCleanRoot();
if (why !== null) {
  console.error(`no clean root can be made: ${why}`);
  process.exit(2);
}
const packages = resolve(options.packages);
const tarballs = readdirSync(packages)
  .filter((name) => /^holdfast-(\d|anchor-linux-x64-).*\.tgz$/.test(name))
  .map((name) => join(packages, name));
if (tarballs.length !== 2) throw new Error(`${packages} has not one holdfast and one anchor for linux-x64`);

const cache = mkdtempSync(join(tmpdir(), "hf-cache-"));
try {
  fillCache(tarballs, cache);
  console.log(
    "| Node | user | `--ignore-scripts` | `--offline` | install | first run | |\n|---|---|---|---|---|---|---|",
  );
  for (const major of options.node.split(",")) {
    process.exitCode = await tryNode(major);
    if (process.exitCode !== 0) break;
  }
} finally {
  rmSync(cache, { recursive: true, force: true });
}

async function tryNode(major) {
  const root = createCleanRoot(major);
  try {
    for (const each of ["packages", "driver"]) mkdirSync(join(root, each));
    for (const each of tarballs) cpSync(each, join(root, "packages", each.slice(packages.length)));
    cpSync(cache, join(root, "npm-cache"), { recursive: true });
    cpSync(join(checkout, "scripts/release/inside"), join(root, "driver"), { recursive: true });
    return await runInCleanRoot(root, "/driver/install-matrix.mjs");
  } finally {
    removeCleanRoot(root);
  }
}
