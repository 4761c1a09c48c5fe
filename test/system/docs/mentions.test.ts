import type { Command, Option } from "commander";
import { expect, test } from "vitest";
import { agentsById } from "../../../src/agents/catalogue.js";
import { expandShortForm } from "../../../src/cli/options/acp-short-form.js";
import { buildProgram } from "../../../src/cli/program.js";
import { codeBlocks, inlineCode, pages } from "./pages.js";

const program = buildProgram(() => {});
const agents = agentsById();

/** Every `holdfast …` command line on a page or in a help text. */
const mentions = [
  ...pages.flatMap((page) => [
    ...inlineCode(page),
    ...codeBlocks(page)
      .filter(({ language }) => language === "console" || language === "sh")
      .flatMap(({ text }) => text.split("\n").map((line) => line.replace(/^\$ /, ""))),
  ]),
  ...commandsOf(program).flatMap((command) => helpOf(command).split("\n")),
]
  .map((text) => text.trim().replace(/\s+#\s.*$/, ""))
  .filter((text) => text.startsWith("holdfast "));

test("pages and help texts contain many command lines", () => expect(mentions.length).toBeGreaterThan(50));

test.each([...new Set(mentions)])("%s", (mention) => {
  expect(unknownWords(mention)).toEqual([]);
});

test.each([
  ["holdfast rum -- x", ["rum"]],
  ["holdfast runs list --jsom", ["--jsom"]],
  ["holdfast gateway run|stip", ["stip"]],
  ["holdfast run --timeout 3s -- npm --what", []],
  ["holdfast runs cleanup [--dry-run] [--yse]", ["--yse"]],
  ["holdfast runs --label ticket=42 lits", ["lits"]],
])("in the command line %s, the unknown words are %j", (mention, unknown) => {
  expect(unknownWords(mention)).toEqual(unknown);
});

/** Commands and options that do not exist. */
function unknownWords(mention: string): string[] {
  let commands: Command[] = [program];
  const given = mention.replaceAll(/"[^"]*"|'[^']*'|\$\([^)]*\)/g, "word").split(/\s+/);
  const isAgent = (word: string): boolean => word === "<agent>" || agents.has(word);
  const words = ["holdfast", ...(expandShortForm(program, given.slice(1), isAgent) ?? given.slice(1))];
  let isValue = false;
  for (const word of words.slice(1)) {
    if (isValue) {
      isValue = false;
      continue;
    }
    if (word === "--" || /^(…|\.\.\.|\||;|&&?|>|<\S+|2>\S*|\\)$/.test(word)) return [];
    if (word.startsWith("-") || word.startsWith("[-")) {
      const flag = word.replaceAll(/[[\],;]/g, "").replace(/=.*/, "");
      const flags = flag.split("|");
      const unknown = flags.filter((one) => !commands.every((command) => hasOption(command, one)));
      if (unknown.length > 0) return unknown;
      isValue = !word.includes("=") && commands.some((command) => optionOf(command, flag)?.required === true);
      continue;
    }
    const below = commands.flatMap(({ commands: inner }) => inner);
    if (below.length === 0) continue;
    const found = word
      .split("|")
      .map(
        (name) => [name, below.find((one) => one.name() === name || one.aliases().includes(name))] as const,
      );
    const unknown = found.filter(([, command]) => command === undefined).map(([name]) => name);
    if (unknown.length > 0) return unknown;
    commands = found.flatMap(([, command]) => command ?? []);
  }
  return [];
}

function hasOption(command: Command, flag: string): boolean {
  return ["--help", "-h", "--version"].includes(flag) || optionOf(command, flag) !== undefined;
}

/** A group without a verb is its `list`, `show` or `status`. */
function optionOf(command: Command, flag: string): Option | undefined {
  const bare = command.commands.find((one) => ["list", "show", "status"].includes(one.name()));
  return [...command.options, ...(bare?.options ?? [])].find(
    (option) => option.long === flag || option.short === flag,
  );
}

function commandsOf(command: Command): Command[] {
  return [command, ...command.commands.flatMap(commandsOf)];
}

function helpOf(command: Command): string {
  let text = "";
  command.configureOutput({ writeOut: (piece) => (text += piece) });
  command.outputHelp();
  return text;
}
