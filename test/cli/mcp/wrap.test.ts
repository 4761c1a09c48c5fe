import { chmod, readdir, readFile, readlink, stat, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { CLIENT_FILES } from "./client-files.js";
import { McpFixture, pathBelow } from "./mcp-fixture.js";

const SERVER = '{ "mcpServers": { "a": { "command": "npx", "args": ["-y", "a"] } } }\n';

test("the files of all clients are wrapped and restored byte by byte, with modes, and nothing is left", async () => {
  await using fixture = await McpFixture.open();
  const files = CLIENT_FILES.map((each) => ({ path: pathBelow(fixture.home, each), text: each.text }));
  for (const { path, text } of files) {
    await fixture.write(path, text);
    await chmod(path, 0o640);
  }
  const preview = await fixture.mcp("wrap");
  expect(preview).toMatchObject({ code: 0, stderr: "holdfast: nothing was changed; --apply does it\n" });
  for (const { path, text } of files) {
    expect(preview.stdout).toContain(`--- ${path}\n+++ ${path}\n@@ `);
    expect(await readFile(path, "utf8")).toBe(text);
  }
  expect((await fixture.mcp("wrap", "--apply")).code).toBe(0);
  for (const { path, text } of files) {
    expect(await readFile(path, "utf8")).toContain(join(fixture.home, "state/native/bin/holdfast"));
    expect(await readFile(`${path}.holdfast-backup`, "utf8")).toBe(text);
    for (const each of [path, `${path}.holdfast-backup`]) expect((await stat(each)).mode & 0o777).toBe(0o640);
  }
  expect((await fixture.mcp("wrap")).stderr).toBe("");
  expect((await fixture.mcp("wrap", "--undo", "--apply")).code).toBe(0);
  for (const { path, text } of files) {
    expect(await readFile(path, "utf8")).toBe(text);
    expect((await stat(path)).mode & 0o777).toBe(0o640);
    expect((await readdir(dirname(path))).filter((name) => /backup|tmp/.test(name))).toEqual([]);
  }
});

test("a symbolic link stays one, and its target is changed", async () => {
  await using fixture = await McpFixture.open();
  const target = await fixture.write(join(fixture.user, "dotfiles/claude.json"), SERVER);
  const link = join(fixture.project, ".mcp.json");
  await symlink("../home/dotfiles/claude.json", link);
  await fixture.mcp("wrap", "claude", "--apply");
  expect(await readlink(link)).toBe("../home/dotfiles/claude.json");
  expect(await readFile(target, "utf8")).toContain("native/bin/holdfast");
  await fixture.mcp("wrap", "--undo", "--apply");
  expect(await readFile(target, "utf8")).toBe(SERVER);
});

test("a file that cannot be read is named with its line, and no file is changed", async () => {
  await using fixture = await McpFixture.open();
  const good = await fixture.write(join(fixture.project, ".mcp.json"), SERVER);
  const bad = await fixture.write(join(fixture.project, ".cursor/mcp.json"), '{\n  "mcpServers": [\n');
  const { code, stdout, stderr } = await fixture.mcp("wrap", "--apply");
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toBe(`holdfast: ${bad}:2: a closing bracket is missing; nothing was changed\n`);
  expect(await readFile(good, "utf8")).toBe(SERVER);
  expect((await fixture.mcp("wrap", "claude", "--apply")).code).toBe(0);
  expect(await readFile(good, "utf8")).not.toBe(SERVER);
});

test("only the named servers of the named clients are changed", async () => {
  await using fixture = await McpFixture.open();
  const two = '{ "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" } } }';
  const claude = await fixture.write(join(fixture.project, ".mcp.json"), two);
  const cursor = await fixture.write(join(fixture.project, ".cursor/mcp.json"), two);
  await fixture.mcp("wrap", "claude", "--server", "b", "--apply");
  expect(await readFile(cursor, "utf8")).toBe(two);
  expect(await readFile(claude, "utf8")).toMatch(
    /"a": \{ "command": "a" \}, "b": \{ "command": ".*holdfast"/,
  );
  const { code, stderr } = await fixture.mcp("wrap", "--server", "c", "--apply");
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: "holdfast: no configuration file has a server c; nothing was changed\n",
  });
});

test("--json says for each server whether it changes, and why not", async () => {
  await using fixture = await McpFixture.open();
  const path = await fixture.write(
    join(fixture.project, ".vscode/mcp.json"),
    '{ "servers": { "a": { "command": "a" }, "b": { "url": "https://b" } } }',
  );
  const { stdout } = await fixture.mcp("wrap", "vscode", "--json");
  expect(JSON.parse(stdout)).toEqual([
    {
      ...{ client: "vscode", scope: "project", path, changed: false },
      servers: [
        { name: "a", keys: ["servers", "a"], change: true, reason: null },
        { name: "b", keys: ["servers", "b"], change: false, reason: "remote" },
      ],
    },
  ]);
});

test("mcp wrap reports that no configuration file has MCP servers", async () => {
  await using fixture = await McpFixture.open();
  expect(await fixture.mcp("wrap", "--apply")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: "holdfast: no configuration file of these clients has MCP servers\n",
  });
});
