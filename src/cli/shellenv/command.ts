import { basename } from "node:path";
import { Argument, type Command } from "commander";
import { HoldfastError } from "../../errors.js";
import { resolveHome } from "../../home/state-directory.js";
import { shellQuote } from "../../text/shell-words.js";
import type { SetExitCode } from "../options/command-definition.js";
import { print } from "../print/write-output.js";

const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];

const examples = `
The native command does the same as the one that npm has installed. It runs a command
in the foreground without starting Node if a gateway is running and the options are
common ones; everything else it leaves to Node. After an upgrade in place it is up to
date. It says so if its installation is gone: then repeat this command.

Examples:
  eval "$(holdfast shellenv)"            # in ~/.bashrc or ~/.zshrc
  holdfast shellenv fish | source        # in ~/.config/fish/config.fish
`;

export function addShellenvCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("shellenv")
    .summary("put the native holdfast command first on PATH")
    .description(
      "Make a directory with the native holdfast command in the state directory, and print the line for your shell that puts it first on PATH.",
    )
    .addArgument(
      new Argument("[shell]", "the shell that evaluates the line (default: from $SHELL)").choices(SHELLS),
    )
    .addHelpText("after", examples)
    .action(async (shell: Shell | undefined) => {
      if (process.platform === "win32")
        throw new HoldfastError(
          "BAD_INPUT",
          "there is no native command for Windows; use the one that npm has installed. Nothing was changed",
        );
      const { makeNativeCommand } = await import("./native-command.js");
      print(`${pathLine(await makeNativeCommand(resolveHome()), shell ?? ownShell())}\n`);
      setExitCode(0);
    });
}

function ownShell(): Shell {
  const name = basename(process.env["SHELL"] ?? "");
  return SHELLS.find((shell) => shell === name) ?? "bash";
}

/** The line that puts a directory first on PATH. Evaluating it again changes nothing. */
function pathLine(directory: string, shell: Shell): string {
  const quoted = shellQuote(directory);
  if (shell === "fish") return `contains -- ${quoted} $PATH; or set -gx PATH ${quoted} $PATH`;
  return `case ":$PATH:" in *:${quoted}:*) ;; *) export PATH=${quoted}:"$PATH" ;; esac`;
}
