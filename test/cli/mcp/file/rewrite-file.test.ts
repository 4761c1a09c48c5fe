import { chmod, mkdir, mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type LoadedFile, loadFile, rewriteFile } from "../../../../src/cli/mcp/file/rewrite-file.js";

async function openFile(text: string): Promise<{ directory: string; path: string; loaded: LoadedFile }> {
  const directory = await mkdtemp(join(tmpdir(), "clients-"));
  const path = join(directory, "mcp.json");
  await writeFile(path, text);
  const loaded = await loadFile(path, "json");
  return { directory, path, loaded: loaded ?? expect.fail("there is no file") };
}

test("a file that its client has changed meanwhile stays, without a backup", async () => {
  const { directory, path, loaded } = await openFile('{ "a": 1 }');
  await writeFile(path, '{ "a": 2 }');
  await expect(rewriteFile(path, loaded, "{}", { backup: true })).rejects.toThrow(
    `${path} was changed by another program meanwhile; it was not changed here`,
  );
  expect(await readFile(path, "utf8")).toBe('{ "a": 2 }');
  expect(await readdir(directory)).toEqual(["mcp.json"]);
});

test("a file that cannot be replaced stays, and neither a backup nor a temporary file is left", async () => {
  const { directory, path, loaded } = await openFile("{}");
  // Nothing can replace a directory with something in it.
  await mkdir(join(directory, "mcp.json.holdfast-backup", "x"), { recursive: true });
  await expect(rewriteFile(path, loaded, '{ "b": 1 }', { backup: true })).rejects.toThrow(
    `${path}.holdfast-backup cannot be written`,
  );
  expect(await readFile(path, "utf8")).toBe("{}");
  expect(await readdir(directory)).toEqual(["mcp.json", "mcp.json.holdfast-backup"]);
});

test.skipIf(process.getuid?.() === 0)("a file without permission to write is refused", async () => {
  const { directory, path, loaded } = await openFile("{}");
  await chmod(path, 0o444);
  await expect(rewriteFile(path, loaded, '{ "b": 1 }', { backup: true })).rejects.toThrow(
    "cannot be written",
  );
  expect(await readdir(directory)).toEqual(["mcp.json"]);
});
