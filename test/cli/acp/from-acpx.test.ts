import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { BatchCli } from "../../support/cli/batch-cli.js";

const program = fileURLToPath(new URL("../../support/agents/programs/settable-agent.mjs", import.meta.url));
const command = `'${process.execPath}' '${program}'`;
const page = await readFile("docs/guides/from-acpx.md", "utf8");
const rows = [...page.matchAll(/^\| `(.+)` \| `(.+)` \|$/gm)].map(([, acpx = "", holdfast = ""]) => [
  acpx,
  holdfast,
]);

/** The command lines in the README of acpx 0.19.1, in its order; those of its own installation are left out. */
const README_COMMANDS = [
  "acpx codex sessions new",
  'acpx codex "summarize this repository"',
  'acpx codex "find the slowest test and explain why"',
  "acpx pi …",
  "acpx openclaw …",
  "acpx codex …",
  "acpx claude …",
  "acpx --agent '<command>' …",
  "acpx codex sessions new --name backend",
  'acpx codex -s backend "trace the checkout timeout"',
  'acpx codex exec "summarize this repository"',
  'acpx --model gpt-5.4 codex exec --config-option reasoning_effort=high "review this repository"',
];

let fixture: BackgroundGateway;
let cli: BatchCli;
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "hf-acpx-"));
  const config = join(directory, "config.toml");
  const tables = ["codex", "claude", "pi", "openclaw"].map(
    (id) => `[agents.${id}.acp]\nargv = ${JSON.stringify([process.execPath, program])}\n`,
  );
  const missing = `[agents.gone.acp]\nargv = ["not-installed-acp"]\nnpm = { package: "gone-acp", version: "1.2.3" }\n`;
  await writeFile(config, [...tables, missing.replaceAll(': "', ' = "')].join("\n"), { mode: 0o600 });
  process.env["HOLDFAST_CONFIG"] = config;
  fixture = await BackgroundGateway.started();
  delete process.env["HOLDFAST_CONFIG"];
  cli = new BatchCli({ ...fixture.env, HOLDFAST_CONFIG: config });
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  await fixture[Symbol.asyncDispose]();
});

/** The words of a command line of the page, with a prompt for `…` and names that the fake agent knows. */
function wordsOf(line: string): string[] {
  const known = line.replace("gpt-5.4", "large").replace("reasoning_effort", "effort");
  return [...known.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)]
    .map(([, double, single, plain]) => double ?? single ?? plain ?? "")
    .map((word) => (word === "…" ? "what is this?" : word === "<command>" ? command : word))
    .slice(1);
}

test("the page has every command of acpx's README", () => {
  expect(rows.map(([acpx]) => acpx).slice(0, README_COMMANDS.length)).toEqual(README_COMMANDS);
});

test("every command of the page works in one directory, one after the other", async () => {
  const cwd = join(directory, "site");
  await mkdir(cwd);
  const answers: string[] = [];
  for (const [, line = ""] of rows.slice(0, README_COMMANDS.length)) {
    const result = await cli.holdfast(...wordsOf(line), "--cwd", cwd, "--format", "quiet");
    expect([line, result.code, result.stdout !== ""]).toEqual([line, 0, true]);
    answers.push(result.stdout);
  }
  const turns = answers.map((text) =>
    text.startsWith("{") ? (JSON.parse(text) as { turns: number }).turns : null,
  );
  // The session of the directory goes on; other agents, the named session and single prompts have their own.
  expect(turns).toEqual([null, 1, 2, 1, 1, 3, 1, 1, null, 1, 1, 1]);
  expect(JSON.parse(answers.at(-1) ?? "")).toMatchObject({ model: "large", effort: "high" });
  const { stdout } = await cli.holdfast("acp", "list", "--json");
  const open = (JSON.parse(stdout) as { key: string }[]).map(({ key }) => key.replace(/-[0-9a-f]{6}/, ""));
  expect(open.filter((key) => key.includes("@")).toSorted()).toEqual([
    ...["claude@site", "codex@site", "codex@site/backend", "openclaw@site", "pi@site"],
  ]);
  expect(await cli.holdfast("acp", "codex", "--cwd", directory, "--once")).toMatchObject({ code: 2 });
  const other = await cli.holdfast("acp", "codex", "--cwd", directory, "--format", "quiet", "hello");
  expect(JSON.parse(other.stdout)).toMatchObject({ turns: 1 });
  const again = await cli.holdfast("acp", "codex", "--cwd", cwd, "--new");
  expect(again).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/codex@site-\w+ \(ses_\w+\) is closed/) as string,
  });
});

test("an agent that is not installed is fetched only with consent", async () => {
  const refused = await cli.holdfast("acp", "gone", "--cwd", directory, "hello");
  expect(refused).toMatchObject({
    code: 127,
    stderr: expect.stringContaining("--yes fetches gone-acp@1.2.3 with npx and runs it") as string,
  });
  const bin = join(directory, "bin");
  await mkdir(bin);
  const npx = `#!/bin/sh\necho "$@" > '${directory}/npx-args'\nexec ${command}\n`;
  await writeFile(join(bin, "npx"), npx, { mode: 0o755 });
  const PATH = `${bin}:${process.env["PATH"] ?? ""}`;
  const fetched = await cli.holdfastWith(
    { PATH },
    "acp",
    "gone",
    "--yes",
    "--cwd",
    directory,
    "--format",
    "quiet",
    "hello",
  );
  expect(fetched).toMatchObject({ code: 0, stdout: expect.stringContaining('"turns":1') as string });
  expect(await readFile(join(directory, "npx-args"), "utf8")).toBe(
    "--yes --package=gone-acp@1.2.3 -- not-installed-acp\n",
  );
});

test("names of commands come before names of agents, and other words are refused as before", async () => {
  expect(await cli.holdfast("acp", "list")).toMatchObject({ code: 0 });
  expect(await cli.holdfast("acp", "promt", "x")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("prompt") as string,
  });
  expect(await cli.holdfast("acp", "no-such-agent", "x")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("holdfast agents lists the agents") as string,
  });
});

test("options of a session are applied to the open one, or refused, and never ignored", async () => {
  const cwd = join(directory, "options");
  await mkdir(cwd);
  const codex = (...words: string[]) =>
    cli.holdfast("acp", "codex", "--cwd", cwd, "--format", "quiet", ...words);
  expect(await codex("--approve-all", "hello")).toMatchObject({ code: 0 });
  expect(await codex("--deny-all", "hello")).toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringMatching(
      /with other permissions; `holdfast acp close codex@\S+` closes it/,
    ) as string,
  });
  const changed = await codex("--model", "large", "hello");
  expect(JSON.parse(changed.stdout)).toMatchObject({ model: "large", turns: 2 });
  expect(await codex("--new", "--deny-all", "hello")).toMatchObject({ code: 0 });
});

test("the short form takes prompts and files as acp prompt does", async () => {
  const cwd = join(directory, "files");
  await mkdir(cwd);
  const path = join(cwd, "prompt.txt");
  await writeFile(path, "from a file");
  const codex = (...words: string[]) => cli.holdfast("acp", "codex", "--cwd", cwd, ...words);
  expect(await codex("-f", path, "--format", "quiet")).toMatchObject({ code: 0 });
  expect(await codex("-f", path, "--file", path, "--format", "quiet")).toMatchObject({ code: 0 });
  const [first, second] = JSON.parse(
    (await cli.holdfast("acp", "history", "codex@files", "--json")).stdout,
  ) as { prompt: string; attachments: object[] }[];
  expect(first).toMatchObject({ prompt: "from a file", attachments: [] });
  expect(second).toMatchObject({ prompt: "from a file", attachments: [{ name: "prompt.txt" }] });
  expect(await codex("--file", path)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("files, images and links need a prompt") as string,
  });
  expect(await codex("--once")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--once needs a prompt") as string,
  });
  expect(await codex("-s", "", "hello")).toMatchObject({ code: 2 });
});
