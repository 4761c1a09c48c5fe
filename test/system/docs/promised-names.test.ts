import { readFileSync, writeFileSync } from "node:fs";
import type { Command } from "commander";
import { expect, test } from "vitest";
import { buildProgram } from "../../../src/cli/program.js";
import { resolveSettings } from "../../../src/config/resolve-settings.js";

const FILE = new URL("promised-names.json", import.meta.url);
type Names = Readonly<Record<string, readonly string[]>>;

/** The names that docs/reference/stability.md promises, as they are now. */
const present: Names = {
  commands: commandsOf(
    buildProgram(() => {}),
    "holdfast",
  ).toSorted(),
  settings: resolveSettings("", "config.toml", {}, {})
    .entries.map(({ key }) => key)
    .toSorted(),
  errors: codesOf("docs/reference/errors.md", /^\| `([A-Z_]+)` \|/gm),
  metrics: codesOf("docs/reference/api.md", /`(holdfast_\w+(?:\{\w+\})?)`/g),
  routes: routes(),
};

/** With HOLDFAST_WRITE_PROMISES=1, names that are new are added; none is ever removed by this test. */
if (process.env["HOLDFAST_WRITE_PROMISES"] === "1") {
  const before = JSON.parse(readFileSync(FILE, "utf8")) as Names;
  const all = Object.entries(present).map(([kind, names]) => [
    kind,
    [...new Set([...(before[kind] ?? []), ...names])].toSorted(),
  ]);
  writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(all), null, 2)}\n`);
}

const promised = JSON.parse(readFileSync(FILE, "utf8")) as Names;

test.each(Object.keys(present))("every promised name of the %s still exists", (kind) => {
  expect(promised[kind]?.length).toBeGreaterThan(10);
  expect(promised[kind]?.filter((name) => present[kind]?.includes(name) !== true)).toEqual([]);
});

/** Commands and their flags, hidden ones too: a former name is promised as long as it works. */
function commandsOf(command: Command, path: string): string[] {
  const flags = command.options.flatMap(({ long, short }) =>
    [long, short].flatMap((flag) => (flag === undefined || flag === null ? [] : [`${path} ${flag}`])),
  );
  const below = command.commands.flatMap((inner) =>
    [inner.name(), ...inner.aliases()].flatMap((name) => commandsOf(inner, `${path} ${name}`)),
  );
  return [path, ...flags, ...below];
}

function codesOf(page: string, pattern: RegExp): string[] {
  const text = readFileSync(page, "utf8");
  return [...new Set([...text.matchAll(pattern)].map(([, name = ""]) => name))].toSorted();
}

function routes(): string[] {
  const { paths } = JSON.parse(readFileSync("docs/openapi.json", "utf8")) as {
    readonly paths: Readonly<Record<string, object>>;
  };
  return Object.entries(paths)
    .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`))
    .toSorted();
}
