import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";

const workflow = readFileSync(resolve(".github/workflows/ci.yml"), "utf8");
const paths = new Set(workflow.match(/(?<=\s)test\/[\w./-]+/g));

test("the workflow names tests", () => expect(paths.size).toBeGreaterThan(5));

// A path without tests selects nothing, and vitest says nothing about it if others select some.
test.each([...paths])("%s, which the workflow names, exists", (path) => {
  expect(existsSync(resolve(path))).toBe(true);
});
