import { statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { BadInput } from "../errors.js";
import { requireTrustedPath } from "./path-trust.js";

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
    // It cannot be looked at: reading it says why.
    return false;
  }
}

/**
 * A file that is not there says nothing: it is empty. Rejects with UnsafePath when a user other than this one or root
 * could have written it: it names programs that are run and hosts that are sent secrets.
 */
export async function readConfigFile(path: string): Promise<string> {
  // Without a file nothing is read, whoever could make one.
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
