// `npm run soak`: bundles test/soak and starts it in a PID namespace of its own. Run `npm run build` before.
//
// Usage: npm run soak -- --help

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { commandInNamespace, findNamespace } from "./namespace.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
process.chdir(root);
if (!existsSync("dist/bundle/main.cjs")) {
  console.error("dist/ is missing: run npm run build");
  process.exit(1);
}
// The name has the pid, because another soak may bundle the same sources at the same time.
const program = join(root, "build/soak", `program-${process.pid}`);
await bundleSoak(program);
const namespace = findNamespace();
if (namespace.unshare === null) {
  console.error(
    "the soak needs a PID namespace of its own (unshare, on Linux), and this machine allows none",
  );
  process.exit(1);
}
const inner = [process.execPath, "--enable-source-maps", join(program, "main.js"), ...process.argv.slice(2)];
const [command, ...rest] = commandInNamespace(namespace, inner);
const env = { ...process.env, HOLDFAST_TEST_NAMESPACE: namespace.name, SOAK_PROGRAM: program };
for (const name of Object.keys(env)) if (/^HOLDFAST_(?!TEST_NAMESPACE$)/.test(name)) delete env[name];
const child = spawn(command, rest, { stdio: "inherit", env });
// Ctrl-C reaches the whole group. unshare ignores SIGTERM, and ends everything in its namespace when it is killed.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => child.kill("SIGKILL"));
child.on("exit", (code) => {
  process.exitCode = code ?? 1;
});

async function bundleSoak(dir) {
  const build = await rolldown({
    cwd: root,
    input: { main: "test/soak/main.ts", worker: "test/soak/simulate/worker.ts" },
    platform: "node",
    transform: { target: "es2023" },
    resolve: { extensionAlias: { ".js": [".ts", ".js"] } },
    // Installed packages; the helpers of the bundler are bundled.
    external: (id) => /^(?!\0|test\/|@oxc-project\/)[a-z@]/.test(id),
  });
  await build.write({ dir, format: "esm", sourcemap: true });
  await build.close();
}
