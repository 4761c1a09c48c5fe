import type { Command } from "commander";
import type { Finish } from "../program.js";

const examples = `
It holds the runs of this state directory: renews their leases, takes over what
a killed supervisor left, ends what must not outlive its owner, forgets old
runs. One per state directory. Killing it loses nothing: runs stay with their
anchors, and the next gateway goes on with them.

Ctrl-C lets go of the runs and leaves; a task without an owner is ended by its
anchor when its owner-loss time is over, a service goes on.

Examples:
  holdfast gateway run
  holdfast gateway run --json | jq 'select(.type == "decision")'
`;

export function addGatewayCommand(program: Command, finish: Finish): void {
  const gateway = program
    .command("gateway")
    .summary("the resident supervisor")
    .description("The resident supervisor of a state directory.");
  gateway
    .command("run")
    .summary("look after runs, in the foreground, until told to stop")
    .description("Look after the runs of this state directory, in the foreground, until told to stop.")
    .option("--json", "what happens, one JSON object per line, on stdout")
    .addHelpText("after", examples)
    .action(async ({ json }: { readonly json?: true }) => {
      const { runGateway } = await import("../gateway/run.js");
      finish(await runGateway(json === true));
    });
}
