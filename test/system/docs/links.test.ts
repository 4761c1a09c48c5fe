import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { expect, test } from "vitest";
import { inlineCode, pages } from "./pages.js";

test.each([...pages, "CHANGELOG.md"])("%s links to pages and headings that exist", (page) => {
  const broken = [...withoutCodeBlocks(page).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, link = ""]) => link)
    .filter((link) => !/^https?:/.test(link))
    .filter((link) => {
      const [path = "", heading] = link.split("#");
      const target = path === "" ? page : join(dirname(page), path);
      if (!existsSync(target)) return true;
      return heading !== undefined && !headingsOf(target).has(heading);
    });
  expect(broken).toEqual([]);
});

test("every page is linked from docs/README.md", () => {
  const index = readFileSync("docs/README.md", "utf8");
  const others = pages.filter((page) => page.startsWith("docs/") && page !== "docs/README.md");
  expect(others.filter((page) => !index.includes(`](${page.slice("docs/".length)})`))).toEqual([]);
});

test.each([...pages, "CHANGELOG.md"])("%s names files that exist", (page) => {
  const paths = inlineCode(page).filter((code) =>
    /^(?:src|anchor|test|scripts|bench|docs)\/[\w./-]+$/.test(code),
  );
  expect(paths.filter((path) => !existsSync(path))).toEqual([]);
});

test("messages and comments name pages that exist", () => {
  const mentions = ["src", "anchor", "bench", "scripts", "test"].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => [".ts", ".mjs", ".c", ".h"].includes(extname(name)))
      .flatMap(
        (name) => readFileSync(join(folder, name), "utf8").match(/\bdocs\/[\w/-]+\.(?:md|json)\b/g) ?? [],
      ),
  );
  expect(mentions.length).toBeGreaterThan(10);
  expect([...new Set(mentions)].filter((path) => !existsSync(path))).toEqual([]);
});

function withoutCodeBlocks(page: string): string {
  return readFileSync(page, "utf8").replaceAll(/^ *```[\s\S]*?^ *```$/gm, "");
}

/** The anchors that GitHub gives to the headings of a page. */
function headingsOf(page: string): Set<string> {
  return new Set(
    [...withoutCodeBlocks(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}
