// An MCP client that starts the servers of an `.mcp.json` with the official SDK, as agents do. Usage: sdk-client.mjs <file>
// An entry may have the key `busy`: a tool, and its input, that is called at the end of the start.
// It prints the names of the servers that answer, and then does what a line of its stdin says: close, crash.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// The servers bring the SDK that they are made with.
const require = createRequire(
  createRequire(import.meta.url).resolve("@modelcontextprotocol/server-everything/dist/index.js"),
);
const load = (name) =>
  import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/client/${name}.js`)).href);
const { Client } = await load("index");
const { StdioClientTransport } = await load("stdio");

const { mcpServers } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const clients = await Promise.all(
  Object.entries(mcpServers).map(async ([name, { command, args, env, busy }]) => {
    const client = new Client({ name: "sdk-client", version: "0" });
    await client.connect(new StdioClientTransport({ command, args, env, stderr: "ignore" }), {
      timeout: 300_000,
    });
    await client.listTools();
    // A call that does not return: the server has work of its own, and does not end with its input.
    if (busy !== undefined)
      client
        .callTool({ name: busy.tool, arguments: busy.input }, undefined, { timeout: 3_600_000 })
        .catch(() => undefined);
    return { name, client };
  }),
);
console.log(`ready: ${clients.map(({ name }) => name).join(" ")}`);

for await (const line of createInterface({ input: process.stdin })) {
  if (line === "crash") process.abort();
  if (line !== "close") continue;
  await Promise.all(clients.map(({ client }) => client.close()));
  process.exit(0);
}
