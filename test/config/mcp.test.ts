import { expect, test } from "vitest";
import { resolveMcpServers } from "../../src/config/mcp.js";
import { parseConfig } from "../../src/config/schema.js";
import { resolveSettings } from "../../src/config/resolve-settings.js";

const text = `
[mcp.files]
command = "files"
args = ["."]
env = { API_KEY = "sk-secret" }
[mcp.docs]
url = "https://docs.example/mcp"
headers = { Authorization = "Bearer secret" }
agents = ["codex"]
`;

test("a session gets the servers of the config for its agent", () => {
  const { mcp } = parseConfig(text, "c.toml");
  const files = {
    name: "files",
    command: "files",
    args: ["."],
    env: [{ name: "API_KEY", value: "sk-secret" }],
  };
  expect(resolveMcpServers(mcp, null)).toEqual([files]);
  expect(resolveMcpServers(mcp, "codex")).toEqual([
    files,
    {
      type: "http",
      name: "docs",
      url: "https://docs.example/mcp",
      headers: [{ name: "Authorization", value: "Bearer secret" }],
    },
  ]);
});

test("a requested server replaces one of the config with the same name", () => {
  const own = { name: "files", command: "mine", args: [], env: [] };
  expect(resolveMcpServers(parseConfig(text, "c.toml").mcp, "gemini", [own])).toEqual([own]);
});

test("the settings show only the names of servers", () => {
  const { entries } = resolveSettings(text, "/nowhere/c.toml", {}, {});
  expect(entries.find(({ key }) => key === "mcp")?.value).toEqual(["files", "docs"]);
  expect(JSON.stringify(entries)).not.toContain("secret");
});

test.each([
  ["[mcp.a]", "needs either command or url"],
  ['[mcp.a]\ncommand = "x"\nurl = "https://x"', "needs either command or url"],
  ['[mcp.a]\nurl = "ftp://x"', "must be a URL with http or https"],
  ['[mcp.a]\ncomand = "x"', "did you mean command?"],
])("a wrong server is refused: %s", (wrong, why) => {
  expect(() => parseConfig(wrong, "c.toml")).toThrow(why);
});
