// A new machine with nothing but Node and npm: the README's install line from the packages in build/packages, a first run,
// an agent, the dashboard, and optionally the tests on a clone. Each step is timed; the first deviation ends it. Needs
// Linux on x64 and root.
//
// Usage: fresh-machine.mjs [--node 22] [--packages build/packages] [--with-tests]
//
//   --with-tests  also `npm ci` and `npm test` on a clone of the committed state, on this machine: a quarter of an hour

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createCleanRoot, removeCleanRoot, runInCleanRoot, whyNoCleanRoot } from "./clean-root.mjs";
import { seconds } from "./inside/steps.mjs";

const checkout = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const { values: options } = parseArgs({
  options: {
    node: { type: "string", default: "22" },
    packages: { type: "string", default: join(checkout, "build/packages") },
    "with-tests": { type: "boolean", default: false },
  },
});
const why = whyNoCleanRoot();
if (why !== null) {
  console.error(`no clean root can be made: ${why}`);
  process.exit(2);
}
const { version } = JSON.parse(readFileSync(join(checkout, "package.json"), "utf8"));
const [, line] = /`(npm install -g [^`]+)`/.exec(readFileSync(join(checkout, "README.md"), "utf8")) ?? [];
if (line === undefined) throw new Error("the README has no line that begins with npm install -g");

console.log("| step | time | |\n|---|---|---|");
const root = createCleanRoot(options.node);
try {
  cpSync(resolve(options.packages), join(root, "checkout/build/packages"), { recursive: true });
  mkdirSync(join(root, "driver"));
  cpSync(join(checkout, "scripts/release/inside"), join(root, "driver"), { recursive: true });
  cpSync(join(checkout, "test/system/docs/agent.mjs"), join(root, "driver/agent.mjs"));
  process.exitCode = await runInCleanRoot(root, "/driver/fresh-machine.mjs", [line, version]);
} finally {
  removeCleanRoot(root);
}
if (options["with-tests"] && process.exitCode === 0) testClone();

function testClone() {
  const directory = mkdtempSync(join(tmpdir(), "hf-clone-"));
  try {
    step("`git clone`", directory, ["git", "clone", "--quiet", `file://${checkout}`, "holdfast"]);
    const clone = join(directory, "holdfast");
    step("`npm ci` (installs and builds)", clone, [
      "npm",
      "ci",
      "--no-audit",
      "--no-fund",
      "--loglevel=error",
    ]);
    step("`npm test`", clone, ["npm", "test"]);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function step(name, cwd, [program, ...args]) {
  const from = performance.now();
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, encoding: "utf8", maxBuffer: 2 ** 28 });
  console.log(`| ${name} | ${seconds(from)} | ${status === 0 ? "" : "FAILED"} |`);
  if (status === 0) return;
  console.error(`${stdout}${stderr}`.slice(-20_000));
  process.exit(1);
}
