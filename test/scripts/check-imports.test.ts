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

test("the repository keeps its own direction", () => {
  const { status, stderr } = spawnSync(process.execPath, [script], { encoding: "utf8" });
  expect(stderr).toBe("");
  expect(status).toBe(0);
});

test("looking down is allowed", () => {
  const result = check({
    "cli/main.ts": `import { a } from "../supervisor/open.js";\nimport { b } from "../errors.js";`,
    "supervisor/open.ts": `import { a } from "../anchor/host.js";\nimport { s } from "../store/store.js";\nimport "../output/sanitize.js";`,
    "anchor/host.ts": `import type { R } from "../store/run-record.js";\nimport { spawn } from "node:child_process";`,
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
  ["a face from a face", "mcp/a.ts", `import { x } from "../cli/x.js";`, "mcp/ may not import cli/"],
  [
    "a value where only types are shared",
    "store/a.ts",
    `import { x } from "../anchor/x.js";`,
    `write "import type"`,
  ],
  ["the public index", "cli/a.ts", `import { x } from "../index.js";`, "public face"],
  ["a face from the library", "index.ts", `export { x } from "./cli/x.js";`, "may not import the face cli/"],
  ["a folder from a file for all", "errors.ts", `import { x } from "./store/x.js";`, "may import no folder"],
  ["something outside src", "cli/a.ts", `import { x } from "../../test/x.js";`, "leaves src"],
  ["a folder without a place", "utils/a.ts", `import { x } from "../store/x.js";`, "has no place"],
  [
    "starting processes",
    "supervisor/a.ts",
    `import { spawn } from "node:child_process";`,
    "src/anchor/ only",
  ],
])("%s is caught and named", (_, name, text, sentence) => {
  const result = check({ [name]: text });
  expect(result.ok).toBe(false);
  expect(result.said).toContain(sentence);
});

test("comments and strings are not imports", () => {
  const result = check({
    "store/a.ts": `// import { x } from "../cli/x.js";\n/* import "../cli/x.js"; */\nexport const u = "http://a/b"; // from "../cli/x.js"\n`,
  });
  expect(result.ok).toBe(true);
});
