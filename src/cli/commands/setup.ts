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
    .action(async ({ print }: { readonly print?: true }) => {
      const { installService } = await import("../service/install.js");
      finish(await installService(print === true));
    });
}

export function addConfigCommand(program: Command, finish: Finish): void {
  const config = program
    .command("config")
    .summary("the config file")
    .description("The config file: $HOLDFAST_CONFIG, else ~/.config/holdfast/config.toml.");
  config
    .command("check")
    .summary("whether it can be used")
    .description("Say whether the config file can be used, and what is wrong if not. Only reads.")
    .action(async () => {
      const { checkConfigFile } = await import("../service/config.js");
      finish(await checkConfigFile());
    });
  config
    .command("show")
    .summary("what holds, with defaults filled in")
    .description("Show the configuration that holds, with defaults filled in, as JSON. Only reads.")
    .action(async () => {
      const { showConfigFile } = await import("../service/config.js");
      finish(await showConfigFile());
    });
}
