import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

const script = resolve("scripts/check-imports.mjs");
let src: string;

beforeEach(() => {
  src = mkdtempSync(join(tmpdir(), "holdfast-imports-"));
});
afterEach(() => rmSync(src, { recursive: true }));

function check(files: Readonly<Record<string, string>>): { ok: boolean; said: string } {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(src, name)), { recursive: true });
    writeFileSync(join(src, name), text);
  }
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, src], { encoding: "utf8" });
  return { ok: status === 0, said: stdout + stderr };
}

test("the sources follow the direction of imports", () => {
  const { status, stderr } = spawnSync(process.execPath, [script], { encoding: "utf8" });
  expect(stderr).toBe("");
  expect(status).toBe(0);
});

test("imports of lower layers are allowed", () => {
  const result = check({
    "cli/main.ts": `import { a } from "../supervisor/open.js";\nimport { b } from "../errors.js";`,
    "supervisor/open.ts": `import { a } from "../anchor/host.js";\nimport { s } from "../store/store.js";\nimport "../output/sanitize.js";`,
    "anchor/host.ts": `import type { R } from "../model/run.js";\nimport { spawn } from "node:child_process";`,
    "errors.ts": `export * from "./errors/base.js";`,
    "errors/run.ts": `import { b } from "./base.js";`,
    "index.ts": `export { a } from "./supervisor/open.js";`,
  });
  expect(result).toEqual({ ok: true, said: expect.stringContaining("right way") });
});

test.each([
  [
    "a layer above",
    "store/a.ts",
    `import { x } from "../supervisor/x.js";`,
    "store/ may not import supervisor/",
  ],
  [
    "a type from above",
    "output/a.ts",
    `import type { X } from "../supervisor/x.js";`,
    "output/ may not import supervisor/",
  ],
  [
    "a re-export from above",
    "anchor/a.ts",
    `export * from "../output/x.js";`,
    "anchor/ may not import output/",
  ],
  [
    "a dynamic import",
    "gateway/a.ts",
    `const x = await import("../cli/x.js");`,
    "gateway/ may not import cli/",
  ],
  ["a bare import", "store/a.ts", `import "../output/x.js";`, "store/ may not import output/"],
  [
    "an import over many lines",
    "store/a.ts",
    `import {\n  x,\n  y,\n} from "../cli/x.js";`,
    "a.ts:4: store/ may not import cli/",
  ],
  [
    "a user interface from another",
    "mcp/a.ts",
    `import { x } from "../cli/x.js";`,
    "mcp/ may not import cli/",
  ],
  [
    "a folder of the same layer",
    "store/a.ts",
    `import { x } from "../anchor/x.js";`,
    "store/ may not import anchor/",
  ],
  [
    "a sub-folder above",
    "supervisor/run/a.ts",
    `import { x } from "../stop/x.js";`,
    "supervisor/run may not import supervisor/stop",
  ],
  [
    "a file above its sub-folder",
    "supervisor/run/a.ts",
    `import { x } from "../supervisor.js";`,
    "supervisor/run may not import supervisor/supervisor.ts",
  ],
  [
    "a sub-folder that is not listed",
    "supervisor/other/a.ts",
    `import { x } from "../run/x.js";`,
    "supervisor/other/ is not listed",
  ],
  [
    "server code from the command line",
    "cli/a.ts",
    `import { x } from "../gateway/server/x.js";`,
    "cli/ may not import gateway/server/",
  ],
  ["the public index", "cli/a.ts", `import { x } from "../index.js";`, "public library"],
  ["the command line from the library", "index.ts", `export { x } from "./cli/x.js";`, "may not import cli/"],
  ["a folder from a shared file", "errors.ts", `import { x } from "./store/x.js";`, "may import no folder"],
  [
    "a shared file's own folder from another folder",
    "cli/a.ts",
    `import { x } from "../errors/run.js";`,
    "cli/ may not import errors/",
  ],
  ["something outside src", "cli/a.ts", `import { x } from "../../test/x.js";`, "leaves src"],
  ["a folder that is not listed", "utils/a.ts", `import { x } from "../store/x.js";`, "is not listed"],
  [
    "starting processes",
    "supervisor/a.ts",
    `import { spawn } from "node:child_process";`,
    "src/anchor/ only",
  ],
])("the check reports %s", (_, name, text, sentence) => {
  const result = check({ [name]: text });
  expect(result.ok).toBe(false);
  expect(result.said).toContain(sentence);
});

test("imports in comments and strings do not count", () => {
  const result = check({
    "store/a.ts": `// import { x } from "../cli/x.js";\n/* import "../cli/x.js"; */\nexport const u = "http://a/b"; // from "../cli/x.js"\n`,
  });
  expect(result.ok).toBe(true);
});

test("a cycle between files is reported, also one of types", () => {
  const result = check({
    "store/a.ts": `import { b } from "./b.js";`,
    "store/b.ts": `import type { A } from "./a.js";`,
  });
  expect(result).toMatchObject({
    ok: false,
    said: expect.stringContaining("import cycle: store/a.ts → store/b.ts"),
  });
});
