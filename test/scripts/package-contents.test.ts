import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

/** Evaluates an expression with the modules of the release; they are plain JavaScript without types. */
async function evaluate(expression: string): Promise<unknown> {
  const load = (name: string): string =>
    `await import(${JSON.stringify(resolve(`scripts/release/${name}.mjs`))})`;
  const script = `
    const { contentProblems } = ${load("contents")};
    const { licenseProblems } = ${load("licenses")};
    const { unbundledProblems } = ${load("sbom")};
    const file = (path, text = "") => ({ path: "package/" + path, content: Buffer.from(text) });
    console.log(JSON.stringify(${expression}));`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
  return JSON.parse(stdout);
}

test("the files of the package may be published", async () => {
  const files = [
    ...["LICENSE", "package.json", "docs/guides/upgrade.md", "docs/openapi.json", "dist/cli/main.js"],
    ...["dist/bundle/main.cjs", "dist/chunks/index.js", "dist/model/run.d.ts", "dist/web/assets/index-1.css"],
  ];
  expect(
    await evaluate(`contentProblems(${JSON.stringify(files)}.map((path) => file(path)), "/src/x")`),
  ).toEqual([]);
});

test.each([
  "test/cli/run.test.ts",
  "dist/bundle/main.cjs.map",
  "dist/store/sql.js",
  "src/index.ts",
  ".npmrc",
  "docs/notes.txt",
  "dist/web/assets/index-1.js.map",
])("%s may not be published", async (path) => {
  expect(await evaluate(`contentProblems([file(${JSON.stringify(path)})], "/src/x")`)).toEqual([
    `${path} is not on the list of files`,
  ]);
});

test("a file that names the checkout is refused", async () => {
  const files = `[file("dist/index.js", 'import "/src/x/dist/a.js"'), file("dist/cli/main.js", "/src/xyz")]`;
  expect(await evaluate(`contentProblems(${files}, "/src/x")`)).toEqual([
    "dist/index.js contains the path /src/x",
  ]);
});

test("a package whose licence is unknown or not on the list is refused", async () => {
  const components = [
    { name: "free", version: "1.0.0", licenses: [{ license: { id: "MIT" } }] },
    { name: "strict", version: "2.0.0", licenses: [{ license: { id: "AGPL-3.0-only" } }] },
    { name: "silent", version: "3.0.0" },
  ];
  expect(await evaluate(`licenseProblems(${JSON.stringify(components)})`)).toEqual([
    "strict@2.0.0 has the licence AGPL-3.0-only, which is not on the list",
    "silent@3.0.0 has the licence (none), which is not on the list",
  ]);
});

test("a bundled package whose dependency is neither bundled nor installed is refused", async () => {
  const sbom = {
    components: ["one", "two", "three"].map((name) => ({ name, "bom-ref": `${name}@1` })),
    dependencies: [{ ref: "one@1", dependsOn: ["two@1", "three@1"] }],
  };
  const packages = { bundled: ["one", "two"], installed: [] };
  expect(await evaluate(`unbundledProblems(${JSON.stringify(sbom)}, ${JSON.stringify(packages)})`)).toEqual([
    "one is bundled and needs three, which is neither bundled nor installed",
  ]);
});
