import type { Command, HelpConfiguration, Option } from "commander";

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

/** Null: there is no default, or none that says anything. */
function defaultText({ defaultValue, defaultValueDescription, negate }: Option): string | null {
  if (defaultValueDescription !== undefined) return defaultValueDescription;
  if (negate || (typeof defaultValue !== "string" && typeof defaultValue !== "number")) return null;
  return typeof defaultValue === "string" ? defaultValue : defaultValue.toLocaleString("en-US");
}

function fullName(command: Command): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`;
}
