// npm runs this as `prepare`: a build, unless the last one is newer than all it was made of. npm prepares a checkout
// when it is installed, and again when `npx` runs its command.
import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { npm } from "./npm.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const sources = ["anchor", "scripts", "src", "web", "package.json", "tsconfig.json", "tsconfig.build.json"];
/** The last file that a build writes. */
const built = join(root, "dist/cli/main.js");

if (!existsSync(built) || newestOf(sources.map((name) => join(root, name))) > statSync(built).mtimeMs)
  process.exitCode = npm(["run", "build"], { cwd: root }).status ?? 1;

function newestOf(paths) {
  return Math.max(
    ...paths.map((path) => {
      const status = statSync(path);
      // The time of a directory changes when a file in it is added or removed.
      const inside = status.isDirectory() ? readdirSync(path).map((name) => join(path, name)) : [];
      return Math.max(status.mtimeMs, newestOf(inside));
    }),
  );
}
