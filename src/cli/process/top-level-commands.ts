import { type Command, InvalidArgumentError, Option } from "commander";
import { RUN_ARGUMENT, type SetExitCode } from "../options/command-definition.js";
import {
  asOptionParser,
  collectPairs,
  parseLineCount,
  parseOffset,
  parsePositiveInteger,
} from "../options/parsers.js";
import { parseDuration, parseTime } from "../options/durations-and-sizes.js";
import type { PsRequest } from "../runs/ps-table.js";
import type { EventsRequest } from "./events.js";
import type { LogsFlags } from "./logs.js";

export function addPsCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("ps")
    .summary("list open runs with their processes, CPU time and memory")
    .description(
      "List open runs with their live process trees, CPU time and memory. Runs of other hosts are shown as recorded. Read-only; needs no gateway.",
    )
    .option("-a, --all", "also list runs that have ended or were removed")
    .option("--label <key=value>", "only runs with this label (repeatable)", collectPairs)
    .option("--host <host>", "only runs of this host: its name, or the beginning of its id")
    .option("-w, --watch", "refresh every two seconds")
    .option("--json", "print a JSON array of runs; with --watch, one array per line")
    .action(async (flags: PsRequest) => {
      const { showPs } = await import("../runs/ps.js");
      setExitCode(await showPs(flags));
    });
}

export function addInspectCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("inspect")
    .summary("show everything about runs")
    .description(
      "Show everything about runs: state or outcome, live processes, guarantees, residue and events. Read-only.",
    )
    .argument("<run...>", RUN_ARGUMENT)
    .option("--json", "print the records as JSON, with processes and events")
    .action(async (runs: readonly string[], { json }: { readonly json?: true }) => {
      const { showRuns } = await import("../runs/show.js");
      setExitCode(await showRuns(runs, json === true));
    });
}

const waitHelp = `
Prints the exit code of each run, as a shell reports it: 128+n for signal n.

Exit status: 0 all runs have ended, 1 no such run.

Examples:
  run=$(holdfast run --detach -- make check)
  code=$(holdfast wait "$run")
`;

export function addWaitCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("wait")
    .summary("wait until runs have ended, and print their exit codes")
    .description("Wait until runs have ended, and print their exit codes. Read-only; needs no gateway.")
    .argument("<run...>", RUN_ARGUMENT)
    .option("--json", "print the record of each run, one JSON object per line")
    .addHelpText("after", waitHelp)
    .action(async (runs: readonly string[], { json }: { readonly json?: true }) => {
      const { waitForRuns } = await import("./poll-screen-and-wait.js");
      setExitCode(await waitForRuns(runs, json === true));
    });
}

const stopHelpWith = (graceTime: string): string => `
The request goes to the gateway first. If it does not answer in time, or none is
running, the run is stopped directly: through its anchor, its cgroup or its verified
processes. This works with a store that is locked, full or damaged, and takes at most
20 seconds${graceTime}. The record is completed later.

A stop of a run on another host is forwarded through the database to its gateway,
which stops it as soon as it is available.

Exit status: 0 gone, 1 no such run, 3 processes are left or cannot be inspected,
4 forwarded to another host that has not confirmed the stop yet, 5 the store
cannot be read, so it is not known whether the run exists.
`;

/** Shared by the commands that stop runs with a grace period. */
export const stopHelp = stopHelpWith(" plus what --grace adds");

export function addStopCommands(program: Command, setExitCode: SetExitCode): void {
  program
    .command("stop")
    .summary("stop runs: TERM, grace period, KILL, until nothing is left")
    .description("Stop runs with every process they started, and wait until all of them are gone.")
    .argument("<run...>", RUN_ARGUMENT)
    .option("--grace <duration>", "time between TERM and KILL", asOptionParser(parseDuration))
    .option("--json", "print the result of each run, one JSON object per line")
    .addHelpText("after", stopHelp)
    .action(async (runs: readonly string[], flags: { grace?: number; json?: true }) => {
      const { stopRuns } = await import("../stop/stop-run.js");
      setExitCode(await stopRuns(runs, flags.grace ?? null, flags.json === true));
    });
  program
    .command("kill")
    .summary("stop runs at once: KILL without a grace period")
    .description("Kill runs with every process they started, without a grace period.")
    .argument("<run...>", RUN_ARGUMENT)
    .option("--json", "print the result of each run, one JSON object per line")
    .addHelpText("after", stopHelpWith(""))
    .action(async (runs: readonly string[], { json }: { readonly json?: true }) => {
      const { stopRuns } = await import("../stop/stop-run.js");
      setExitCode(await stopRuns(runs, 0, json === true));
    });
}

export function addRemoveCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("rm")
    .summary("remove ended runs from lists")
    .description("Remove ended runs from lists. Their records stay until retention deletes them.")
    .argument("<run...>", RUN_ARGUMENT)
    .option("-f, --force", "stop runs that are still open")
    .option("--json", "print the result of each run, one JSON object per line")
    .addHelpText(
      "after",
      "\nExit status: 0 removed, 1 no such run, or it is still open, 3 processes are left.\n",
    )
    .action(async (runs: readonly string[], flags: { readonly force?: true; readonly json?: true }) => {
      const { removeRuns } = await import("../stop/remove-runs.js");
      setExitCode(await removeRuns(runs, { force: flags.force === true, json: flags.json === true }));
    });
}

export function addScreenCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("screen")
    .summary("print what the terminal of a run shows now")
    .description("Print what the terminal of a run shows now, as text. Read-only.")
    .argument("<run>", RUN_ARGUMENT)
    .option("--json", "print rows, cursor, title and modes as JSON")
    .action(async (wanted: string, { json }: { readonly json?: true }) => {
      const { showScreen } = await import("./poll-screen-and-wait.js");
      setExitCode(await showScreen(wanted, json === true));
    });
}

export function addAttachCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("attach")
    .summary("connect this terminal to a run")
    .description(
      "Show the output of a run live, and send it keys. Several terminals can be attached; Ctrl-] detaches, and the run continues.",
    )
    .argument("<run>", RUN_ARGUMENT)
    .option("--read-only", "show the output, send no keys")
    .action(async (wanted: string, { readOnly }: { readonly readOnly?: true }) => {
      const { attachToRun } = await import("./attach.js");
      setExitCode(await attachToRun(wanted, readOnly === true));
    });
}

const logsHelp = `
On a terminal the last 200 lines of each stream are printed; with stdout piped, all
that is kept. A note on stderr reports what was left out. Only the newest output is
kept when a run writes more than its limit.

--since is exact to five seconds.

Examples:
  holdfast logs 4k2m
  holdfast logs 4k2m -f --since 10m
  holdfast logs web -n all > web.log
`;

export function addLogsCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("logs")
    .summary("print the output of a run")
    .description("Print the output of a run; with -f, also what it writes until it ends. Read-only.")
    .argument("<run>", RUN_ARGUMENT)
    .option("-f, --follow", "continue until the run has ended")
    .addOption(
      new Option("-n, --lines <n>", "print this many lines of each stream, or all")
        .argParser(parseLineCount)
        .default(undefined, "200 on a terminal, else all"),
    )
    .addOption(
      new Option("--since <time>", "print output since this time: 10m, 2026-01-31T12:00")
        .argParser(asOptionParser((text) => parseTime(text, Date.now())))
        .conflicts("lines"),
    )
    .addOption(new Option("--stream <name>", "only this stream").choices(["stdout", "stderr"]))
    .option("--raw", "print escape sequences unchanged")
    .option("--json", "print text with offsets, one JSON object per line")
    .addHelpText("after", logsHelp)
    .action(async (wanted: string, flags: LogsFlags) => {
      const { selectLogs, showLogs } = await import("./logs.js");
      const streams = flags.stream === undefined ? (["stdout", "stderr"] as const) : [flags.stream];
      setExitCode(await showLogs({ ...flags, wanted, streams, page: selectLogs(flags) }));
    });
}

export function addEventsCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("events")
    .summary("print what happened to runs, in order")
    .description("Print what happened to all runs, or to one, in order. Read-only.")
    .option("-a, --all", "include output heartbeats: one per run every five seconds while it writes")
    .option("-f, --follow", "continue with new events")
    .option("--run <run>", `only events of this run: ${RUN_ARGUMENT}`)
    .option("--host <host>", "only events of this host: its name, or the beginning of its id")
    .option("--after <seq>", "only events after this number", parseOffset, 0)
    .option("--limit <n>", "print at most the newest n events", parsePositiveInteger, 100)
    .option("--json", "print one JSON object per line")
    .action(async (flags: EventsRequest) => {
      const { showEvents } = await import("./events.js");
      setExitCode(await showEvents(flags));
    });
}

const whoExamples = `
Ancestry, cgroup and identity are proof; an environment marker alone is only a claim.

With --host of another host, only records are searched: they have the pids of the
leader and of the anchor of each run, which cannot be verified from here.

Exit status: 0 found, 1 the process belongs to no run, 5 the store cannot be read.

Examples:
  holdfast who 4711
  holdfast who 4711 --host build-7
  holdfast who $(pgrep -n chrome) --json | jq .runId
`;

export function addWhoCommand(program: Command, setExitCode: SetExitCode): void {
  program
    .command("who")
    .summary("find the run that a process belongs to, with proof")
    .description("Find the run that a process belongs to, its owner, and the proof. Read-only.")
    .argument("<pid>", "a process id", parsePid)
    .option("--host <host>", "the host of the process: its name, or the beginning of its id")
    .option("--json", "print JSON")
    .addHelpText("after", whoExamples)
    .action(async (pid: number, { host, json }: { readonly host?: string; readonly json?: true }) => {
      const { showProcessOwner } = await import("../runs/who.js");
      setExitCode(await showProcessOwner(pid, host ?? null, json === true));
    });
}

function parsePid(text: string): number {
  const number = /^\d{1,10}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > 2 ** 31 - 1) throw new InvalidArgumentError("Write a process id.");
  return number;
}
