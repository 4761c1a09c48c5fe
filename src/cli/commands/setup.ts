import type { Command } from "commander";
import type { Finish } from "../program.js";

export function addServiceCommand(program: Command, finish: Finish): void {
  const service = program
    .command("service")
    .summary("keep a gateway running")
    .description("Keep a gateway running as a service of this user's.");
  service
    .command("install")
    .summary("write a systemd user unit")
    .description(
      "Write a systemd user unit for the gateway: runs get cgroups of their own, and outlive its restarts.",
    )
    .option("--print", "only show it")
    .option("--json", "where it was written and what it says, as JSON")
    .action(async ({ print, json }: { readonly print?: true; readonly json?: true }) => {
      const { installService } = await import("../service/install.js");
      finish(await installService(print === true, json === true));
    });
}

export function addConfigCommand(program: Command, finish: Finish): void {
  const config = program
    .command("config")
    .summary("the config file")
    .description(
      "The config file: $HOLDFAST_CONFIG, else ~/.config/holdfast/config.toml. See docs/config.md.",
    );
  config
    .command("check")
    .summary("whether it can be used")
    .description("Say whether the config file can be used, and what is wrong if not. Only reads.")
    .option("--json", "as JSON")
    .action(async ({ json }: { readonly json?: true }) => {
      const { checkConfigFile } = await import("../service/config.js");
      finish(await checkConfigFile(json === true));
    });
  config
    .command("show")
    .summary("what holds, and where each comes from")
    .description(
      "Show every setting as it holds, and whether the environment, the file or a default says so. Only reads.",
    )
    .option("--json", "as JSON")
    .action(async ({ json }: { readonly json?: true }) => {
      const { showConfigFile } = await import("../service/config.js");
      finish(await showConfigFile(json === true));
    });
}
