import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { codeBlocks, pages } from "./pages.js";

const blocks = pages.flatMap(codeBlocks).map((block) => ({ ...block, where: `${block.page}:${block.line}` }));

describe.each(blocks.filter(({ language }) => language === "ts"))("$where", ({ text }) => {
  test("compiles with the types of the library and runs", { timeout: 60_000 }, async () => {
    await using gatewayFixture = await BackgroundGateway.started();
    const project = await mkdtemp(join(tmpdir(), "hf-"));
    try {
      await mkdir(join(project, "node_modules", "@types"), { recursive: true });
      await symlink(resolve("."), join(project, "node_modules", "holdfast"));
      await symlink(resolve("node_modules/@types/node"), join(project, "node_modules", "@types", "node"));
      await writeFile(join(project, "package.json"), JSON.stringify(PROJECT));
      await writeFile(join(project, "snippet.ts"), text);
      const tsc = resolve("node_modules/.bin/tsc");
      const compiled = spawnSync(tsc, [...OPTIONS, "snippet.ts"], { cwd: project, encoding: "utf8" });
      expect(compiled.stdout + compiled.stderr).toBe("");
      const ran = spawnSync(process.execPath, ["snippet.js"], {
        cwd: project,
        env: gatewayFixture.env,
        encoding: "utf8",
      });
      expect(ran.status, ran.stderr).toBe(0);
    } finally {
      await rm(project, { recursive: true });
    }
  });
});

const PROJECT = { private: true, type: "module", scripts: { test: "echo 12 tests passed" } };

/** Compiled to ES2022, because Node 20 has no `await using`. */
const OPTIONS = [
  "--target",
  "es2022",
  "--module",
  "nodenext",
  "--strict",
  "--skipLibCheck",
  "--types",
  "node",
];

describe.each(blocks.filter(({ language }) => language === "toml"))("$where", ({ text }) => {
  test("is a valid config file", async () => {
    await using gatewayFixture = await BackgroundGateway.open();
    const file = join(gatewayFixture.home, "config.toml");
    await writeFile(file, text);
    const { code, stderr } = await gatewayFixture.startWith({ HOLDFAST_CONFIG: file }, "config", "check")
      .finished;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  });
});
