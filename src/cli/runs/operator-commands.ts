import { type Command, Option } from "commander";
import { asOptionParser, collectPairs, type SetExitCode } from "../options/parsers.js";
import { parseDuration } from "../options/units.js";

const stopExamples = `
Asks the gateway; when it does not answer in time, or none runs, stops the run
directly: through its anchor, its cgroup or its verified processes. It works
with a store that is locked, full or damaged, and takes at most 20 seconds and
what --grace adds. The record catches up later.

A run of another host is handed to the gateway there, through the database: it
is stopped as soon as that gateway is back, also when it is away now.

Exit status: 0 gone, 1 no such run, 3 something is left or cannot be looked at,
4 handed over to its host, which has not said yet that it is done, 5 the store
cannot be read, so it is not known whether the run exists.

Examples:
  holdfast runs cancel run_4k2m
  holdfast runs cancel 4k2m --kill
`;

const abandonExamples = `
A process in uninterruptible sleep, or of another user, cannot be killed; the
run stays "exiting" and its anchor goes on trying. This ends it on record, as
lost, with the names of those who are left. Refused while there are none.

Exit status: 0 abandoned, 1 no such run, 3 refused or not confirmed.
`;

const forgetExamples = `
For a host that will not come back: ends its open runs on record, as lost and
unproven. Nobody is signalled. Refused while its gateway was heard of within the
lease, and for runs of this host, unless their state directory cannot be seen
from here. Should the host come back all the same, it terminates what it finds
behind an ended record.

Exit status: 0 forgotten, 1 no such run or host, 3 refused or not confirmed.

Examples:
  holdfast runs forget run_4k2m
  holdfast runs forget --host builder-7 --yes
`;

const cleanupExamples = `
Shows each run with its processes and the evidence that they are ours, asks,
ends them, and says what became of each. Nothing is ended on the word of a name or a
command line. What cannot be verified is left alone, and said.

With --all-orphans only runs whose owner is gone, and of services, which live
without a gateway by design, only with --include-services; otherwise everything
in scope, also what a living gateway owns.

With --without-state, and then with nothing else in scope, processes of runs that no
state directory knows of any more, because it was removed: with a living anchor
whose directory is gone, or with a cgroup of a run and its markers. Never while
a supervisor holds the lock of their instance.

Runs of other hosts in scope are handed to the gateways there, except with
--all-orphans.

Exit status: 0 all gone, 1 no such run, 3 something is left or not confirmed,
4 handed over to another host, which has not said yet that it is done.

Examples:
  holdfast runs cleanup --all-orphans --dry-run
  holdfast runs cleanup --session chat-7 --yes
  holdfast runs cleanup --without-state --dry-run
  holdfast runs cleanup --label ticket=42 --all-orphans
`;

const importExamples = `
The file holds JSON, an array or one object per line, as other tools keep it:
  { "pid": 4711, "command": "\\"node\\" \\"/opt/x/wrap.mjs\\"", "wrapperRoot": "/opt/x",
    "startTime": 123, "sessionKey": "…", "agentId": "…", "labels": { } }
An imported process is ended by a gateway, or by runs cleanup, only when it is
alive, runs exactly that command, and its program lies below wrapperRoot.
Otherwise it is left alone. Import only what should be ended.
`;

interface CleanupFlags {
  readonly run?: string;
  readonly session?: string;
  readonly agent?: string;
  readonly label?: Readonly<Record<string, string>>;
  readonly allOrphans?: true;
  readonly withoutState?: true;
  readonly includeServices?: true;
  readonly dryRun?: true;
  readonly yes?: true;
  readonly json?: true;
}

/** What an operator does to runs. */
export function addRunOperatorCommands(runs: Command, setExitCode: SetExitCode): void {
  runs
    .command("cancel")
    .summary("stop a run, with everything it started")
    .description("Stop a run, with everything it started, and wait until all of it is gone.")
    .argument("<run>", "its id, or the beginning of it")
    .option("--grace <duration>", "from asking to terminate to killing", asOptionParser(parseDuration))
    .option("--kill", "kill at once: the same as --grace 0")
    .option("--json", "what became of it, as JSON")
    .addHelpText("after", stopExamples)
    .action(async (wanted: string, flags: { grace?: number; kill?: true; json?: true }) => {
      const { stopRunCommand } = await import("../stop/stop-run.js");
      const graceMs = flags.kill === true ? 0 : (flags.grace ?? null);
      setExitCode(await stopRunCommand({ wanted, graceMs, json: flags.json === true }));
    });

  runs
    .command("abandon")
    .summary("give up on what cannot be killed")
    .description("End a run on record although some of its processes have survived their KILL.")
    .argument("<run>", "its id, or the beginning of it")
    .option("--yes", "do not ask")
    .option("--json", "what became of it, as JSON")
    .addHelpText("after", abandonExamples)
    .action(async (wanted: string, flags: { yes?: true; json?: true }) => {
      const { abandonRun } = await import("./abandon.js");
      setExitCode(await abandonRun(wanted, flags.yes === true, flags.json === true));
    });

  runs
    .command("forget")
    .summary("give up the runs of a host that will not come back")
    .description("End runs of another host on record, on your word that it will not come back.")
    .argument("[run]", "its id, or the beginning of it")
    .option("--host <host>", "all open runs of this host, by its name or id, and its gateways")
    .option("--yes", "do not ask")
    .option("--json", "what became of each, as JSON")
    .addHelpText("after", forgetExamples)
    .action(async (run: string | undefined, flags: { host?: string; yes?: true; json?: true }) => {
      const { forgetRuns } = await import("./forget.js");
      const { host = null, yes = false, json = false } = flags;
      setExitCode(await forgetRuns({ run: run ?? null, host, yes, json }));
    });

  runs
    .command("cleanup")
    .summary("end runs by id, session, agent or label, or all without an owner")
    .description("Show what is left, and why it is ours; ask; end it.")
    .option("--run <run>", "this run")
    .option("--session <key>", "runs of this session")
    .option("--agent <id>", "runs of this agent")
    .option("--label <key=value>", "runs with this label (repeatable)", collectPairs)
    .option("--all-orphans", "only runs whose owner is gone, without services")
    .option("--include-services", "with --all-orphans: services, too")
    .addOption(
      new Option(
        "--without-state",
        "processes of runs whose state directory was removed; only of one with --run",
      ).conflicts(["session", "agent", "label", "allOrphans", "includeServices"]),
    )
    .option("--dry-run", "only show")
    .option("--yes", "do not ask")
    .option("--json", "runs, evidence and outcomes as JSON")
    .addHelpText("after", cleanupExamples)
    .action(async (flags: CleanupFlags) => {
      if (flags.withoutState === true) {
        const { run = null, dryRun = false, yes = false, json = false } = flags;
        const { cleanupWithoutState } = await import("./without-state.js");
        setExitCode(await cleanupWithoutState({ run, dryRun, yes, json }));
        return;
      }
      const { cleanupRuns } = await import("./cleanup.js");
      setExitCode(
        await cleanupRuns({
          run: flags.run ?? null,
          session: flags.session ?? null,
          agent: flags.agent ?? null,
          labels: flags.label ?? {},
          allOrphans: flags.allOrphans === true,
          includeServices: flags.includeServices === true,
          dryRun: flags.dryRun === true,
          yes: flags.yes === true,
          json: flags.json === true,
        }),
      );
    });

  runs
    .command("import")
    .summary("take over another tool's records of its processes")
    .description(
      "Record processes that another tool started and kept on file, to have them ended if all of it matches.",
    )
    .argument("<file>", "JSON: pid, command, wrapperRoot of each")
    .option("--dry-run", "only compare with what is running")
    .option("--json", "the records and what was found, as JSON")
    .addHelpText("after", importExamples)
    .action(async (file: string, flags: { dryRun?: true; json?: true }) => {
      const { importRuns } = await import("./import.js");
      setExitCode(await importRuns(file, flags.dryRun === true, flags.json === true));
    });
}
