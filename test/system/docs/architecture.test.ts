import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

/** The rows of the maps in docs/architecture.md: a folder, and the names of files and sub-folders in it. */
const rows = readFileSync("docs/architecture.md", "utf8")
  .split("\n")
  .filter((line) => line.startsWith("| `"))
  .map((line) => {
    const [first = "", ...names] = [...line.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code);
    return { folder: first.endsWith("/") ? first.slice(0, -1) : dirname(first), names };
  });

test.each(["src", "anchor"])("the map has a row for each folder of %s, or for its sub-folders", (root) => {
  const inProse = new Set(["src/defaults", "src/errors"]);
  const folders = readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => join(root, name))
    .filter((folder) => !inProse.has(folder));
  expect(folders.filter((folder) => !rows.some((row) => `${row.folder}/`.startsWith(`${folder}/`)))).toEqual(
    [],
  );
});

test("the files and sub-folders that a row of the map names are in its folder", () => {
  const isName = (name: string): boolean => /^[\w./-]+(?:\.(?:c|h|ts)|\/)$/.test(name);
  const missing = rows.flatMap(({ folder, names }) => {
    const below = existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: "utf8" }) : [];
    const found = (name: string): boolean =>
      existsSync(name) ||
      below.some((path) => `/${path}${name.endsWith("/") ? "/" : ""}`.endsWith(`/${name}`));
    return names.filter((name) => isName(name) && !found(name)).map((name) => `${folder}: ${name}`);
  });
  expect(rows.length).toBeGreaterThan(30);
  expect(missing).toEqual([]);
});
