import { isAbsolute, join } from "node:path";
import type { ConfigFormat } from "./file/config-document.js";

/** The MCP clients whose configuration Holdfast knows, by the names of the command line. */
export const MCP_CLIENTS = [
  "claude",
  "claude-desktop",
  "codex",
  "gemini",
  "opencode",
  "cursor",
  "vscode",
] as const;
export type McpClient = (typeof MCP_CLIENTS)[number];

export const CLIENT_NAMES: Readonly<Record<McpClient, string>> = {
  claude: "Claude Code",
  "claude-desktop": "Claude Desktop",
  codex: "Codex",
  gemini: "Gemini CLI",
  opencode: "OpenCode",
  cursor: "Cursor",
  vscode: "VS Code",
};

/** A file in which a client looks for MCP servers. It need not exist. */
export interface ConfigFile {
  readonly client: McpClient;
  readonly scope: "user" | "project";
  readonly path: string;
  readonly format: ConfigFormat;
  /** The tables of servers by name; `*` stands for every key. The first is where a server is added. */
  readonly tables: readonly (readonly string[])[];
}

/** The places of one machine in which the clients look for their files. */
export interface Places {
  readonly platform: NodeJS.Platform;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  /** The directory of the project. */
  readonly project: string;
  /** The directories in a directory; none if there is no such directory. */
  readonly directoriesIn: (path: string) => readonly string[];
}

/** The files of a client, as its documentation names them: docs/guides/mcp.md. */
export function configFiles(client: McpClient, places: Places): ConfigFile[] {
  const { home, project } = places;
  const file = (
    scope: ConfigFile["scope"],
    path: string,
    ...tables: readonly (readonly string[])[]
  ): ConfigFile => ({ client, scope, path, format: path.endsWith(".toml") ? "toml" : "json", tables });
  switch (client) {
    case "claude":
      return [
        file("project", join(project, ".mcp.json"), ["mcpServers"]),
        // The second table has the servers that only one project of this user sees.
        file(
          "user",
          join(chosenPath(places, "CLAUDE_CONFIG_DIR") ?? home, ".claude.json"),
          ["mcpServers"],
          ["projects", "*", "mcpServers"],
        ),
      ];
    case "claude-desktop":
      return [file("user", join(appData(places), "Claude", "claude_desktop_config.json"), ["mcpServers"])];
    case "codex":
      return [
        file("project", join(project, ".codex", "config.toml"), ["mcp_servers"]),
        file("user", join(chosenPath(places, "CODEX_HOME") ?? join(home, ".codex"), "config.toml"), [
          "mcp_servers",
        ]),
      ];
    case "gemini":
      return [
        file("project", join(project, ".gemini", "settings.json"), ["mcpServers"]),
        file("user", join(chosenPath(places, "GEMINI_CLI_HOME") ?? home, ".gemini", "settings.json"), [
          "mcpServers",
        ]),
      ];
    case "opencode":
      // Version 2 has the servers one level deeper.
      return openCodeFiles(places).map(([scope, path]) => file(scope, path, ["mcp"], ["mcp", "servers"]));
    case "cursor":
      return [
        file("project", join(project, ".cursor", "mcp.json"), ["mcpServers"]),
        file("user", join(home, ".cursor", "mcp.json"), ["mcpServers"]),
      ];
    case "vscode":
      return [
        file("project", join(project, ".vscode", "mcp.json"), ["servers"]),
        ...vsCodeProfiles(places).map((path) => file("user", join(path, "mcp.json"), ["servers"])),
      ];
  }
}

/** The directory of the default profile, and of each other one. */
function vsCodeProfiles(places: Places): string[] {
  const user = join(appData(places), "Code", "User");
  const others = join(user, "profiles");
  return [user, ...places.directoriesIn(others).map((name) => join(others, name))];
}

/** OpenCode merges all of them. The directory or file that a variable names is read in addition. */
function openCodeFiles(places: Places): (readonly [ConfigFile["scope"], string])[] {
  const { env, home, project } = places;
  const directory = (
    scope: ConfigFile["scope"],
    path: string,
  ): (readonly [ConfigFile["scope"], string])[] => [
    [scope, join(path, "opencode.json")],
    [scope, join(path, "opencode.jsonc")],
  ];
  const chosenFile = chosenPath(places, "OPENCODE_CONFIG");
  const chosen = chosenPath(places, "OPENCODE_CONFIG_DIR");
  return [
    ...directory("project", project),
    ...directory("project", join(project, ".opencode")),
    // On every platform, also on macOS and Windows.
    ...directory("user", join(xdgConfig(env, home), "opencode")),
    ...directory("user", join(home, ".opencode")),
    ...(chosenFile === undefined ? [] : [["user", chosenFile] as const]),
    ...(chosen === undefined ? [] : directory("user", chosen)),
  ];
}

/** The directory in which desktop programs keep their settings. */
function appData({ platform, env, home }: Places): string {
  if (platform === "win32") return env["APPDATA"] ?? join(home, "AppData", "Roaming");
  if (platform === "darwin") return join(home, "Library", "Application Support");
  return xdgConfig(env, home);
}

function xdgConfig(env: Places["env"], home: string): string {
  const chosen = env["XDG_CONFIG_HOME"];
  return chosen !== undefined && isAbsolute(chosen) ? chosen : join(home, ".config");
}

/** The path in a variable of the environment. */
function chosenPath({ env }: Places, variable: string): string | undefined {
  const chosen = env[variable];
  return chosen === undefined || chosen === "" ? undefined : chosen;
}
