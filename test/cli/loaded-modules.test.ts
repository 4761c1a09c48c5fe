import { execFile } from "node:child_process";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { BackgroundGateway } from "../support/cli/background-gateway.js";
import { CliFixture } from "../support/cli/cli-fixture.js";

const noteModules = fileURLToPath(new URL("children/note-modules.mjs", import.meta.url));

const dist = pathToFileURL(resolve("dist")).href;
const heavy = ["@photostructure/sqlite", "@xterm/headless", "kysely", "pg", "smol-toml", "ws", "zod"];

/** Repeats a command that read the store because the gateway of a loaded machine took too long. */
async function withGateway(run: () => Promise<{ readonly stderr: string }>): Promise<void> {
  while ((await run()).stderr.includes("did not answer within"));
}

/** The heavy packages that a command loads; the bundler marks the origin of bundled ones in comments. */
async function packagesOf(cliFixture: CliFixture, line: string, home = cliFixture.home): Promise<string[]> {
  const notes = join(cliFixture.home, "modules");
  await rm(notes, { force: true });
  const env = { HOLDFAST_HOME: home, NOTE_MODULES: notes, NODE_OPTIONS: `--import ${noteModules}` };
  await withGateway(() => {
    const { child, finished } = cliFixture.startWith(env, ...line.split(" "));
    child.stdin.end();
    return finished;
  });
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
  // The gateway cannot select by label: this command reads the store.
  expect(await packagesOf(gatewayFixture, "ps --label a=b")).toEqual(["@photostructure/sqlite", "kysely"]);
  const asked = [
    "ps",
    "runs list",
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

test("frequent commands load one file of ours, and neither commander, HTTP, child processes nor file promises", async () => {
  await using gatewayFixture = await BackgroundGateway.started();
  await gatewayFixture.startScript("sleep 1000");
  for (const line of ["--version", "ps", "ps --json", "runs list -a", "runs", "gateway status", "gateway"]) {
    const { files, builtins } = await loadedBy(gatewayFixture, line);
    expect(files, line).toEqual(["bundle/main.cjs"]);
    for (const name of ["http", "child_process", "fs/promises"]) expect(builtins, line).not.toContain(name);
  }
  // The check itself works.
  const { files, builtins } = await loadedBy(gatewayFixture, "runs list --limit 5");
  expect(files).toContain("bundle/program.cjs");
  expect((await loadedBy(gatewayFixture, "process list")).builtins).toContain("http");
  expect(builtins).not.toContain("http");
});

/** The files of the package, relative to dist, and the modules of Node that a command line loads by itself. */
async function loadedBy(
  cliFixture: CliFixture,
  line: string,
): Promise<{ readonly files: readonly string[]; readonly builtins: readonly string[] }> {
  const script = `
    const { writeFileSync } = require("node:fs");
    const dist = ${JSON.stringify(`${resolve("dist")}/`)};
    process.on("exit", () => {
      const files = Object.keys(require.cache).filter((file) => file.startsWith(dist));
      const builtins = process.moduleLoadList.filter((each) => each.startsWith("NativeModule "));
      writeFileSync(process.env.NOTE_MODULES, JSON.stringify({
        files: files.map((file) => file.slice(dist.length)),
        builtins: builtins.map((each) => each.slice("NativeModule ".length)),
      }));
    });`;
  const preload = join(cliFixture.home, "note-loaded.cjs");
  const notes = join(cliFixture.home, "loaded.json");
  await writeFile(preload, script);
  const main = resolve("dist/bundle/main.cjs");
  const env = { ...process.env, HOLDFAST_HOME: cliFixture.home, NOTE_MODULES: notes };
  await withGateway(() =>
    promisify(execFile)(process.execPath, ["--require", preload, main, ...line.split(" ")], { env }),
  );
  return JSON.parse(await readFile(notes, "utf8")) as Awaited<ReturnType<typeof loadedBy>>;
}
