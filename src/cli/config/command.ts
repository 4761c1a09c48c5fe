import type { Command } from "commander";
import type { SetExitCode } from "../options/parsers.js";

export function addConfigCommand(program: Command, setExitCode: SetExitCode): void {
  const config = program
    .command("config")
    .summary("the config file")
    .description(
      "The config file: $HOLDFAST_CONFIG, else ~/.config/holdfast/config.toml. See docs/reference/config.md.",
    );
  config
    .command("check")
    .summary("whether it can be used")
    .description("Say whether the config file can be used, and what is wrong if not. Only reads.")
    .option("--json", "as JSON")
    .action(async ({ json }: { readonly json?: true }) => {
      const { checkConfigFile } = await import("./config-file.js");
      setExitCode(await checkConfigFile(json === true));
    });
  config
    .command("show")
    .summary("what holds, and where each comes from")
    .description(
      "Show every setting as it holds, and whether the environment, the file or a default says so. Only reads.",
    )
    .option("--json", "as JSON")
    .action(async ({ json }: { readonly json?: true }) => {
      const { showConfigFile } = await import("./config-file.js");
      setExitCode(await showConfigFile(json === true));
    });
}
