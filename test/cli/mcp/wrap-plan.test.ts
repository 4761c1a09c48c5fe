import fc from "fast-check";
import { parse as parseJson } from "jsonc-parser";
import { parse as parseToml } from "smol-toml";
import { expect, test } from "vitest";
import type { ConfigFile } from "../../../src/cli/mcp/clients.js";
import type { Edit } from "../../../src/cli/mcp/file/config-document.js";
import { parseDocument } from "../../../src/cli/mcp/file/rewrite-file.js";
import { unifiedDiff } from "../../../src/cli/mcp/file/unified-diff.js";
import { planFile, type WrapPlan } from "../../../src/cli/mcp/wrap-plan.js";
import { CLIENT_FILES, type ClientFile } from "./client-files.js";

const HOLDFAST = ["/home/ada/.local/state/holdfast/native/bin/holdfast"];

async function plan(file: ConfigFile, whole: string, undo: boolean, holdfast = HOLDFAST): Promise<WrapPlan> {
  const mark = whole.startsWith("\uFEFF") ? "\uFEFF" : "";
  const document = await parseDocument(whole.slice(mark.length), file.path, file.format);
  return planFile(file, { document, mark, bytes: Buffer.from(whole) }, { undo, servers: [], holdfast });
}

async function wrap(file: ConfigFile, text: string, holdfast = HOLDFAST): Promise<string> {
  return (text.startsWith("\uFEFF") ? "\uFEFF" : "") + (await plan(file, text, false, holdfast)).text;
}

async function unwrap(file: ConfigFile, text: string): Promise<string> {
  return (text.startsWith("\uFEFF") ? "\uFEFF" : "") + (await plan(file, text, true)).text;
}

interface Words {
  readonly command: string | readonly string[];
  readonly args?: readonly string[];
}

/** The words of every server with a command, as another parser reads them. */
function commandsOf({ file }: ClientFile, text: string): Map<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  const visit = (value: unknown, name: string): void => {
    if (typeof value !== "object" || value === null) return;
    if ("command" in value) {
      const { command, args = [] } = value as Words;
      found.set(name, [command, ...args].flat());
    }
    for (const [key, inner] of Object.entries(value)) visit(inner, key);
  };
  visit(file.format === "toml" ? parseToml(text) : parseJson(text.replace("\uFEFF", "")), "");
  return found;
}

test.each(CLIENT_FILES)(
  "$of: stdio servers start through Holdfast with the same words, others do not",
  async (each) => {
    const { servers } = await plan(each.file, each.text, false);
    expect(new Set(servers.filter(({ changes }) => changes).map(({ name }) => name))).toEqual(
      new Set(each.stdio),
    );
    const left = servers.filter(({ changes }) => !changes).map(({ name, reason }) => [name, reason]);
    expect(Object.fromEntries(left)).toEqual(each.others);
    const before = commandsOf(each, each.text);
    for (const [name, words] of commandsOf(each, await wrap(each.file, each.text))) {
      const own = before.get(name) ?? [];
      if (!each.stdio.includes(name)) expect(words, name).toEqual(own);
      else {
        expect(words.slice(0, 2), name).toEqual([...HOLDFAST, "run"]);
        expect(words, name).toContain(`mcp=${name}`);
        expect(words, name).toContain(`mcp-client=${each.client}`);
        expect(words.slice(-own.length), name).toEqual(own);
      }
    }
  },
);

test.each(CLIENT_FILES)("$of: undo restores every byte", async ({ file, text }) => {
  const wrapped = await wrap(file, text);
  expect(wrapped).not.toBe(text);
  expect(await unwrap(file, wrapped)).toBe(text);
});

test.each(CLIENT_FILES)(
  "$of: undo restores every byte of a file with CRLF and a byte order mark, and of one with neither",
  async ({ file, text }) => {
    const plainText = text.replace("\uFEFF", "").replaceAll("\r\n", "\n");
    for (const each of [plainText, `\uFEFF${plainText.replaceAll("\n", "\r\n")}`]) {
      const wrapped = await wrap(file, each);
      expect(wrapped).not.toBe(each);
      expect(wrapped.replaceAll("\r\n", "").includes(each.includes("\r\n") ? "\n" : "\r")).toBe(false);
      expect(await unwrap(file, wrapped)).toBe(each);
    }
  },
);

test.each(CLIENT_FILES)("$of: wrapping again changes nothing", async ({ file, text }) => {
  const wrapped = await wrap(file, text);
  expect(await wrap(file, wrapped)).toBe(wrapped);
  expect(
    await wrap(file, wrapped, ["/usr/bin/env", "HOLDFAST_HOME=/srv/hf", "/srv/hf/native/bin/holdfast"]),
  ).toBe(wrapped);
});

test.each(CLIENT_FILES)(
  "$of: undo puts back only the wrapped entries of a file that was edited meanwhile",
  async (each) => {
    const { file, text } = each;
    const edit = (before: string): string =>
      file.format === "toml"
        ? `# edited\n${before}\n[mcp_servers.new]\ncommand = "new"\nargs = ["-x"]\n`
        : before.replace("{", '{\n  // edited\n  "edited": { "by": ["the user"] },');
    expect(await unwrap(file, edit(await wrap(file, text)))).toBe(edit(text));
  },
);

test.each(CLIENT_FILES)(
  "$of: undo works with the words that Windows and another state directory need",
  async ({ file, text }) => {
    for (const holdfast of [
      ["/usr/bin/env", "HOLDFAST_HOME=/srv/hf", "/srv/hf/native/bin/holdfast"],
      ["C:\\Program Files\\nodejs\\node.exe", "C:\\npm\\node_modules\\holdfast\\dist\\cli\\main.js"],
    ])
      expect(await unwrap(file, await wrap(file, text, holdfast))).toBe(text);
  },
);

const [claudeFile] = CLIENT_FILES;
const json = (claudeFile as ClientFile).file;

test("undo keeps options and arguments that the user has added to a wrapped server", async () => {
  const text = '{ "mcpServers": { "a": { "command": "npx", "args": ["-y", "a"] } } }';
  const edited = (await wrap(json, text))
    .replace('"run"', '"run", "--memory", "1G", "--label=team=x"')
    .replace('"a"] }', '"a", "--verbose"] }');
  expect(edited).toContain("--memory");
  expect(await unwrap(json, edited)).toBe(text.replace('"a"]', '"a", "--verbose"]'));
});

test("undo finds the words of a wrapped server that was formatted anew", async () => {
  const text = '{ "mcpServers": { "a": { "command": "npx" } } }';
  const value = JSON.parse(await wrap(json, text)) as {
    mcpServers: { a: { args: string[]; command: string } };
  };
  const { args, command } = value.mcpServers.a;
  const moved = { mcpServers: { a: { args, env: {}, command } } };
  expect(JSON.parse(await unwrap(json, JSON.stringify(moved, null, 4)))).toEqual({
    mcpServers: { a: { env: {}, command: "npx" } },
  });
});

test("a server that the user starts through holdfast run is left alone, also by undo", async () => {
  const text = '{ "mcpServers": { "a": { "command": "holdfast", "args": ["run", "--", "npx", "a"] } } }';
  const { servers } = await plan(json, text, false);
  expect(servers.map(({ reason }) => reason)).toEqual(["starts through Holdfast already"]);
  expect(await unwrap(json, text)).toBe(text);
});

test("a command that looks like an option is left alone, because undo could not find it", async () => {
  const text = '{ "mcpServers": { "a": { "command": "--x" }, "b": { "command": ["-", "y"] } } }';
  const { servers, edits } = await plan(json, text, false);
  expect(servers.map(({ reason }) => reason)).toEqual(Array(2).fill("its command looks like an option"));
  expect(edits).toEqual([]);
});

test("Holdfast's own server is left alone", async () => {
  const text = '{ "mcpServers": { "holdfast": { "command": "holdfast", "args": ["mcp"] } } }';
  expect((await plan(json, text, false)).servers.map(({ reason }) => reason)).toEqual(["is Holdfast itself"]);
});

test.each([
  ["a missing comma", '{\n  "mcpServers": {\n    "a": {}\n    "b": {}\n  }\n}', 4],
  ["no closing brace", '{\n  "mcpServers": {', 2],
  ["a list", "[]", 1],
])("JSON with %s is refused with its line", async (_, text, line) => {
  await expect(plan(json, text, false)).rejects.toThrow(`${json.path}:${line}: `);
});

test("TOML that Codex cannot read is refused with its line", async () => {
  const codex = CLIENT_FILES.find(({ client }) => client === "codex") as ClientFile;
  await expect(plan(codex.file, '[mcp_servers.a]\ncommand = "npx"\nargs = [x]\n', false)).rejects.toThrow(
    `${codex.file.path}:3: it is not TOML`,
  );
});

const word = fc.string({ minLength: 1, maxLength: 8, unit: "grapheme" });
const space = fc.constantFrom("", " ", "\n  ", "\r\n\t", " /* c */ ", " // c\n");

test("undo restores every byte of any JSON, however it is spaced", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.dictionary(word, fc.tuple(word, fc.option(fc.array(word, { maxLength: 3 }))), {
        minKeys: 1,
        maxKeys: 3,
      }),
      fc.infiniteStream(space),
      async (servers, spaces) => {
        const s = (): string => spaces.next().value as string;
        const list = (words: readonly string[]): string =>
          `[${s()}${words.map((each) => JSON.stringify(each)).join(`${s()},${s()}`)}${s()}]`;
        const entries = Object.entries(servers).map(([name, [command, args]]) => {
          const members = [`"command"${s()}:${s()}${JSON.stringify(command)}`];
          if (args !== null) members.push(`"args"${s()}:${s()}${list(args)}`);
          return `${JSON.stringify(name)}:${s()}{${s()}${members.join(`${s()},${s()}`)}${s()}}`;
        });
        const text = `${s()}{${s()}"mcpServers":${s()}{${s()}${entries.join(`,${s()}`)}${s()}}${s()}}`;
        expect(await unwrap(json, await wrap(json, text))).toBe(text);
      },
    ),
    { numRuns: 200 },
  );
});

test("the difference is what diff(1) prints, and applies", () => {
  const text = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk";
  const at = (old: string, by: string): Edit => ({
    start: text.indexOf(old),
    end: text.indexOf(old) + old.length,
    text: by,
  });
  expect(unifiedDiff("f", text, [at("b", "B\nBB"), at("k", "K")])).toBe(
    "--- f\n+++ f\n@@ -1,5 +1,6 @@\n a\n-b\n+B\n+BB\n c\n d\n e\n@@ -8,4 +9,4 @@\n h\n i\n j\n-k\n\\ No newline at end of file\n+K\n\\ No newline at end of file\n",
  );
  expect(unifiedDiff("f", text, [])).toBe("");
});
