import { readFile, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { BackgroundGateway } from "../support/cli/background-gateway.js";
import { CliFixture } from "../support/cli/cli-fixture.js";

const noteModules = fileURLToPath(new URL("children/note-modules.mjs", import.meta.url));

const dist = pathToFileURL(resolve("dist")).href;
const heavy = [
  "@photostructure/sqlite",
  "@xterm/headless",
  "kysely",
  "pg",
  "pino",
  "prom-client",
  "smol-toml",
  "ws",
  "zod",
];

/** The heavy packages that a command loads; the bundler marks the origin of bundled ones in comments. */
async function packagesOf(cliFixture: CliFixture, line: string, home = cliFixture.home): Promise<string[]> {
  const notes = join(cliFixture.home, "modules");
  await rm(notes, { force: true });
  const env = { HOLDFAST_HOME: home, NOTE_MODULES: notes, NODE_OPTIONS: `--import ${noteModules}` };
  const { child, finished } = cliFixture.startWith(env, ...line.split(" "));
  child.stdin.end();
  await finished;
  const urls = (await readFile(notes, "utf8")).trim().split("\n");
  const ours = urls.filter((url) => url.startsWith(dist));
  const texts = await Promise.all(ours.map((url) => readFile(fileURLToPath(url), "utf8")));
  const places = [...urls, ...texts.flatMap((text) => text.match(/^\/\/ .*$/gm) ?? [])];
  return heavy.filter((name) => places.some((place) => place.includes(`node_modules/${name}/`)));
}

test.each([
  ["--version"],
  ["--help"],
  ["run --help"],
  ["ps"],
  ["runs list"],
  ["gateway status"],
  ["events"],
  ["completion bash"],
])("without a state directory, %s loads no heavy package", async (line) => {
  await using cliFixture = await CliFixture.open();
  expect(await packagesOf(cliFixture, line, join(cliFixture.home, "none"))).toEqual([]);
});

test("a client of a gateway loads neither zod nor a database; a reader of the store loads no zod", async () => {
  await using gatewayFixture = await BackgroundGateway.started();
  const runId = await gatewayFixture.startScript("sleep 1000");
  expect(await packagesOf(gatewayFixture, "ps")).toEqual(["@photostructure/sqlite", "kysely"]);
  const asked = [
    "gateway status",
    "tasks",
    `tasks show ${runId}`,
    `process poll ${runId}`,
    `process kill ${runId}`,
  ];
  for (const line of asked) expect(await packagesOf(gatewayFixture, line), line).toEqual([]);
  // The check itself works.
  expect(await packagesOf(gatewayFixture, "config check")).toEqual(["smol-toml", "zod"]);
});
