import { type Command, Option } from "commander";
import { lazyAction, type SetExitCode } from "../options/command-definition.js";
import { asOptionParser } from "../options/parsers.js";
import { parseDuration } from "../options/durations-and-sizes.js";

const runExamples = `
A gateway owns the runs of a state directory: it renews their leases, takes over runs
of a killed supervisor, ends runs that must not outlive their owner, and deletes old
records. There is one per state directory. If it is killed, the runs continue under
their anchors, and the next gateway takes them over.

If the database is unavailable at its start, the gateway waits for it and keeps its
runs alive: no run ends because the database is unavailable.

Ctrl-C detaches from the runs and exits. An anchor ends its run when the run's
owner-loss time is over; services continue.

Examples:
  holdfast gateway run
  holdfast gateway run --json | jq 'select(.type == "decision")'
`;

const stopExamples = `
leave      runs continue under their anchors, which end them after the owner-loss
           time (two minutes) if no gateway runs by then; services continue
drain      wait for runs that are no services to end, then leave the rest
terminate  stop every run, including services, and wait until all are gone

Foreground commands (holdfast run) continue as well, and their callers wait half a
minute for the next gateway; then the anchor ends the command. The callers do not
start a gateway, unlike after a gateway was killed.

A gateway that does not answer is ended by a signal to its verified process, and its
runs are left. With terminate, its runs are stopped directly before that, also if no
gateway is running. drain needs a gateway that answers. The command takes at most 20
seconds, plus --wait with drain.

Exit status: 0 stopped, 3 the gateway or a process of a run is still alive.

Examples:
  holdfast gateway stop
  holdfast gateway stop --runs drain --wait 10m
`;

interface RunFlags {
  readonly json?: true;
  readonly quiet?: true;
  readonly wait: boolean;
  readonly check?: boolean;
  readonly listen?: string;
  readonly logLevel?: string;
}

export function addGatewayCommand(program: Command, setExitCode: SetExitCode): void {
  const gateway = program
    .command("gateway")
    .summary("the supervisor process of the state directory: start, stop, status")
    .description("The long-lived process that supervises the runs of a state directory and serves the API.");
  gateway
    .command("run")
    .summary("run a gateway in the foreground")
    .description("Run a gateway for this state directory in the foreground, until it is stopped.")
    .option("--json", "print events on stdout, one JSON object per line")
    .option("--quiet", "print nothing; the log has everything")
    .option("--no-wait", "fail if the database is unavailable, instead of waiting for it")
    .option("--check", "only check whether it could start: config file, store and anchor")
    .option("--listen <address>", "also serve the API on this loopback address: 127.0.0.1:7433")
    .addOption(
      new Option("--log-level <level>", "the lowest level to log").choices(["info", "warn", "silent"]),
    )
    .addHelpText("after", runExamples)
    .action(async ({ json, quiet, wait, check, listen, logLevel }: RunFlags) => {
      const { checkGatewayCanStart, runGateway } = await import("./run.js");
      const flags = { "gateway.listen": listen, "gateway.log-level": logLevel };
      if (check === true) return setExitCode(await checkGatewayCanStart(flags));
      setExitCode(await runGateway({ json: json === true, quiet: quiet === true, waits: wait, flags }));
    });
  gateway
    .command("start")
    .summary("start a gateway in the background")
    .description(
      "Start a gateway in the background, and wait until it answers. Does nothing if one is running.",
    )
    .option("--json", "print its status as JSON")
    .action(lazyAction(setExitCode, () => import("./start-and-stop.js"), "startBackgroundGateway"));
  gateway
    .command("stop")
    .summary("stop the gateway; leave, drain or terminate its runs")
    .description(
      "Stop the gateway. By default its runs continue under their anchors. It starts no new runs from then on. A second request replaces the first, except that terminated runs stay terminated.",
    )
    .addOption(
      new Option("--runs <policy>", "what to do with its runs")
        .choices(["leave", "drain", "terminate"])
        .default("leave"),
    )
    .addOption(
      new Option("--wait <duration>", "with drain: how long to wait for the runs")
        .argParser(asOptionParser(parseDuration))
        .default(60_000, "1m"),
    )
    .option("--json", "print what was done as JSON")
    .addHelpText("after", stopExamples)
    .action(lazyAction(setExitCode, () => import("./start-and-stop.js"), "stopBackgroundGateway"));
  gateway
    .command("restart")
    .summary("restart the gateway; its runs continue")
    .description(
      "Stop the gateway and start it again; its runs continue. Config file, store, program and anchor are checked first: if one cannot be used, nothing is stopped. If the new gateway does not start, the former configuration is started again (exit status 3).",
    )
    .option("--json", "print its status as JSON")
    .action(lazyAction(setExitCode, () => import("./restart.js"), "restartBackgroundGateway"));
  gateway
    .command("status", { isDefault: true })
    .summary("show whether a gateway is running, and its state")
    .description(
      "Show whether a gateway is running for this state directory, and its state. Read-only. Exit status 1: none is running; 3: one is running and does not answer.",
    )
    .option("--json", "print JSON")
    .action(lazyAction(setExitCode, () => import("./status.js"), "showGatewayStatus"));
}

const gatewaysExamples = `
up           seen within the last half minute
silent       not seen for longer: busy, disconnected, or killed
unreachable  not seen for five minutes; its runs stay its own, see docs/reference/postgres.md
stopped      it was stopped

Examples:
  holdfast gateways
  holdfast gateways list --json | jq '.[] | select(.presence != "up") | .hostName'
`;

export function addGatewaysCommand(program: Command, setExitCode: SetExitCode): void {
  const gateways = program
    .command("gateways")
    .summary("gateways that share this store")
    .description("Gateways of all hosts that share this store.");
  gateways
    .command("list", { isDefault: true })
    .summary("list gateways with host, state and number of runs")
    .description("List the recorded gateways: host, state, number of open runs. Read-only; needs no gateway.")
    .option("--json", "print a JSON array")
    .addHelpText("after", gatewaysExamples)
    .action(lazyAction(setExitCode, () => import("./list-gateways.js"), "printGateways"));
}
