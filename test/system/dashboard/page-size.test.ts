import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";

const files = readdirSync("dist/web", { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => join(entry.parentPath, entry.name));

test("the whole page takes at most 400 KB compressed", () => {
  const bytes = files.reduce((sum, file) => sum + gzipSync(readFileSync(file)).length, 0);
  expect(bytes).toBeGreaterThan(5_000);
  expect(bytes).toBeLessThanOrEqual(400_000);
});

test("the page names no other site to load from", () => {
  // Names of XML namespaces and links in messages of libraries are never requested; see also the test in the browser.
  const loads =
    /(?:src|href)=["']?(?:https?:)?\/\/|url\(["']?(?:https?:)?\/\/|@import\s+["'](?:https?:)?\/\//;
  for (const file of files.filter((each) => [".html", ".css"].includes(extname(each))))
    expect(readFileSync(file, "utf8"), file).not.toMatch(loads);
});
