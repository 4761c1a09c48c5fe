import { statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { BadInput } from "../errors.js";
import { requireTrustedPath } from "../home/path-trust.js";

/** `$HOLDFAST_CONFIG`, else the platform's place for it. */
export function configPath(
  env: Readonly<Record<string, string | undefined>> = process.env,
  platform: NodeJS.Platform = process.platform,
): string {
  const chosen = env["HOLDFAST_CONFIG"];
  if (chosen !== undefined && chosen !== "") return chosen;
  const home = env["HOME"] ?? "";
  if (platform === "win32") return join(env["APPDATA"] ?? home, "holdfast", "config.toml");
  if (platform === "darwin") return join(home, "Library", "Application Support", "holdfast", "config.toml");
  const xdg = env["XDG_CONFIG_HOME"];
  return join(xdg !== undefined && isAbsolute(xdg) ? xdg : join(home, ".config"), "holdfast", "config.toml");
}

function isMissing(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) === undefined;
  } catch {
    // The file cannot be examined; reading it reports why.
    return false;
  }
}

/**
 * A missing file counts as empty. Rejects with UnsafePath if a user other than this one or root could have written the
 * file, because it names programs to run and hosts that receive secrets.
 */
export async function readConfigFile(path: string): Promise<string> {
  // Without a file nothing is read, so its directory does not matter.
  if (process.env["HOLDFAST_CONFIG"] !== path && isMissing(path)) return "";
  requireTrustedPath(path, `the config file ${path}`);
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new BadInput(
      "config",
      `the config file ${path} cannot be read (${(error as Error).message}); nothing was changed`,
    );
  }
}
