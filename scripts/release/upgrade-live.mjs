// Upgrades from the packages of an earlier version to those in build/packages while runs, a service and a turn of an agent
// are live, and back. Needs Linux on x64 and root.
//
// Usage: upgrade-live.mjs (--from directory | --commit <commit>) [--packages build/packages] [--node 22]
//
//   --from    packages of the earlier version
//   --commit  build them from this commit, with its own dependencies

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createCleanRoot, removeCleanRoot, runInCleanRoot, whyNoCleanRoot } from "./clean-root.mjs";

const checkout = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const { values: options } = parseArgs({
  options: {
    from: { type: "string" },
    commit: { type: "string" },
    packages: { type: "string", default: join(checkout, "build/packages") },
    node: { type: "string", default: "22" },
  },
});
const why = whyNoCleanRoot();
if (why !== null || (options.from === undefined) === (options.commit === undefined)) {
  console.error(why === null ? "give either --from or --commit" : `no clean root can be made: ${why}`);
  process.exit(2);
}
const scratch = mkdtempSync(join(tmpdir(), "hf-upgrade-"));
const root = createCleanRoot(options.node);
try {
  const former = options.from === undefined ? packCommit(options.commit) : resolve(options.from);
  const packages = resolve(options.packages);
  cpSync(former, join(root, "old"), { recursive: true });
  cpSync(packages, join(root, "new"), { recursive: true });
  mkdirSync(join(root, "driver"));
  cpSync(join(checkout, "scripts/release/inside"), join(root, "driver"), { recursive: true });
  console.log("| step | time | |\n|---|---|---|");
  const versions = [former, packages].map(versionIn);
  process.exitCode = await runInCleanRoot(root, "/driver/upgrade-live.mjs", versions);
} finally {
  removeCleanRoot(root);
  rmSync(scratch, { recursive: true, force: true });
}

function packCommit(commit) {
  const clone = join(scratch, "holdfast");
  const to = join(scratch, "packages");
  must(checkout, ["git", "clone", "--quiet", "--no-checkout", `file://${checkout}`, clone]);
  must(clone, ["git", "checkout", "--quiet", commit]);
  must(clone, ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]);
  must(clone, [process.execPath, "scripts/pack.mjs", "--built", "--target", "linux-x64", "--to", to]);
  return to;
}

function must(cwd, [program, ...args]) {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, encoding: "utf8", maxBuffer: 2 ** 28 });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} failed\n${stdout}${stderr}`);
}

function versionIn(directory) {
  const found = readdirSync(directory).flatMap((name) => /^holdfast-(\d[^-]*)\.tgz$/.exec(name)?.[1] ?? []);
  if (found.length !== 1) throw new Error(`${directory} has ${found.length} packages of holdfast`);
  return found[0];
}
