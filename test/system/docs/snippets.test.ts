import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { codeBlocks, pages } from "./pages.js";

const blocks = pages.flatMap(codeBlocks).map((block) => ({ ...block, where: `${block.page}:${block.line}` }));
const programs = blocks.filter(({ language }) => language === "ts");
const configs = blocks.filter(({ language }) => language === "toml");

const PROJECT = { private: true, type: "module", scripts: { test: "echo 12 tests passed" } };

/** Compiled to ES2022, because Node 20 has no `await using`. */
const OPTIONS = "--target es2022 --module nodenext --strict --skipLibCheck --types node".split(" ");

describe("the programs", () => {
  let gatewayFixture: BackgroundGateway;
  let project: string;

  beforeAll(async () => {
    gatewayFixture = await BackgroundGateway.started();
    project = await mkdtemp(join(tmpdir(), "hf-"));
    await mkdir(join(project, "node_modules", "@types"), { recursive: true });
    await symlink(resolve("."), join(project, "node_modules", "holdfast"));
    await symlink(resolve("node_modules/@types/node"), join(project, "node_modules", "@types", "node"));
    await writeFile(join(project, "package.json"), JSON.stringify(PROJECT));
    for (const [at, { text }] of programs.entries()) await writeFile(join(project, `${at}.ts`), text);
  });
  afterAll(async () => {
    await rm(project, { recursive: true });
    await gatewayFixture[Symbol.asyncDispose]();
  });

  test("compile with the types of the library", () => {
    const files = programs.map((_, at) => `${at}.ts`);
    const tsc = resolve("node_modules/.bin/tsc");
    const { stdout, stderr } = spawnSync(tsc, [...OPTIONS, ...files], { cwd: project, encoding: "utf8" });
    expect(stdout + stderr).toBe("");
  });

  test.each(programs.map(({ where }, at) => [where, at] as const))("%s runs", (_, at) => {
    const { status, stderr } = spawnSync(process.execPath, [`${at}.js`], {
      cwd: project,
      env: gatewayFixture.env,
      encoding: "utf8",
    });
    expect(status, stderr).toBe(0);
  });
});

test.each(configs)("$where is a valid config file", ({ where, text }) => {
  expect(() => parseConfig(text, where)).not.toThrow();
});
