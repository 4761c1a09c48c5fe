import type { Command, HelpConfiguration, Option } from "commander";
import { didYouMean } from "../../text/did-you-mean.js";

/** Help without aliases (old spellings), and with defaults as a user would write them. */
export const helpConfiguration: HelpConfiguration = {
  subcommandTerm: (command) => {
    const words = command.registeredArguments.map((argument) => {
      const name = `${argument.name()}${argument.variadic ? "..." : ""}`;
      return argument.required ? `<${name}>` : `[${name}]`;
    });
    return [command.name(), ...(command.options.length > 0 ? ["[options]"] : []), ...words].join(" ");
  },
  commandUsage: (command) => `${fullName(command)} ${command.usage()}`,
  optionDescription: (option) => {
    const { description, argChoices } = option;
    const choices = argChoices === undefined ? "" : `: ${argChoices.join(", ")}`;
    const value = defaultText(option);
    return `${description}${choices}${value === null ? "" : ` (default: ${value})`}`;
  },
};

/** Null: there is no default worth showing. */
function defaultText({ defaultValue, defaultValueDescription, negate }: Option): string | null {
  if (defaultValueDescription !== undefined) return defaultValueDescription;
  if (negate || (typeof defaultValue !== "string" && typeof defaultValue !== "number")) return null;
  return typeof defaultValue === "string" ? defaultValue : defaultValue.toLocaleString("en-US");
}

function fullName(command: Command): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`;
}

/** Commands of other tools, and the command that does the same here. */
const EQUIVALENTS: Readonly<Record<string, string>> = {
  top: "ps --watch",
  list: "ps",
  ls: "ps",
  jobs: "ps",
  status: "gateway status",
  restart: "gateway restart",
  start: "run --detach",
  exec: "run",
  spawn: "run",
  up: "run --service",
  log: "logs",
  tail: "logs --follow",
  show: "inspect",
  cancel: "stop",
  terminate: "stop",
  end: "stop",
  delete: "rm",
  remove: "rm",
  prune: "process clear",
  clean: "runs cleanup",
  cleanup: "runs cleanup",
  session: "sessions",
  task: "tasks",
  approval: "approvals",
  approve: "approvals allow",
  channels: "notify channels",
  daemon: "gateway",
  server: "gateway",
};

/** An unknown word on a command line, and the command group it was given to. */
interface UnknownCommand {
  readonly group: Command;
  readonly word: string;
  /** Commands to use instead, without `holdfast`; the likeliest first. */
  readonly suggestions: readonly string[];
}

/** Null: each word in a command's place is a command. */
export function findUnknownCommand(program: Command, words: readonly string[]): UnknownCommand | null {
  let command = program;
  for (const word of words) {
    if (command.commands.length === 0 || word.startsWith("-")) return null;
    const next = findCommand(command, word);
    if (next === undefined) return { group: command, word, suggestions: suggest(command, word) };
    command = next;
  }
  return null;
}

/** By name or alias. */
export function findCommand(group: Command, word: string): Command | undefined {
  return group.commands.find((each) => each.name() === word || each.aliases().includes(word));
}

export function unknownCommandText({ group, word, suggestions }: UnknownCommand): string {
  const [first, ...others] = suggestions.map((each) => `holdfast ${each}`);
  // After `acp`, the name of an agent is a command, too.
  if (first === undefined && group.name() === "acp")
    return `error: '${word}' is neither a command of acp nor an agent that speaks ACP; holdfast agents lists the agents`;
  if (first === undefined) return `error: unknown command '${word}'; holdfast help lists the commands`;
  return `error: unknown command '${word}' (did you mean ${[first, ...others].join(" or ")}?)`;
}

function suggest(group: Command, word: string): string[] {
  const path = groupPath(group);
  // `holdfast agent claude`: the name of an agent instead of a verb.
  if (path === "agent") return [`agent run ${word} <prompt>`];
  const equivalent = path === "" && Object.hasOwn(EQUIVALENTS, word) ? EQUIVALENTS[word] : undefined;
  if (equivalent !== undefined) return [equivalent];
  const near = didYouMean(word, visibleNames(group));
  const inGroup = near.map((name) => (path === "" ? name : `${path} ${name}`));
  // `holdfast tasks logs`: a verb that only the top level has.
  const root = rootOf(group);
  return inGroup.length > 0 || path === "" || !visibleNames(root).includes(word) ? inGroup : [word];
}

function visibleNames(group: Command): string[] {
  return group
    .createHelp()
    .visibleCommands(group)
    .map((each) => each.name());
}

function rootOf(command: Command): Command {
  return command.parent === null ? command : rootOf(command.parent);
}

function groupPath(group: Command): string {
  if (group.parent === null) return "";
  const above = groupPath(group.parent);
  return above === "" ? group.name() : `${above} ${group.name()}`;
}
