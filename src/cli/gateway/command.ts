import { type Command, Option } from "commander";
import { asOptionParser, type SetExitCode } from "../options/parsers.js";
import { parseDuration } from "../options/units.js";

const runExamples = `
It holds the runs of this state directory: renews their leases, takes over what
a killed supervisor left, ends what must not outlive its owner, forgets old
runs. One per state directory. Killing it loses nothing: runs stay with their
anchors, and the next gateway goes on with them.

Started while its database is away, it waits for it, says so, and holds its
runs meanwhile: no run is ended because the database is away.

Ctrl-C lets go of the runs and leaves; a task without an owner is ended by its
anchor when its owner-loss time is over, a service goes on.

Examples:
  holdfast gateway run
  holdfast gateway run --json | jq 'select(.type == "decision")'
`;

const stopExamples = `
leave      the runs go on under their anchors; a task is ended there when its
           owner-loss time (two minutes) is over and no gateway has come back
drain      wait for the tasks to end, then as leave; services are left
terminate  stop every run, services too, and wait until it is gone

Foreground commands (holdfast run) that are left go on, too, and their callers
wait for the next gateway: half a minute, then the anchor ends the command.
They do not start one themselves, as they do when a gateway was killed.

A gateway that does not answer is ended by a signal to its verified process, and
its runs are left. With terminate its runs are stopped directly before that, also
when no gateway runs; drain needs one that answers. All of it takes at most 20
seconds, with drain the time of --wait more. Exit status 3 when the gateway or
something of a run is still there, which is named.

Examples:
  holdfast gateway stop
  holdfast gateway stop --runs drain --wait 10m
`;

interface RunFlags {
  readonly json?: true;
  readonly quiet?: true;
  readonly wait: boolean;
  readonly check?: true;
  readonly listen?: string;
  readonly logLevel?: string;
}

export function addGatewayCommand(program: Command, setExitCode: SetExitCode): void {
  const gateway = program
    .command("gateway")
    .summary("the resident supervisor")
    .description("The resident supervisor of a state directory.");
  gateway
    .command("run")
    .summary("look after runs, in the foreground, until told to stop")
    .description("Look after the runs of this state directory, in the foreground, until told to stop.")
    .option("--json", "what happens, one JSON object per line, on stdout")
    .option("--quiet", "say nothing; the log has it")
    .option("--no-wait", "fail when the database is away, instead of waiting for it")
    .option("--check", "only check that it could start: configuration, store and anchor; changes nothing")
    .option("--listen <address>", "answer on this loopback address, too: 127.0.0.1:7433")
    .addOption(new Option("--log-level <level>", "what the log keeps").choices(["info", "warn", "silent"]))
    .addHelpText("after", runExamples)
    .action(async ({ json, quiet, wait, check, listen, logLevel }: RunFlags) => {
      const { checkGatewayCanStart, runGateway } = await import("./run.js");
      const flags = { "gateway.listen": listen, "gateway.log-level": logLevel };
      if (check === true) return setExitCode(await checkGatewayCanStart(flags));
      setExitCode(await runGateway({ json: json === true, quiet: quiet === true, waits: wait, flags }));
    });
  gateway
    .command("start")
    .summary("the same, in the background")
    .description("Start a gateway in the background, and wait until it answers. Does nothing when one runs.")
    .option("--json", "how it is, as JSON")
    .action(async ({ json }: { readonly json?: true }) => {
      const { startBackgroundGateway } = await import("./control.js");
      setExitCode(await startBackgroundGateway(json === true));
    });
  gateway
    .command("stop")
    .summary("stop it; the runs are left, drained or terminated")
    .description(
      "Stop the gateway. Its runs stay with their anchors unless told otherwise. From then on it starts no run. Told again otherwise, it does as it was told last, but what is being terminated stays so.",
    )
    .addOption(
      new Option("--runs <policy>", "what becomes of the runs")
        .choices(["leave", "drain", "terminate"])
        .default("leave"),
    )
    .addOption(
      new Option("--wait <duration>", "with drain: how long to wait for tasks")
        .argParser(asOptionParser(parseDuration))
        .default(60_000, "1m"),
    )
    .option("--json", "what was done, as JSON")
    .addHelpText("after", stopExamples)
    .action(async (flags: { runs: "leave" | "drain" | "terminate"; wait: number; json?: true }) => {
      const { stopBackgroundGateway } = await import("./control.js");
      setExitCode(await stopBackgroundGateway({ runs: flags.runs, waitMs: flags.wait }, flags.json === true));
    });
  gateway
    .command("restart")
    .summary("stop it, start it; its runs go on")
    .description(
      "Stop the gateway and start it again. Its runs go on meanwhile. Configuration, store, program and anchor are checked first; when one cannot be used, nothing is stopped. When the new gateway does not start all the same, the former configuration is started again (exit status 3).",
    )
    .option("--json", "how it is, as JSON")
    .action(async ({ json }: { readonly json?: true }) => {
      const { restartBackgroundGateway } = await import("./restart.js");
      setExitCode(await restartBackgroundGateway(json === true));
    });
  gateway
    .command("status")
    .summary("whether one runs, and how it is")
    .description(
      "Show whether a gateway runs for this state directory, and its state. Only reads. Exit status 1: none runs; 3: one runs and cannot be reached.",
    )
    .option("--json", "as JSON")
    .action(async ({ json }: { readonly json?: true }) => {
      const { showGatewayStatus } = await import("./control.js");
      setExitCode(await showGatewayStatus(json === true));
    });
}

const gatewaysExamples = `
up           heard of within half a minute
silent       not heard of for longer: busy, cut off, or killed
unreachable  not for five minutes; its runs are left to it, see docs/reference/postgres.md
stopped      it said good-bye

Only reads the store: it asks no gateway, and starts none.

Examples:
  holdfast gateways list
  holdfast gateways list --json | jq '.[] | select(.presence != "up") | .hostName'
`;

export function addGatewaysCommand(program: Command, setExitCode: SetExitCode): void {
  const gateways = program
    .command("gateways")
    .summary("every gateway that shares this store")
    .description("Every gateway that keeps its runs in this store, on whatever host.");
  gateways
    .command("list")
    .summary("each with its host, how it is, and how many runs it holds")
    .description("Every gateway on record: its host, whether it is heard of, how many open runs it holds.")
    .option("--json", "as a JSON array")
    .addHelpText("after", gatewaysExamples)
    .action(async ({ json }: { readonly json?: true }) => {
      const { printGateways } = await import("./list.js");
      setExitCode(await printGateways(json === true));
    });
}
