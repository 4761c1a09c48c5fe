import type { Command } from "commander";
import type { SetExitCode } from "../options/parsers.js";

const unmanagedExamples = `
Profiles are declared in the config file ($HOLDFAST_CONFIG, else
~/.config/holdfast/config.toml):

  [[foreign]]
  name = "jenkins"
  marker = "JENKINS_NODE_COOKIE"
  owner = "orphaned"       # or { pid-variable = "X" }, { pid-file = "/run/x.pid" }

A process counts only by the variable in its environment and by what became of
its owner, never by its name or command line. Nothing is ended unless asked.

Examples:
  holdfast foreign list
  holdfast foreign cleanup jenkins --dry-run
`;

export function addUnmanagedCommand(program: Command, setExitCode: SetExitCode): void {
  const foreign = program
    .command("foreign")
    .summary("processes that other tools have marked and left behind")
    .description("Processes that other tools have marked and left behind.")
    .addHelpText("after", unmanagedExamples);
  foreign
    .command("list")
    .summary("those whose owner is gone, with the evidence")
    .description("Processes that carry a declared marker and whose owner is gone, with the evidence.")
    .argument("[profile]", "only of this profile")
    .option("--all", "those whose owner lives, too")
    .option("--json", "as JSON")
    .action(async (profile: string | undefined, flags: { all?: true; json?: true }) => {
      const { printUnmanaged } = await import("./unmanaged.js");
      setExitCode(await printUnmanaged(profile ?? null, flags.all === true, flags.json === true));
    });
  foreign
    .command("cleanup")
    .summary("end them, after asking")
    .description("End the processes of one profile whose owner is gone, after asking.")
    .argument("<profile>", "of the config file")
    .option("--dry-run", "only show")
    .option("--yes", "do not ask")
    .option("--json", "as JSON")
    .action(async (profile: string, flags: { dryRun?: true; yes?: true; json?: true }) => {
      const { cleanupUnmanaged } = await import("./unmanaged.js");
      const { dryRun = false, yes = false, json = false } = flags;
      setExitCode(await cleanupUnmanaged(profile, { dryRun, yes, json }));
    });
}
