import type { Command } from "commander";

/**
 * `acp codex "…"` means `acp with codex "…"`: the words with `with` inserted. Names of commands come before names of
 * agents. Null: it is another command line.
 */
export function expandShortForm(
  program: Command,
  words: readonly string[],
  isAgent: (word: string) => boolean,
): readonly string[] | null {
  const [noun, word] = words;
  if (noun !== "acp" || word === undefined || word.startsWith("-")) return null;
  const acp = program.commands.find((command) => command.name() === "acp");
  const isCommand =
    acp?.commands.some((each) => each.name() === word || each.aliases().includes(word)) === true;
  return isCommand || !isAgent(word) ? null : ["acp", "with", ...words.slice(1)];
}

/** True if the first words may be the short form, so that the catalogue has to be read. */
export function mayBeShortForm(program: Command, words: readonly string[]): boolean {
  return expandShortForm(program, words, () => true) !== null;
}
