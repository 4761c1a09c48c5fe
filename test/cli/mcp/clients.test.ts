import { expect, test } from "vitest";
import { configFiles, type McpClient, type Places } from "../../../src/cli/mcp/clients.js";
import { PLACES } from "./client-files.js";

function userFiles(
  client: McpClient,
  env: Places["env"] = {},
  platform: Places["platform"] = "linux",
): string[] {
  const files = configFiles(client, { ...PLACES, env, platform });
  return files.filter(({ scope }) => scope === "user").map(({ path }) => path);
}

test.each<[McpClient, Record<string, string>, readonly string[]]>([
  ["claude", { CLAUDE_CONFIG_DIR: "/c" }, ["/c/.claude.json"]],
  ["codex", { CODEX_HOME: "/c" }, ["/c/config.toml"]],
  ["gemini", { GEMINI_CLI_HOME: "/g" }, ["/g/.gemini/settings.json"]],
  ["gemini", { GEMINI_CLI_HOME: "" }, ["/home/ada/.gemini/settings.json"]],
  ["vscode", { XDG_CONFIG_HOME: "/x" }, ["/x/Code/User/mcp.json", "/x/Code/User/profiles/-1b2/mcp.json"]],
])("%s looks where its variables point: %o", (client, env, paths) => {
  expect(userFiles(client, env)).toEqual(paths);
});

test("OpenCode reads the directory and the file that its variables name in addition to its own", () => {
  const names = (directory: string): string[] => [
    `${directory}/opencode.json`,
    `${directory}/opencode.jsonc`,
  ];
  expect(userFiles("opencode", { OPENCODE_CONFIG_DIR: "/o", OPENCODE_CONFIG: "/own.json" })).toEqual([
    ...names("/home/ada/.config/opencode"),
    ...names("/home/ada/.opencode"),
    "/own.json",
    ...names("/o"),
  ]);
});

test("desktop programs keep their files where the platform wants them", () => {
  expect(userFiles("claude-desktop", {}, "darwin")).toEqual([
    "/home/ada/Library/Application Support/Claude/claude_desktop_config.json",
  ]);
  expect(userFiles("vscode", { APPDATA: "/roaming" }, "win32")[0]).toBe("/roaming/Code/User/mcp.json");
});
