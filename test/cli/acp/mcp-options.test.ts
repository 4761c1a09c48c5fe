import { join } from "node:path";
import { expect, test } from "vitest";
import { parseMcpConfig, parseMcpServer, readMcpConfig } from "../../../src/cli/acp/mcp-options.js";

test("a server is given as a name and a command, with variables in front", () => {
  expect(parseMcpServer("files=npx -y 'my server' .")).toEqual({
    name: "files",
    command: "npx",
    args: ["-y", "my server", "."],
    env: [],
  });
  expect(parseMcpServer('db=HOST=a B="x y" ./server --k=v')).toEqual({
    name: "db",
    command: join(process.cwd(), "server"),
    args: ["--k=v"],
    env: [
      { name: "HOST", value: "a" },
      { name: "B", value: "x y" },
    ],
  });
});

test("a URL is a server over http", () => {
  const server = { type: "http", name: "docs", url: "https://docs.example/mcp?a=b", headers: [] };
  expect(parseMcpServer("docs=https://docs.example/mcp?a=b")).toEqual(server);
});

test.each(["", "files", "=x", "files=", "files='x", "files=A=b", "docs=http://"])(
  "a wrong server is refused: %j",
  (text) => {
    expect(() => parseMcpServer(text)).toThrow(expect.objectContaining({ code: "BAD_INPUT" }));
  },
);

test("a file in the common shape is read, with variables of the caller", () => {
  const servers = parseMcpConfig(
    {
      mcpServers: {
        files: { command: "${BIN:-files}", args: ["${DIR}"], env: { KEY: "${KEY}" }, disabled: false },
        docs: {
          type: "streamable-http",
          url: "https://docs.example",
          headers: { Authorization: "Bearer ${KEY}" },
        },
        old: { type: "sse", url: "https://old.example/sse" },
      },
      other: true,
    },
    { DIR: "/srv", KEY: "k" },
    "servers.json",
  );
  expect(servers).toEqual([
    { name: "files", command: "files", args: ["/srv"], env: [{ name: "KEY", value: "k" }] },
    {
      type: "http",
      name: "docs",
      url: "https://docs.example",
      headers: [{ name: "Authorization", value: "Bearer k" }],
    },
    { type: "sse", name: "old", url: "https://old.example/sse", headers: [] },
  ]);
});

test.each([
  [{}, "servers.json has no object mcpServers"],
  [{ mcpServers: { a: {} } }, "either command or url"],
  [{ mcpServers: { a: { command: "x", url: "https://x" } } }, "either command or url"],
  [{ mcpServers: { a: { command: "x", args: [1] } } }, "servers.json: mcpServers.a.args.0"],
  [{ mcpServers: { a: { command: "${NOT_SET}" } } }, "NOT_SET, which is not set"],
  [{ mcpServers: { a: { url: "ftp://x" } } }, "URL of the MCP server a"],
])("a wrong file is refused: %j", (content, why) => {
  expect(() => parseMcpConfig(content, {}, "servers.json")).toThrow(why);
});

test("a file that cannot be read is named", () => {
  expect(() => readMcpConfig("/no/such/file", {})).toThrow("/no/such/file cannot be read");
});
