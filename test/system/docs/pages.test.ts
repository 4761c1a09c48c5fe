import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import { resolveSettings } from "../../../src/config/resolve-settings.js";
import {
  RELATIONS,
  type VisibilityCase,
  visibilityMatrix,
} from "../../support/sessions/visibility-matrix.js";

test("docs/reference/errors.md lists exactly the error codes of the source", async () => {
  const files = await readdir("src/errors");
  const source = (await Promise.all(files.map((name) => readFile(join("src/errors", name), "utf8")))).join(
    "",
  );
  const page = await readFile("docs/reference/errors.md", "utf8");
  const codes = [...source.matchAll(/(?:super\(\s*|code = )"([A-Z_]+)"/g)].map(([, code]) => code);
  const listed = [...page.matchAll(/^\| `([A-Z_]+)`/gm)].map(([, code]) => code);
  expect(codes.length).toBeGreaterThan(5);
  expect(new Set(listed)).toEqual(new Set(codes));
});

test("docs/reference/config.md lists every setting with its default, and its example is valid", async () => {
  const page = await readFile("docs/reference/config.md", "utf8");
  const listed = [...page.matchAll(/^\| `([a-z0-9.-]+)` \| `?([^|`]+)`? \|/gm)].map(([, key, value]) => [
    key,
    value?.trim(),
  ]);
  const { entries: each } = resolveSettings("", "config.toml", {}, {});
  const real = each.map(({ key, value }) => [
    key,
    value === null ? "off" : Array.isArray(value) ? "none" : JSON.stringify(value).replaceAll('"', ""),
  ]);
  expect(listed).toEqual(real);
  const [, example = ""] = /```toml\n([^]*?)```/.exec(page) ?? [];
  expect(parseConfig(example, "docs/reference/config.md")).toMatchObject({
    gateway: { listen: "127.0.0.1:7433" },
  });
});

/** The cases that each column of the table describes. */
const COLUMNS: readonly ((each: VisibilityCase) => boolean)[] = [
  ({ visibility, sandboxed }) => visibility === "self" && !sandboxed,
  ({ visibility, sandboxed }) => visibility === "tree" && !sandboxed,
  ({ visibility, sandboxed }) => visibility === "agent" && !sandboxed,
  ({ visibility, sandboxed, a2a }) => visibility === "all" && !sandboxed && !a2a,
  ({ visibility, sandboxed, a2a }) => visibility === "all" && !sandboxed && a2a,
  ({ visibility, sandboxed }) => visibility !== "self" && sandboxed,
];

test.each(RELATIONS)("docs/concepts/visibility.md has the right answers for %s", async (relation) => {
  const page = await readFile("docs/concepts/visibility.md", "utf8");
  const row = page.split("\n").find((line) => line.startsWith(`| ${relation} |`)) ?? "";
  const words = row
    .split("|")
    .slice(2, -1)
    .map((word) => word.trim());
  expect(words).toHaveLength(COLUMNS.length);
  for (const [at, describes] of COLUMNS.entries()) {
    const cases = visibilityMatrix.filter((each) => each.relation === relation && describes(each));
    expect(new Set(cases.map(({ visible }) => (visible ? "yes" : "no")))).toEqual(new Set([words[at]]));
  }
});
