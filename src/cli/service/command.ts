import type { Command } from "commander";
import { asOptionParser, collectPairs, type SetExitCode } from "../options/parsers.js";
import { parseDuration } from "../options/units.js";

const adoptExamples = `
Of a running task: nobody's leaving ends it from here on, neither its caller's
nor the gateway's, and its timeouts are lifted.

Of a process inside a run: it leaves that run with all below it, and has an id,
a record and a stop of its own; either may end without the other. It keeps its
stdout and stderr. If they are pipes or the terminal of the run it leaves, they
break when that one ends, and it is said so. What is only digits is a process;
a run whose id begins with digits is named with its run_ in front.

Exit status: 0, 1 no such run or no process of ours, 2 it cannot be adopted.

Examples:
  holdfast service adopt 4k2m
  holdfast service adopt 4k2m --keep-timeouts
  holdfast service adopt 4711
`;

export function addServiceCommand(program: Command, setExitCode: SetExitCode): void {
  const service = program
    .command("service")
    .summary("services: list, adopt, stop; and the gateway as one")
    .description(
      "Runs that need nobody to wait for them (holdfast run --service starts one), and the gateway itself.",
    );
  service
    .command("list")
    .summary("open services, with their health and processes")
    .description("Open services, with their health and processes: holdfast ps for services only. Only reads.")
    .option("--label <key=value>", "only those with this label (repeatable)", collectPairs)
    .option("--json", "as JSON")
    .action(async ({ label, json }: { label?: Record<string, string>; json?: true }) => {
      const { showPs } = await import("../runs/ps.js");
      setExitCode(
        await showPs({
          kind: "service",
          labels: label ?? {},
          host: null,
          hidden: false,
          watch: false,
          json: json === true,
        }),
      );
    });
  service
    .command("adopt")
    .summary("make a service of a running task, or of a process inside a run")
    .description(
      "Make a service of a running task, or of a process inside a run, as it is, without restarting anything.",
    )
    .argument("<run|pid>", "a run's id, or the beginning of it; or a process id")
    .option("--keep-timeouts", "leave the task's timeouts in force")
    .option("--json", "its record as JSON")
    .addHelpText("after", adoptExamples)
    .action(async (wanted: string, flags: { keepTimeouts?: true; json?: true }) => {
      const { adoptService } = await import("./adopt.js");
      const keepTimeouts = flags.keepTimeouts === true;
      setExitCode(await adoptService({ wanted, keepTimeouts, json: flags.json === true }));
    });
  service
    .command("stop")
    .summary("stop a service, with everything it started")
    .description("Stop a service, with everything it started: the same as holdfast runs cancel.")
    .argument("<run>", "its id, or the beginning of it")
    .option("--grace <duration>", "from asking to terminate to killing", asOptionParser(parseDuration))
    .option("--json", "what became of it, as JSON")
    .action(async (wanted: string, flags: { grace?: number; json?: true }) => {
      const { stopRunCommand } = await import("../stop/stop-run.js");
      setExitCode(await stopRunCommand({ wanted, graceMs: flags.grace ?? null, json: flags.json === true }));
    });
  service
    .command("install")
    .summary("keep a gateway running: write a systemd user unit")
    .description(
      "Write a systemd user unit for the gateway: runs get cgroups of their own and continue when the gateway restarts. For the operator only.",
    )
    .option("--print", "only show it")
    .option("--json", "where it was written and what it says, as JSON")
    .action(async ({ print, json }: { readonly print?: true; readonly json?: true }) => {
      const { installService } = await import("./install.js");
      setExitCode(await installService(print === true, json === true));
    });
}
