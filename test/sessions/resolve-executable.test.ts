import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { resolveExecutable } from "../../src/sessions/resolve-executable.js";

let root: string;

beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-path-")));
  for (const each of ["one", "two", "cwd/bin"]) mkdirSync(join(root, each), { recursive: true });
});

afterEach(() => rmSync(root, { recursive: true, force: true }));

/** Says where it lies. */
function program(path: string, mode = 0o755): string {
  const file = join(root, path);
  writeFileSync(file, `#!/bin/sh\necho ${file}\n`);
  chmodSync(file, mode);
  return file;
}

function link(path: string, target: string): void {
  symlinkSync(target, join(root, path));
}

const cwd = (): string => join(root, "cwd");
const resolve = (name: string, path?: string): Promise<string | null> =>
  resolveExecutable(name, { path, cwd: cwd() });
const both = (): string => `${root}/one:${root}/two`;

describe("in PATH", () => {
  test("the first entry with the program is used", async () => {
    const first = program("one/tool");
    program("two/tool");
    expect(await resolve("tool", both())).toBe(first);
  });

  test("missing and non-executable files, directories and dangling links are skipped", async () => {
    const second = program("two/tool");
    for (const obstacle of [
      () => program("one/tool", 0o644),
      () => mkdirSync(join(root, "one/tool")),
      () => link("one/tool", "nowhere"),
      () => undefined,
    ]) {
      rmSync(join(root, "one/tool"), { recursive: true, force: true });
      obstacle();
      expect(await resolve("tool", `${root}/none:${second}:${both()}`)).toBe(second);
    }
  });

  test("an empty or relative entry counts from the run's directory", async () => {
    const here = program("cwd/tool");
    const below = program("cwd/bin/tool");
    expect(await resolve("tool", "")).toBe(here);
    expect(await resolve("tool", `${root}/one:`)).toBe(here);
    expect(await resolve("tool", "bin")).toBe(below);
    expect(await resolve("tool", "./bin/../bin")).toBe(below);
  });

  test("without PATH, the C library's own list is searched", async () => {
    expect(await resolve("sh")).toBe(realpathSync("/bin/sh"));
    program("cwd/tool");
    expect(await resolve("tool")).toBeNull();
  });

  test("an empty or missing name is not found", async () => {
    expect(await resolve("", both())).toBeNull();
    expect(await resolve("tool", both())).toBeNull();
    expect(await resolve("a\0b", both())).toBeNull();
  });
});

describe("by path", () => {
  test("absolute and relative paths are used whatever PATH is", async () => {
    program("one/tool");
    const below = program("cwd/bin/tool");
    expect(await resolve("bin/tool", both())).toBe(below);
    expect(await resolve("./bin/tool", both())).toBe(below);
    expect(await resolve(below, both())).toBe(below);
    expect(await resolve("./tool", both())).toBeNull();
  });

  test("a path that the kernel would refuse is not found", async () => {
    const file = program("one/tool");
    expect(await resolve(`${file}/`)).toBeNull();
    expect(await resolve(`${file}/../tool`)).toBeNull();
    expect(await resolve(`${file}/.`)).toBeNull();
    expect(await resolve(`${root}/one`)).toBeNull();
  });
});

describe("symbolic links", () => {
  test("lead to the file itself, through links to links and directories", async () => {
    const file = program("two/real");
    link("one/tool", "../dir/alias");
    link("dir", `${root}/two`);
    link("two/alias", "./real");
    expect(await resolve("tool", both())).toBe(file);
    expect(await resolve("../dir/../one/tool", both())).toBe(file);
  });

  test("in a loop end the search, as in execvp", async () => {
    link("one/tool", "tool");
    program("two/tool");
    expect(await resolve("tool", both())).toBeNull();
  });
});

describe("a path that depends on the process is not found", () => {
  test.each(["/proc/self/cwd/bin/tool", "/proc/self/exe", "/proc/../proc/self/exe", "/dev/fd/0"])(
    "%s",
    async (name) => {
      program("cwd/bin/tool");
      expect(await resolve(name)).toBeNull();
    },
  );

  test("also by a link or in PATH, where later entries are ignored", async () => {
    program("two/tool");
    link("cwd/link", "/proc/self/exe");
    expect(await resolve("./link")).toBeNull();
    expect(await resolve("tool", `/proc/self/cwd/bin:${both()}`)).toBeNull();
  });

  test("also a path that is too long for the kernel or the step limit", async () => {
    program("two/tool");
    expect(await resolve("tool", `${"/".repeat(5_000)}${root}/two`)).toBeNull();
    expect(await resolve("tool", `${"none:".repeat(5_000)}${root}/two`)).toBeNull();
  });
});

test("env(1), by the C library's execvp, runs the same file", async () => {
  program("one/tool", 0o644);
  program("two/tool");
  program("cwd/tool");
  const paths = [
    both(),
    "",
    ".",
    `${root}/one/tool/..:${root}/two`,
    `:${both()}`,
    `${root}/none::${root}/two`,
  ];
  for (const path of paths) {
    const ran = execFileSync("/usr/bin/env", [`PATH=${path}`, "tool"], { cwd: cwd(), encoding: "utf8" });
    expect(await resolve("tool", path)).toBe(ran.trim());
  }
});
