import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import { resolveSettings } from "../../../src/config/settings.js";

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
