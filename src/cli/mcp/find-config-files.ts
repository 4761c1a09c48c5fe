import { readdirSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { type ConfigFile, configFiles, type McpClient } from "./clients.js";

/** Where the clients of this user look, from the current directory. Each file once, also if it has several names. */
export function findConfigFiles(clients: readonly McpClient[]): ConfigFile[] {
  const places = {
    ...{ platform: process.platform, env: process.env, home: homedir(), project: process.cwd() },
    directoriesIn,
  };
  const files = clients.flatMap((client) => configFiles(client, places));
  const targets = files.map(({ path }) => targetOf(path));
  // In the home directory, a project's file may be the user's.
  return files.filter((_, at) => targets.lastIndexOf(targets[at] ?? "") === at);
}

function directoriesIn(path: string): string[] {
  try {
    const entries = readdirSync(path, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  } catch {
    return [];
  }
}

function targetOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
