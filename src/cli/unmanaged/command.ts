import type { Command } from "commander";
import type { SetExitCode } from "../options/command-definition.js";

const unmanagedExamples = `
Profiles are declared in the config file ($HOLDFAST_CONFIG, or
~/.config/holdfast/config.toml):

  [[foreign]]
  name = "jenkins"
  marker = "JENKINS_NODE_COOKIE"
  owner = "orphaned"       # or { pid-variable = "X" }, { pid-file = "/run/x.pid" }

A process is recognized by the variable in its environment and by the state of its
owner, never by its name or command line.

Examples:
  holdfast unmanaged
  holdfast unmanaged cleanup jenkins --dry-run
`;

export function addUnmanagedCommand(program: Command, setExitCode: SetExitCode): void {
  const unmanaged = program
    .command("unmanaged")
    .alias("foreign")
    .summary("processes that other tools left behind: list, clean up")
    .description("Processes that other tools started and left behind, recognized by an environment marker.")
    .addHelpText("after", unmanagedExamples);
  unmanaged
    .command("list", { isDefault: true })
    .summary("list processes whose owner is gone, with the evidence")
    .description(
      "List processes that have a declared marker and whose owner is gone, with the evidence. Read-only.",
    )
    .argument("[profile]", "only processes of this profile")
    .option("-a, --all", "also list processes whose owner is alive")
    .option("--json", "print JSON")
    .action(async (profile: string | undefined, flags: { all?: true; json?: true }) => {
      const { printUnmanaged } = await import("./list-and-cleanup.js");
      setExitCode(await printUnmanaged(profile ?? null, flags.all === true, flags.json === true));
    });
  unmanaged
    .command("cleanup")
    .summary("end processes of a profile, after confirmation")
    .description("End the processes of a profile whose owner is gone, after confirmation.")
    .argument("<profile>", "a profile of the config file")
    .option("--dry-run", "change nothing")
    .option("--yes", "do not ask for confirmation")
    .option("--json", "print JSON")
    .action(async (profile: string, flags: { dryRun?: true; yes?: true; json?: true }) => {
      const { cleanupUnmanaged } = await import("./list-and-cleanup.js");
      setExitCode(await cleanupUnmanaged(profile, flags));
    });
}
