import { Argument, type Command } from "commander";
import type { SetExitCode } from "../options/parsers.js";

const examples = `
Examples:
  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
  holdfast completion zsh > ~/.zfunc/_holdfast     # a directory of $fpath
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
`;

export function addCompletionCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("completion")
    .summary("a completion script for your shell")
    .description("Print a script that completes commands and options in your shell.")
    .addArgument(new Argument("<shell>", "which one").choices(["bash", "zsh", "fish"]))
    .addHelpText("after", examples)
    .action(async (shell: "bash" | "zsh" | "fish") => {
      const { completionScript } = await import("./script.js");
      const { print } = await import("../print/stdout.js");
      print(completionScript(program, shell));
      setExitCode(0);
    });
}
