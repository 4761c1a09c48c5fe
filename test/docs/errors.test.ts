import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";

test("docs/errors.md lists every error code there is, and no other", async () => {
  const source = await readFile("src/errors.ts", "utf8");
  const page = await readFile("docs/errors.md", "utf8");
  const codes = [...source.matchAll(/(?:super\(\s*|code = )"([A-Z_]+)"/g)].map(([, code]) => code);
  const listed = [...page.matchAll(/^\| `([A-Z_]+)`/gm)].map(([, code]) => code);
  expect(codes.length).toBeGreaterThan(5);
  expect(new Set(listed)).toEqual(new Set(codes));
});
