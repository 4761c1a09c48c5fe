// The C sources of the anchor. Each system has a folder of anchor/os; anchor/client is for POSIX systems;
// all other files are for every system.

import { readdirSync } from "node:fs";
import { join, sep } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder that every #include "…" starts at. */
export const anchorDirectory = fileURLToPath(new URL("../anchor", import.meta.url));

/** Which folders of anchor/os belong to a system, besides the interface. */
const FOLDERS = {
  linux: ["posix", "linux"],
  darwin: ["posix", "darwin"],
  win32: ["windows"],
};

/** Other systems are taken for POSIX systems. */
const OTHER = ["posix", "other"];

/** Paths of the files with this suffix (".c" or ".h") that a system needs. */
export function anchorSources(system, suffix) {
  return readdirSync(anchorDirectory, { recursive: true })
    .filter((path) => path.endsWith(suffix) && belongsTo(system, path.split(sep)))
    .sort((one, other) => one.localeCompare(other))
    .map((path) => join(anchorDirectory, path));
}

function belongsTo(system, [folder, child, ...rest]) {
  if (folder === "client") return system !== "win32";
  if (folder !== "os" || rest.length === 0 || child === "interface") return true;
  return (FOLDERS[system] ?? OTHER).includes(child);
}
