import { Option, type Command } from "commander";
import type { RunStateName } from "../../model/run.js";
import {
  asOptionParser,
  collectPairs,
  parsePositiveInteger,
  RUN_ARGUMENT,
  type SetExitCode,
} from "../options/parsers.js";
import { parseDuration } from "../options/units.js";
import { addRecoveryCommands } from "./recovery-commands.js";

const states: readonly RunStateName[] = ["starting", "running", "exiting", "exited"];

interface ListFlags {
  readonly all?: true;
  readonly state?: RunStateName;
  readonly label?: Readonly<Record<string, string>>;
  readonly host?: string;
  readonly limit: number;
  readonly json?: true;
}

/** About two screens; the newest runs come first. */
const DEFAULT_LIST_LIMIT = 100;

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
    .option("--limit <n>", "list at most n runs", parsePositiveInteger, DEFAULT_LIST_LIMIT)
    .option("--json", "print a JSON array of records")
    .addHelpText("after", listExamples)
    .action(async ({ all, state, label, host, limit, json }: ListFlags) => {
      const { printRuns } = await import("./list.js");
      const wanted =
        state !== undefined ? [state] : all === true ? states : states.filter((each) => each !== "exited");
      setExitCode(
        await printRuns({
          states: wanted,
          labels: label ?? {},
          host: host ?? null,
          hidden: all === true,
          limit,
          json: json === true,
        }),
      );
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
