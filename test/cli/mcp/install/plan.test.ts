import fc from "fast-check";
import { parse as parseJson } from "jsonc-parser";
import { parse as parseToml } from "smol-toml";
import { expect, test } from "vitest";
import type { FilePlan } from "../../../../src/cli/mcp/apply-file-plans.js";
import { type ConfigFile, configFiles, MCP_CLIENTS } from "../../../../src/cli/mcp/clients.js";
import { parseDocument } from "../../../../src/cli/mcp/file/rewrite-file.js";
import { chooseFile, type FoundFile, planInstall } from "../../../../src/cli/mcp/install/plan.js";
import { planFile } from "../../../../src/cli/mcp/wrap-plan.js";
import { CLIENT_FILES, type ClientFile, PLACES } from "../client-files.js";

const WORDS = ["/home/ada/.local/state/holdfast/native/bin/holdfast", "mcp"];

/** Null: there is no such file. */
async function find(file: ConfigFile, whole: string | null, hasBackup = false): Promise<FoundFile> {
  if (whole === null) return { file, loaded: null, hasBackup };
  const mark = whole.startsWith("\uFEFF") ? "\uFEFF" : "";
  const document = await parseDocument(whole.slice(mark.length), file.path, file.format);
  return { file, loaded: { document, mark, bytes: Buffer.from(whole) }, hasBackup };
}

async function plan(
  file: ConfigFile,
  whole: string | null,
  undo: boolean,
  hasBackup = false,
): Promise<FilePlan> {
  return planInstall(await find(file, whole, hasBackup), { undo, words: WORDS });
}

/** The whole text afterwards. Null: the file is removed. */
async function change(file: ConfigFile, whole: string | null, undo: boolean): Promise<string | null> {
  const { loaded, text } = await plan(file, whole, undo, whole !== null && !undo);
  return text === null ? null : `${loaded?.mark ?? ""}${text}`;
}

async function install(file: ConfigFile, whole: string | null): Promise<string> {
  return (await change(file, whole, false)) ?? expect.fail("installing removed the file");
}

async function wrap(file: ConfigFile, whole: string, undo: boolean): Promise<string> {
  const { loaded } = await find(file, whole);
  if (loaded === null) return expect.fail("there is no file");
  const request = { undo, servers: [], holdfast: WORDS.slice(0, 1) };
  return loaded.mark + (await planFile(file, loaded, request)).text;
}

function tableOf({ file }: Pick<ClientFile, "file">, text: string): Record<string, unknown> {
  let table = file.format === "toml" ? parseToml(text) : (parseJson(text.replace("\uFEFF", "")) as object);
  for (const key of file.tables[0] ?? []) table = (table as Record<string, object>)[key] ?? {};
  return table as Record<string, unknown>;
}

function userFile(client: ConfigFile["client"]): ConfigFile {
  const file = configFiles(client, PLACES).find(({ scope }) => scope === "user");
  return file ?? expect.fail(`${client} has no file of the user`);
}

const json = userFile("cursor");
const toml = userFile("codex");
const ENTRY = { type: "stdio", command: WORDS[0], args: ["mcp"] };

test.each(CLIENT_FILES)("$of: the server is added, and undo restores every byte", async (each) => {
  const { file, text } = each;
  const installed = await install(file, text);
  const { holdfast, ...others } = tableOf(each, installed);
  expect(holdfast).toMatchObject(
    file.client === "opencode" ? { type: "local", command: WORDS } : { command: WORDS[0], args: ["mcp"] },
  );
  expect(others).toEqual(tableOf(each, text));
  expect(await change(file, installed, true)).toBe(text);
});

test.each(CLIENT_FILES)(
  "$of: wrap leaves the server alone, and both can be undone in either order",
  async (each) => {
    const { file, text } = each;
    const installed = await install(file, text);
    const both = await wrap(file, installed, false);
    expect(tableOf(each, both)["holdfast"]).toEqual(tableOf(each, installed)["holdfast"]);
    expect(await wrap(file, (await change(file, both, true)) ?? "", true)).toBe(text);
    expect(await change(file, await wrap(file, both, true), true)).toBe(text);
  },
);

test.each(MCP_CLIENTS)("%s: a file that is missing is made, and undo removes it", async (client) => {
  const file = userFile(client);
  const made = await install(file, null);
  expect(Object.keys(tableOf({ file }, made))).toEqual(["holdfast"]);
  expect((await plan(file, made, true)).text).toBeNull();
  // With a server of the user it stays.
  const edited =
    file.format === "toml"
      ? `${made}\n[mcp_servers.own]\ncommand = "own"\n`
      : made.replace('"holdfast"', '"own": {}, "holdfast"');
  expect(Object.keys(tableOf({ file }, (await change(file, edited, true)) ?? ""))).toEqual(["own"]);
});

test.each([
  "{}",
  "{ }",
  "{\n}\n",
  "{ // nothing yet\n}",
  '{ "mcpServers": {} }',
  '{"mcpServers":{}}',
  '{ "mcpServers": { } }',
  '{\n  "mcpServers": {}\n}\n',
  '{\n  "mcpServers": {\n  }\n}\n',
  '{\n  "mcpServers": {},\n}\n',
  '{\n  "theme": "x"\n}\n',
  '{\r\n\t"theme": "x", // dark\r\n}\r\n',
  '{ "theme": "x" }',
  '{ "theme": "x", }',
  '{\n  "mcpServers": {\n    "a": { "command": "a" } // first\n  }\n}',
  '{\n  "mcpServers": {\n    "a": { "command": "a" }, // first\n    // none\n  }\n}',
  '{\n  "mcpServers": {\n    "a": { "command": "a" } /* first */\n  }\n}',
  '{ "mcpServers": { "a": { "command": "a" } /* first */ } }',
  "",
  "\n",
])("undo restores every byte of %j", async (text) => {
  const installed = await install(json, text);
  expect(tableOf({ file: json }, installed)["holdfast"]).toEqual(ENTRY);
  const { text: restored } = await plan(json, installed, true, true);
  expect(restored).toBe(text);
});

test.each([
  "",
  "\n",
  'model = "x"',
  'model = "x"\n',
  'model = "x"\n\n',
  "[tui]\r\nnotifications = true\r\n",
  '[mcp_servers.a]\ncommand = "a" # first',
])("undo restores every byte of the TOML %j", async (text) => {
  const installed = await install(toml, text);
  expect(tableOf({ file: toml }, installed)["holdfast"]).toEqual({ command: WORDS[0], args: ["mcp"] });
  const { text: restored } = await plan(toml, installed, true, true);
  expect(restored).toBe(text);
});

test("what is added looks like the file", async () => {
  expect(await install(json, '{\n\t"mcpServers": {\n\t\t"a": { "command": "a" }, // first\n\t},\n}\n')).toBe(
    `{\n\t"mcpServers": {\n\t\t"a": { "command": "a" }, // first\n\t\t"holdfast": {\n\t\t\t"type": "stdio",\n\t\t\t"command": "${WORDS[0]}",\n\t\t\t"args": ["mcp"]\n\t\t},\n\t},\n}\n`,
  );
  expect(await install(toml, 'model = "x"\n')).toBe(
    `model = "x"\n\n[mcp_servers.holdfast]\ncommand = "${WORDS[0]}"\nargs = ["mcp"]\n`,
  );
});

test("a server that is there already stays as it is, under any name, also if it is disabled", async () => {
  for (const name of ["holdfast", "own"]) {
    const text = `{ "mcpServers": { "${name}": { "command": "holdfast", "args": ["mcp", "--session", "x"], "disabled": true } } }`;
    const { servers, edits } = await plan(json, text, false);
    expect(edits).toEqual([]);
    expect(servers[0]?.reason).toBe(
      name === "own"
        ? "installed already, as own"
        : "installed already, with another command; --undo removes it",
    );
  }
  const { servers } = await plan(json, await install(json, "{}"), false);
  expect(servers[0]?.reason).toBe("installed already");
});

test("another server with the same name stays, also on undo", async () => {
  const text = '{ "mcpServers": { "holdfast": { "command": "npx", "args": ["holdfast-weather"] } } }';
  expect((await plan(json, text, false)).servers[0]?.reason).toBe("another server has this name");
  expect((await plan(json, text, true)).edits).toEqual([]);
});

test("undo removes the tables that the user has added to the server, and no others", async () => {
  const text = '[mcp_servers.a]\ncommand = "a"\n';
  const edited = `${await install(toml, text)}\n[mcp_servers.holdfast.env]\nA = "1"\n\n[tui]\nx = 1\n`;
  expect(await change(toml, edited, true)).toBe(`${text}\n[tui]\nx = 1\n`);
});

test("a form that cannot be extended is refused, and nothing is written", async () => {
  const refused = "cannot be changed without changing more; nothing was changed";
  await expect(plan(toml, 'mcp_servers = { a = { command = "a" } }\n', false)).rejects.toThrow(refused);
  await expect(plan(json, "// only a comment", false)).rejects.toThrow(refused);
  await expect(plan(json, '{ "mcpServers": [] }', false)).rejects.toThrow("mcpServers is not an object");
});

test("the file that has the server is chosen, or else one that exists, or else the first", async () => {
  const [first, second] = configFiles("opencode", PLACES).filter(({ scope }) => scope === "user");
  if (first === undefined || second === undefined) return expect.fail("OpenCode has two files");
  const chosen = async (one: string | null, other: string | null): Promise<string | undefined> =>
    chooseFile([await find(first, one), await find(second, other)])?.file.path;
  expect(await chosen(null, null)).toBe(first.path);
  expect(await chosen(null, "{}")).toBe(second.path);
  expect(await chosen("{}", "{}")).toBe(first.path);
  expect(await chosen("{}", await install(second, "{}"))).toBe(second.path);
});

const space = fc.constantFrom("", " ", "\n  ", "\r\n\t", " /* c */ ", " // c\n");

test("undo restores every byte of any JSON, however it is spaced", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 3 }),
      fc.boolean(),
      fc.infiniteStream(space),
      async (names, trailing, spaces) => {
        const s = (): string => spaces.next().value as string;
        const list = (members: readonly string[]): string =>
          `{${s()}${members.join(`${s()},${s()}`)}${trailing && members.length > 0 ? `${s()},` : ""}${s()}}`;
        const servers = list(
          [...new Set(names)].map((name) => `"${name}"${s()}:${s()}${list(['"command": "x"'])}`),
        );
        const text = `${s()}${list(['"before": 1', `"mcpServers":${s()}${servers}`, '"after": {}'])}`;
        const installed = await install(json, text);
        expect(tableOf({ file: json }, installed)["holdfast"]).toEqual(ENTRY);
        expect(await change(json, installed, true)).toBe(text);
      },
    ),
    { numRuns: 300 },
  );
});
