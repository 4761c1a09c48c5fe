import { Option, type Command } from "commander";
import type { RunStateName } from "../../model/run.js";
import { collectPairs, parsePositiveInteger, type SetExitCode } from "../options/parsers.js";
import { addRunOperatorCommands } from "./operator-commands.js";

const states: readonly RunStateName[] = ["starting", "running", "exiting", "exited"];

interface ListFlags {
  readonly all?: true;
  readonly state?: RunStateName;
  readonly label?: Readonly<Record<string, string>>;
  readonly host?: string;
  readonly limit: number;
  readonly json?: true;
}

/** Enough for a screen or two; the newest come first. */
const DEFAULT_LIST_LIMIT = 100;

const listExamples = `
Only reads: it starts nothing, changes nothing and creates nothing.

Examples:
  holdfast runs list
  holdfast runs list --all --label ticket=42
  holdfast runs list --state exited --limit 10 --json | jq '.[].exit'
`;

const showExamples = `
Only reads: it starts nothing, changes nothing and creates nothing.

Examples:
  holdfast runs show run_4k2m
  holdfast runs show 4k2m --json | jq .exit
`;

export function addRunsCommand(program: Command, setExitCode: SetExitCode): void {
  const runs = program
    .command("runs")
    .summary("every run on record: list, show, cancel, clean up")
    .description("What is running, who owns it, how it ended.");

  runs.commandsGroup("Look:");
  runs
    .command("list")
    .summary("the runs that are alive, newest first")
    .description("The runs that are alive, newest first.")
    .option("--all", "those that have ended and those that were hidden, too")
    .addOption(new Option("--state <state>", "only those in this state").choices(states))
    .option("--label <key=value>", "only those with this label (repeatable)", collectPairs)
    .option("--host <host>", "only on this host: its name, or the beginning of its id")
    .option("--limit <n>", "at most this many", parsePositiveInteger, DEFAULT_LIST_LIMIT)
    .option("--json", "the records as a JSON array")
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
    .summary("everything about one run")
    .description(
      "Everything about one run: how it stands or ended, its processes now, guarantees, leftovers, events.",
    )
    .argument("<run>", "its id, or the beginning of it")
    .option("--json", "the record as JSON, with its processes and events")
    .addHelpText("after", showExamples)
    .action(async (run: string, { json }: { readonly json?: true }) => {
      const { showRun } = await import("./show.js");
      setExitCode(await showRun(run, json === true));
    });

  runs.commandsGroup("Clean up:");
  addRunOperatorCommands(runs, setExitCode);
}
