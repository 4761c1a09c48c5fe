import { Argument, type Command } from "commander";
import type { SetExitCode } from "../options/parsers.js";
import { COMPLETED_KINDS, type CompletedKind } from "./kinds.js";

const examples = `
Examples:
  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
  holdfast completion zsh > ~/.zfunc/_holdfast     # a directory of $fpath
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
`;

export function addCompletionCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("completion")
    .summary("print a completion script for your shell")
    .description(
      "Print a script that completes commands, options, runs, sessions, tasks, agents and channels in your shell.",
    )
    .addArgument(new Argument("<shell>", "the shell").choices(["bash", "zsh", "fish"]))
    .addHelpText("after", examples)
    .action(async (shell: "bash" | "zsh" | "fish") => {
      const { completionScript } = await import("./script.js");
      const { print } = await import("../print/stdout.js");
      print(completionScript(program, shell));
      setExitCode(0);
    });
  program
    .command("__complete", { hidden: true })
    .summary("print the words that complete an argument")
    .description("Print the words that complete an argument, for completion scripts. Read-only.")
    .addArgument(new Argument("<kind>", "the kind of argument").choices(COMPLETED_KINDS))
    .action(async (kind: CompletedKind) => {
      const { printCompletions } = await import("./complete.js");
      setExitCode(await printCompletions(kind));
    });
}
