import type { Command } from "commander";
import { type JsonFlag, lazyAction, RUN_ARGUMENT, type SetExitCode } from "../options/command-definition.js";
import { asOptionParser, collectPairs } from "../options/parsers.js";
import { parseDuration } from "../options/durations-and-sizes.js";

const adoptExamples = `
An ordinary run becomes a service: it no longer ends when its caller or the gateway
ends, and its timeouts are removed.

A process inside a run leaves that run with all its descendants, and becomes a run
of its own with its own id and record. Each of the two can end without the other.
The process keeps its stdout and stderr. If they are pipes or the terminal of the
run that it leaves, they break when that run ends; the command prints a warning.

A number is a process id. Write run_ before a run id that begins with digits.

Exit status: 0 adopted, 1 no such run, or no process of a run, 2 cannot be adopted.

Examples:
  holdfast service adopt 4k2m
  holdfast service adopt 4k2m --keep-timeouts
  holdfast service adopt 4711
`;

export function addServiceCommand(program: Command, setExitCode: SetExitCode): void {
  const service = program
    .command("service")
    .alias("services")
    .summary("services: list, adopt, stop; install the gateway as one")
    .description(
      "Services: runs that continue without a gateway (holdfast run --service starts one), and the gateway itself as a system service.",
    );
  service
    .command("list", { isDefault: true })
    .summary("list open services with their health and processes")
    .description("List open services with their health and processes: holdfast ps for services. Read-only.")
    .option("--label <key=value>", "only services with this label (repeatable)", collectPairs)
    .option("--json", "print a JSON array of runs")
    .action(async (flags: JsonFlag & { readonly label?: Record<string, string> }) => {
      const { showPs } = await import("../runs/ps.js");
      setExitCode(await showPs({ kind: "service", ...flags }));
    });
  service
    .command("adopt")
    .summary("convert a run, or a process inside a run, to a service")
    .description("Convert a run, or a process inside a run, to a service without restarting it.")
    .argument("<run|pid>", "a run, or a process id")
    .option("--keep-timeouts", "keep the timeouts of the run")
    .option("--json", "print the record as JSON")
    .addHelpText("after", adoptExamples)
    .action(lazyAction(setExitCode, () => import("./adopt.js"), "adoptService"));
  service
    .command("stop")
    .summary("stop a service; the same as holdfast stop")
    .description("Stop a service with every process it started: the same as holdfast stop.")
    .argument("<run>", RUN_ARGUMENT)
    .option("--grace <duration>", "time between TERM and KILL", asOptionParser(parseDuration))
    .option("--json", "print the result as JSON")
    .action(async (wanted: string, flags: JsonFlag & { readonly grace?: number }) => {
      const { stopRuns } = await import("../stop/stop-run.js");
      setExitCode(await stopRuns([wanted], flags.grace ?? null, flags.json === true));
    });
  service
    .command("install")
    .summary("keep a gateway running as a service of the system")
    .description(
      "Describe the gateway to the service manager of this user: a systemd user unit on Linux, where each run gets its own cgroup and continues when the gateway restarts; a LaunchAgent on macOS; a scheduled task at logon on Windows. Only for the operator.",
    )
    .option("--print", "print the description, write nothing")
    .option("--json", "print the path and the description as JSON")
    .action(lazyAction(setExitCode, () => import("./install.js"), "installService"));
  service
    .command("uninstall")
    .summary("remove what install has written")
    .description(
      "Remove the gateway from the service manager of this user. Runs continue. Only for the operator.",
    )
    .option("--json", "print the path as JSON")
    .action(lazyAction(setExitCode, () => import("./install.js"), "uninstallService"));
}
