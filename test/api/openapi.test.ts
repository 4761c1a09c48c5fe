import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openApiDocument } from "../../src/api/openapi.js";

test("docs/openapi.json is current (node scripts/write-openapi.mjs)", async () => {
  expect(JSON.parse(JSON.stringify(openApiDocument()))).toEqual(
    JSON.parse(await readFile("docs/openapi.json", "utf8")),
  );
});

test("docs/openapi.json passes redocly lint", async () => {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [
      "node_modules/@redocly/cli/bin/cli.js",
      "lint",
      "docs/openapi.json",
      "--format=json",
      // Two alternatives of exec rules differ only in checks that JSON Schema cannot express.
      "--skip-rule=no-illogical-composition-keywords",
    ],
    { env: { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" } },
  );
  const { problems } = JSON.parse(stdout) as { readonly problems: readonly unknown[] };
  expect(problems).toEqual([]);
});
