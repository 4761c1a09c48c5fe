import type { Command } from "commander";
import { lazyAction, type SetExitCode } from "../options/command-definition.js";

export function addConfigCommand(program: Command, setExitCode: SetExitCode): void {
  const config = program
    .command("config")
    .summary("the config file: show, check")
    .description(
      "The config file: $HOLDFAST_CONFIG, else ~/.config/holdfast/config.toml. See docs/reference/config.md.",
    );
  config
    .command("check")
    .summary("check the config file")
    .description("Check the config file, and print what is wrong. Read-only.")
    .option("--json", "print JSON")
    .action(lazyAction(setExitCode, () => import("./check-and-show.js"), "checkConfigFile"));
  config
    .command("show", { isDefault: true })
    .summary("show every setting and its source")
    .description(
      "Show the value of every setting, and whether it comes from the environment, the file or the default. Read-only.",
    )
    .option("--json", "print JSON")
    .action(lazyAction(setExitCode, () => import("./check-and-show.js"), "showConfigFile"));
}
