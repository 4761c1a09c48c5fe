import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";

interface Entry {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly link?: boolean;
}

async function entries(): Promise<readonly (readonly [string, Entry])[]> {
  const { packages } = JSON.parse(await readFile("package-lock.json", "utf8")) as {
    readonly packages: Readonly<Record<string, Entry>>;
  };
  // The empty path is this project itself.
  return Object.entries(packages).filter(([path, { link }]) => path !== "" && link !== true);
}

test("every package in the lockfile carries a SHA-512 integrity value", async () => {
  const all = await entries();
  expect(all.length).toBeGreaterThan(100);
  const unprotected = all.filter(([, { integrity = "" }]) => !/^sha512-[\w+/]{86}==$/.test(integrity));
  expect(unprotected.map(([path]) => path)).toEqual([]);
});

test("no package in the lockfile names a host", async () => {
  expect((await entries()).filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
});
