import type { Command } from "commander";

/** Of a command of a command, too, which commander's own does not know. */
export function addHelpCommand(program: Command): void {
  program
    .helpCommand(false)
    .command("help")
    .summary("print help for a command")
    .description("Print help for a command.")
    .argument("[command...]", "its words: service adopt")
    .action((words: readonly string[]) => {
      let command = program;
      for (const word of words) {
        const next = command.commands.find((each) => each.name() === word);
        if (next === undefined)
          program.error(`error: there is no command '${words.join(" ")}'; holdfast help lists them`);
        else command = next;
      }
      command.help();
    });
}
