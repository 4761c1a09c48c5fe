import { chmod, readdir, readFile, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { MCP_CLIENTS } from "../../../../src/cli/mcp/clients.js";
import { CLIENT_FILES } from "../client-files.js";
import { McpFixture, pathBelow } from "../mcp-fixture.js";

test("files that exist are extended and restored byte by byte, with modes, and nothing is left", async () => {
  await using fixture = await McpFixture.open();
  const files = CLIENT_FILES.filter(({ file }) => file.scope === "user" && !file.path.includes("profiles"));
  const paths = files.map((each) => pathBelow(fixture.home, each));
  for (const [at, path] of paths.entries()) {
    await fixture.write(path, files[at]?.text ?? "");
    await chmod(path, 0o640);
  }
  const clients = files.map(({ client }) => client);
  const preview = await fixture.mcp("install", ...clients);
  expect(preview).toMatchObject({ code: 0, stderr: "holdfast: nothing was changed; --apply does it\n" });
  for (const [at, path] of paths.entries()) {
    expect(preview.stdout).toContain(`--- ${path}\n+++ ${path}\n@@ `);
    expect(await readFile(path, "utf8")).toBe(files[at]?.text);
  }
  expect((await fixture.mcp("install", ...clients, "--apply")).code).toBe(0);
  for (const path of paths) {
    expect(await readFile(path, "utf8")).toContain(join(fixture.home, "state/native/bin/holdfast"));
    expect((await stat(path)).mode & 0o777).toBe(0o640);
  }
  expect(
    (await fixture.mcp("install", ...clients)).stdout.match(/holdfast stays as it is: installed already/g),
  ).toHaveLength(clients.length);
  expect((await fixture.mcp("install", ...clients, "--undo", "--apply")).code).toBe(0);
  for (const [at, path] of paths.entries()) {
    expect(await readFile(path, "utf8")).toBe(files[at]?.text);
    expect((await readdir(dirname(path))).filter((name) => /backup|tmp/.test(name))).toEqual([]);
  }
});

test("files that are missing are made, readable by the user alone, and removed again", async () => {
  await using fixture = await McpFixture.open();
  const preview = await fixture.mcp("install", ...MCP_CLIENTS);
  expect(preview.stdout.match(/^@@ -0,0 \+1/gm)).toHaveLength(MCP_CLIENTS.length);
  const { stderr } = await fixture.mcp("install", ...MCP_CLIENTS, "--apply");
  const made = stderr.split("\n").flatMap((line) => /^holdfast: made (.*)\. Restart/.exec(line)?.[1] ?? []);
  expect(made).toHaveLength(MCP_CLIENTS.length);
  for (const path of made) expect((await stat(path)).mode & 0o777).toBe(0o600);
  await fixture.mcp("install", ...MCP_CLIENTS, "--undo", "--apply");
  for (const path of made) await expect(stat(path)).rejects.toThrow("ENOENT");
});

test("a file of a project has a command that works for others, too", async () => {
  await using fixture = await McpFixture.open();
  await fixture.mcp("install", "claude", "--project", "--apply");
  expect(JSON.parse(await readFile(join(fixture.project, ".mcp.json"), "utf8"))).toEqual({
    mcpServers: { holdfast: { type: "stdio", command: "holdfast", args: ["mcp"] } },
  });
  const { code, stderr } = await fixture.mcp("install", "claude-desktop", "--project", "--apply");
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: "holdfast: Claude Desktop has no configuration file for a project; nothing was changed\n",
  });
});

test("the session and its exec rules are part of the command, in the order given", async () => {
  await using fixture = await McpFixture.open();
  const rules = ["--deny", "rm ...", "--allow", "*"];
  await fixture.mcp("install", "opencode", "--session", "review", ...rules, "--project", "--apply");
  expect(JSON.parse(await readFile(join(fixture.project, "opencode.json"), "utf8"))).toEqual({
    mcp: {
      holdfast: {
        type: "local",
        command: ["holdfast", "mcp", "--session", "review", ...rules],
        enabled: true,
      },
    },
  });
});

test("--json says what is changed", async () => {
  await using fixture = await McpFixture.open();
  const { stdout } = await fixture.mcp("install", "codex", "--json");
  expect(JSON.parse(stdout)).toEqual([
    {
      ...{ client: "codex", scope: "user", path: join(fixture.user, ".codex/config.toml"), changed: false },
      servers: [{ name: "holdfast", keys: ["mcp_servers", "holdfast"], change: true, reason: null }],
    },
  ]);
});
