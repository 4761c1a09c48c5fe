import { type Command, Option } from "commander";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import { FOREIGN_TOOLS } from "../../model/enums.js";
import type { RunStateName } from "../../model/run.js";
import { RUN_ARGUMENT, type SetExitCode } from "../options/command-definition.js";
import { asOptionParser, collectPairs, parsePositiveInteger } from "../options/parsers.js";
import { parseDuration } from "../options/durations-and-sizes.js";
import type { CleanupRequest } from "./cleanup-plan.js";
import type { ForgetOptions } from "./forget.js";
import type { ImportFromFlags } from "./import/import-from-tool.js";
import type { ListRunsRequest } from "./run-table.js";

interface ImportFlags extends ImportFromFlags {
  readonly from?: (typeof FOREIGN_TOOLS)[number];
}

const abandonExamples = `
A process in uninterruptible sleep, or of another user, cannot be killed. Its run
stays in the state "exiting", and its anchor keeps trying. This command ends the
record as lost, and lists the processes that are left. It is refused if there are
none.

Exit status: 0 abandoned, 1 no such run, 3 refused or not confirmed.
`;

const forgetExamples = `
For a host that will not come back: ends the records of its open runs as lost and
unproven. No process is signalled. It is refused if the gateway of the host was
seen within the lease time, and for runs of this host, unless their state directory
cannot be reached from here. If the host returns nevertheless, its gateway stops the
processes of runs whose records have ended.

Exit status: 0 forgotten, 1 no such run or host, 3 refused or not confirmed.

Examples:
  holdfast runs forget run_4k2m
  holdfast runs forget --host builder-7 --yes
`;

const cleanupExamples = `
Shows each run with its processes and the evidence that they belong to it, asks for
confirmation, ends them, and prints the result of each. A name or a command line is
no evidence. Processes that cannot be verified are left alone and listed.

With --all-orphans, only runs whose owner is gone are ended. Services run without a
gateway by design, so they are ended only with --include-services. Without
--all-orphans, every run in scope is ended, also if its owner is alive.

--without-state selects processes of runs whose state directory was removed: those
with a live anchor whose directory is gone, or with a cgroup of a run and its
environment marker. It excludes processes whose instance is locked by a supervisor.
It can be combined only with --run.

Stops of runs on other hosts are forwarded to the gateways there, except with
--all-orphans.

Exit status: 0 all gone, 1 no such run, 3 processes are left, or not confirmed,
4 forwarded to another host that has not confirmed the stop yet.

Examples:
  holdfast runs cleanup --all-orphans --dry-run
  holdfast runs cleanup --session chat-7 --yes
  holdfast runs cleanup --without-state --dry-run
  holdfast runs cleanup --label ticket=42 --all-orphans
`;

const importExamples = `
The file holds JSON, an array or one object per line, as other tools write it:
  { "pid": 4711, "command": "\\"node\\" \\"/opt/x/wrap.mjs\\"", "wrapperRoot": "/opt/x",
    "startTime": 123, "sessionKey": "…", "agentId": "…", "labels": { } }
A gateway, or runs cleanup, ends an imported process only if it is alive, runs
exactly that command, and its program lies below wrapperRoot. Import only processes
that should be ended.

--from acpx reads ~/.acpx, --from openclaw reads $OPENCLAW_STATE_DIR or ~/.openclaw:
sessions, and leases in files and in the state database. The records are only read.
A process is imported only if pid, start time and command match its record, and its
owner is gone; everything else is listed with the reason and left alone.

Examples:
  holdfast runs import --from acpx --dry-run
  holdfast runs import --from openclaw && holdfast runs cleanup --label from=openclaw
`;

/** Commands for an operator whose runs, hosts or state directories were lost. */
function addRecoveryCommands(runs: Command, setExitCode: SetExitCode): void {
  runs
    .command("abandon")
    .summary("end the record of a run that cannot be killed")
    .description("End the record of a run whose processes survived KILL.")
    .argument("<run>", RUN_ARGUMENT)
    .option("--yes", "do not ask for confirmation")
    .option("--json", "print the result as JSON")
    .addHelpText("after", abandonExamples)
    .action(async (wanted: string, flags: { yes?: true; json?: true }) => {
      const { abandonRun } = await import("./abandon.js");
      setExitCode(await abandonRun(wanted, flags.yes === true, flags.json === true));
    });

  runs
    .command("forget")
    .summary("end the records of a host that will not come back")
    .description("End the records of another host that will not come back.")
    .argument("[run]", RUN_ARGUMENT)
    .option("--host <host>", "all open runs and gateways of this host: its name, or the beginning of its id")
    .option("--yes", "do not ask for confirmation")
    .option("--json", "print the results as JSON")
    .addHelpText("after", forgetExamples)
    .action(async (run: string | undefined, flags: ForgetOptions) => {
      const { forgetRuns } = await import("./forget.js");
      setExitCode(await forgetRuns(run ?? null, flags));
    });

  runs
    .command("cleanup")
    .summary("end runs by id, session, agent or label, or all orphans")
    .description("Show runs with the evidence for their processes, ask for confirmation, and end them.")
    .option("--run <run>", `this run: ${RUN_ARGUMENT}`)
    .option("--session <session>", "runs of this session: its key or id")
    .option("--agent <id>", "runs of this agent")
    .option("--label <key=value>", "runs with this label (repeatable)", collectPairs)
    .option("--all-orphans", "only runs whose owner is gone, without services")
    .option("--include-services", "with --all-orphans: also services")
    .addOption(
      new Option("--without-state", "processes of runs whose state directory was removed").conflicts([
        "session",
        "agent",
        "label",
        "allOrphans",
        "includeServices",
      ]),
    )
    .option("--dry-run", "change nothing")
    .option("--yes", "do not ask for confirmation")
    .option("--json", "print runs, evidence and results as JSON")
    .addHelpText("after", cleanupExamples)
    .action(async ({ withoutState, ...flags }: CleanupRequest & { readonly withoutState?: true }) => {
      const { cleanupRuns } = await import("./cleanup.js");
      const { cleanupWithoutState } = await import("./without-state-directory.js");
      setExitCode(await (withoutState === true ? cleanupWithoutState : cleanupRuns)(flags));
    });

  runs
    .command("import")
    .summary("import records of another tool, so that its processes can be ended")
    .description(
      "Import records of processes that another tool started. The processes that match their records can then be ended.",
    )
    .argument(
      "[file]",
      "JSON with pid, command and wrapperRoot of each process; with --from: the tool's state directory",
    )
    .addOption(
      new Option("--from <tool>", "read the records of this tool: its sessions and leases").choices(
        FOREIGN_TOOLS,
      ),
    )
    .option("--owner-gone", "with --from: the tool does not run any more, so nothing manages its processes")
    .option("--dry-run", "only compare with the live processes")
    .option("--json", "print records and findings as JSON")
    .addHelpText("after", importExamples)
    .action(async (file: string | undefined, { from, ...flags }: ImportFlags) => {
      if (from !== undefined) {
        const { importFrom } = await import("./import/import-from-tool.js");
        setExitCode(await importFrom(from, file, flags));
        return;
      }
      if (file === undefined || flags.ownerGone === true)
        throw new BadInput(
          "file",
          file === undefined
            ? "name a file, or a tool with --from; nothing was imported"
            : "--owner-gone is only for --from; nothing was imported",
        );
      const { importRuns } = await import("./import/import-runs.js");
      setExitCode(await importRuns(file, flags.dryRun === true, flags.json === true));
    });
}

const states: readonly RunStateName[] = ["starting", "running", "exiting", "exited"];

/** About two screens; the newest runs come first. */

const listExamples = `
Examples:
  holdfast runs
  holdfast runs --all --label ticket=42
  holdfast runs list --state exited --limit 10 --json | jq '.[].exit'
`;

export function addRunsCommand(program: Command, setExitCode: SetExitCode): void {
  const runs = program
    .command("runs")
    .summary("records of runs: list, show, stop, clean up, import")
    .description("Records of runs: what is running, which gateway owns it, how it ended.");

  runs.commandsGroup("Read:");
  runs
    .command("list", { isDefault: true })
    .summary("list open runs, newest first")
    .description("List open runs, newest first. Read-only.")
    .option("-a, --all", "also list runs that have ended or were removed")
    .addOption(new Option("--state <state>", "only runs in this state").choices(states))
    .option("--label <key=value>", "only runs with this label (repeatable)", collectPairs)
    .option("--host <host>", "only runs of this host: its name, or the beginning of its id")
    .option("--limit <n>", "list at most n runs", parsePositiveInteger, defaults.listedRuns)
    .option("--json", "print a JSON array of records")
    .addHelpText("after", listExamples)
    .action(async (flags: ListRunsRequest) => {
      const { printRuns } = await import("./list.js");
      setExitCode(await printRuns(flags));
    });

  runs
    .command("show")
    .alias("inspect")
    .summary("show everything about a run; the same as holdfast inspect")
    .description(
      "Show everything about a run: state or outcome, live processes, guarantees, residue and events. Read-only.",
    )
    .argument("<run>", RUN_ARGUMENT)
    .option("--json", "print the record as JSON, with processes and events")
    .action(async (run: string, { json }: { readonly json?: true }) => {
      const { showRuns } = await import("./show.js");
      setExitCode(await showRuns([run], json === true));
    });

  runs.commandsGroup("Stop and clean up:");
  runs
    .command("stop")
    .alias("cancel")
    .summary("stop a run; the same as holdfast stop")
    .description("Stop a run with every process it started, and wait until all of them are gone.")
    .argument("<run>", RUN_ARGUMENT)
    .option("--grace <duration>", "time between TERM and KILL", asOptionParser(parseDuration))
    .option("--kill", "kill at once: the same as --grace 0")
    .option("--json", "print the result as JSON")
    .addHelpText("after", "\nSee holdfast stop --help.\n")
    .action(async (wanted: string, flags: { grace?: number; kill?: true; json?: true }) => {
      const { stopRuns } = await import("../stop/stop-run.js");
      const graceMs = flags.kill === true ? 0 : (flags.grace ?? null);
      setExitCode(await stopRuns([wanted], graceMs, flags.json === true));
    });
  addRecoveryCommands(runs, setExitCode);
}
